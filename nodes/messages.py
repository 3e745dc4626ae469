"""Name of version 0.1 of `armswing.messages`; it is removed in version 0.3."""

import warnings

from nodes.framework.messages import *  # noqa: F403

warnings.warn("nodes.messages is removed in version 0.3; import armswing.messages", FutureWarning, stacklevel=2)

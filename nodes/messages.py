"""Name of version 0.1 of `armswing.messages`; it goes with version 0.3."""

import warnings

from nodes.framework.messages import *  # noqa: F403

warnings.warn("nodes.messages goes with version 0.3; import armswing.messages", FutureWarning, stacklevel=2)

"""Name of version 0.1 of `armswing.client`; it is removed in version 0.3."""

import warnings
from typing import Any

from nodes.framework import client as _client

warnings.warn("nodes.client is removed in version 0.3; import armswing.client", FutureWarning, stacklevel=2)


def __getattr__(name: str) -> Any:
    return getattr(_client, name)

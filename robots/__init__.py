"""Robot descriptions. `robots.build` and `robots.names` are names of version 0.1 of `armswing.build` and `names`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from sim_core.support.extras import with_install_hint

if TYPE_CHECKING:
    from robots.registry import build as build
    from robots.registry import names as names

__all__ = ["build", "names"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module robots has no attribute {name!r}; its attributes are {', '.join(__all__)}")
    warnings.warn(f"robots.{name} is removed in version 0.3; import it from armswing", FutureWarning, stacklevel=2)
    try:
        from robots import registry
    except ModuleNotFoundError as error:
        raise with_install_hint(error) from None
    return globals().setdefault(name, getattr(registry, name))  # an import statement asks twice


def __dir__() -> list[str]:
    return __all__

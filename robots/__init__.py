"""Robot descriptions: `robots.names()` lists them, `robots.build(name, **parameters)` builds one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim_core.support.extras import with_install_hint

if TYPE_CHECKING:
    from robots.registry import build as build
    from robots.registry import names as names

__all__ = ["build", "names"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module robots has no attribute {name!r}; its attributes are {', '.join(__all__)}")
    try:
        from robots import registry
    except ModuleNotFoundError as error:
        raise with_install_hint(error) from None
    return getattr(registry, name)


def __dir__() -> list[str]:
    return __all__

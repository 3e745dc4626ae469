"""Robot descriptions: `robots.names()` lists them, `robots.build(name, **parameters)` builds one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robots.registry import build as build
    from robots.registry import names as names

__all__ = ["build", "names"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"robots has no {name!r}; it has {', '.join(__all__)}")
    from robots import registry

    return getattr(registry, name)


def __dir__() -> list[str]:
    return __all__

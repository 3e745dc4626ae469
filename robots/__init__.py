"""Robots as data: `robots.names()`, `robots.build(name, **parameters)`."""

from __future__ import annotations

from robots.registry import build, names

__all__ = ["build", "names"]

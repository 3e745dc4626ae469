"""Templates of the HTML pages that studies, sweeps and HIL reports write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template


def template(file: Path, **filters: Callable[..., Any]) -> Template:
    """The Jinja template in a file. It can include the templates of its own folder and of this one.

    filters  functions that the template applies by name
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([file.parent, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(file.name)

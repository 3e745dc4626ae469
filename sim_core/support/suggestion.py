"""Suggestions for names that are probably misspelt, and for files of another kind. Needs the standard library only."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from pathlib import Path

MODELS = (".urdf", ".xml", ".mjcf")  # file name extensions of model files that can be read


def nearest(word: object, known: Iterable[object], cutoff: float = 0.6) -> str:
    """The known name most similar to `word`; "" if no known name has at least the similarity `cutoff` (0 .. 1)."""
    near = difflib.get_close_matches(str(word), [str(name) for name in known], n=1, cutoff=cutoff)
    return near[0] if near else ""


def did_you_mean(word: object, known: Iterable[object], show: Callable[[str], str] = str) -> str:
    """Text such as "; did you mean 'mass_scale'?" for a misspelt `word`, to be appended to an error message.

    A known name is suggested if one of its parts, which "_" and "." separate, equals `word`; at most three are
    suggested. If there is none, the most similar known name is suggested. Returns "" if no name is similar.
    show  function that returns the text for a suggested name
    """
    names = [str(name) for name in known]
    parts = [name for name in names if str(word) in re.split(r"[_.]", name)]
    near = parts[:3] or list(filter(None, [nearest(word, names)]))
    return f"; did you mean {' or '.join(repr(show(name)) for name in near)}?" if near else ""


def falls_hint(path: Path) -> str:
    """Text for the end of a message about a file that is no launch file and no recording; "" unless it is a robot's."""
    is_model = path.suffix.lower() in MODELS
    return f"; it is a robot, which `armswing launch fall --set sim.robot={path}` lets fall" if is_model else ""

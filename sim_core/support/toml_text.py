"""Reading of TOML text from strangers: `tomllib` takes time as the square of the number of parts of a dotted key."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MOST_PARTS = 64  # of a dotted key
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)  # a string or a comment
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}")


def load_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError if it is not valid, or for a dotted key of more than MOST_PARTS."""
    if _LONG_KEY.search(_STRING.sub("s", text)):
        raise ValueError(f"a dotted key has more than {MOST_PARTS} parts; write tables")
    return tomllib.loads(text)

"""Reading of TOML text from strangers, with limits on what takes `tomllib` much time or memory.

Its time grows as the square of the number of parts of a dotted key, and is 10 us for a key and 2 us for a value in a
list; a number of a million digits takes 100 MB.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

MOST_PARTS = 64  # of a dotted key
MOST_KEYS, MOST_COMMAS = 50_000, 700_000
LONGEST_WORD = 1000  # characters outside of quotes: of a number, or of a part of a key
_STRING = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]++|\\.)*+"|\'[^\'\n]*+\'|#[^\n]*+', re.DOTALL
)  # a string or a comment
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}")
_LONG_WORD = re.compile(rf"(?<![\w+-])[\w+-]{{{LONGEST_WORD + 1}}}")
_KEY = re.compile(r"=|\][ \ts]*$", re.MULTILINE)  # of an assignment or a table


def load_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError if it is not valid or exceeds a limit."""
    rest = _STRING.sub("s", text)
    if _LONG_KEY.search(rest):
        raise ValueError(f"a dotted key has more than {MOST_PARTS} parts; write tables")
    if _LONG_WORD.search(rest):
        raise ValueError(f"a word outside of quotes has more than {LONGEST_WORD} characters; shorten it")
    if len(_KEY.findall(rest)) > MOST_KEYS or rest.count(",") > MOST_COMMAS:
        raise ValueError(f"it has more than {MOST_KEYS} keys or {MOST_COMMAS} commas; write many points as CSV")
    return tomllib.loads(text)

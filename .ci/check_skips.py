"""Fails when a test was skipped that .ci/allowed_skips.txt does not list.

    python .ci/check_skips.py JUNIT_XML ALLOWED

A line of ALLOWED: the test's name, a colon, the reason. * in a name stands for anything, # begins a comment.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from fnmatch import fnmatchcase
from pathlib import Path


def allowed_names(text: str) -> list[str]:
    """Name patterns of the list. Raises ValueError on a line that gives no reason."""
    names = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, reason = line.partition(": ")
        if not reason.strip():
            raise ValueError(f"line {number}: {line!r} gives no reason; write 'tests.folder.file.test_name: reason'")
        names.append(name.strip())
    return names


def skipped(junit: Path) -> dict[str, str]:
    """{test name: pytest's reason} of the skipped tests."""
    found = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        skip = case.find("skipped")
        if skip is not None:
            found[f"{case.get('classname')}.{case.get('name')}"] = skip.get("message") or ""
    return found


def main(junit: str, allowed: str) -> int:
    try:
        patterns = allowed_names(Path(allowed).read_text())
        skips = skipped(Path(junit))
    except (OSError, ValueError, ElementTree.ParseError) as error:
        print(f"check_skips: {error}", file=sys.stderr)
        return 2
    unlisted = {
        name: reason
        for name, reason in skips.items()
        if not any(fnmatchcase(name.replace("[", "("), pattern.replace("[", "(")) for pattern in patterns)
    }
    for name, reason in sorted(unlisted.items()):
        print(f"skipped and not on {allowed}: {name}: {reason}", file=sys.stderr)
    print(f"{len(skips)} skipped, {len(unlisted)} of them not allowed")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

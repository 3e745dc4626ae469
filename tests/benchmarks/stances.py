"""Quadrupeds hold a stance: how far they creep in 60 s, and after how many of 20 pushes they stand or lie as in MuJoCo.

python tests/benchmarks/stances.py [ROBOT ...] [--json FILE]
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from bars import at_least, at_most

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.robots.importing.test_quadrupeds import CREEP, SAME, STANCES, alike, creep

SECONDS, PUSHES = 60.0, 20


def main(names: list[str], json_path: str | None = None) -> dict[str, Any]:
    """Measure the robots, print, write JSON where asked, and give the figures."""
    bars = []
    for name in names or STANCES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bars.append(at_most(f"{name}: creep of the base in {SECONDS:g} s (m)", creep(name, SECONDS), CREEP))
            print(bars[-1], flush=True)
            bars.append(at_least(f"{name}: pushes of {PUSHES} that end as in MuJoCo", alike(name, PUSHES), SAME))
            print(bars[-1], flush=True)
    report = {"bars": bars}
    if json_path is not None:
        Path(json_path).write_text(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    words = sys.argv[1:]
    path = words[words.index("--json") + 1] if "--json" in words else None
    main([word for word in words if word in STANCES], path)

"""How often a reader of `load_plan` changes between files: runs of consecutive calls in one file ("stays")."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from nodes.framework.plan.files.file import load_plan

ROOT = Path(__file__).parents[4]
MOST = 42  # 62 before the files of nodes/framework/plan were ordered by the steps of load_plan


def stays(file: Path) -> list[tuple[str, list[str]]]:
    """(file, functions) of each run of consecutive calls in one file of nodes/, where a function counts once."""
    found: list[tuple[str, list[str]]] = []
    seen = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event != "call" or code in seen or "<" in code.co_name or not code.co_filename.startswith(f"{ROOT}/nodes/"):
            return
        seen.add(code)
        if not found or found[-1][0] != code.co_filename:
            found.append((code.co_filename, []))
        found[-1][1].append(code.co_name)

    sys.setprofile(note)
    try:
        load_plan(file)
    finally:
        sys.setprofile(None)
    return found


def test_a_plan_is_loaded_in_few_stays() -> None:
    load_plan(ROOT / "launch/charmie_pick.toml")  # imports
    found = stays(ROOT / "launch/charmie_pick.toml")
    assert len(found) <= MOST, "\n".join(f"{Path(file).name}: {', '.join(names)}" for file, names in found)

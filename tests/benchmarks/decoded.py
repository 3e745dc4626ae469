"""Decoded messages of every shipped launch file, run in lockstep in one process: written, or compared.

    python tests/benchmarks/decoded.py --write FOLDER [--seconds 1.0]
    python tests/benchmarks/decoded.py --against FOLDER

The first command is run on the revision before a change, the second on the revision after it. Wall-clock times,
hashes, versions and paths are left out. Per file and topic the second command prints the number of messages and, if
they differ, the first difference; exit code 1 if any differs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.simulation.compose import compose

LOCKSTEP = ["sim.mode='lockstep'"]
ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = {"sent_ns", "code_hash", "hash", "version", "versions", "timing", "plan", "folder", "file", "path"}


def launch_files() -> Iterator[tuple[str, Path]]:
    """Name and path of each launch file of this checkout that needs one computer."""
    for file in sorted((ROOT / "launch").rglob("*.toml")):
        if "[hosts]" not in file.read_text().splitlines():
            yield file.relative_to(ROOT).as_posix(), file


def messages(file: Path, seconds: float) -> dict[str, list[Any]]:
    """The decoded messages of a run of the launch file in lockstep, by topic."""
    found: dict[str, list[Any]] = {}

    def carry(topic: str, payload: bytes) -> None:
        found.setdefault(topic, []).append(_bare(msgspec.msgpack.decode(payload)))

    plan = load_plan(file, LOCKSTEP)
    seconds = min(seconds, plan.duration_s or seconds)
    with compose(msgspec.structs.replace(plan, duration_s=seconds), carry) as composition:
        composition.run()
    return found


def _bare(value: Any) -> Any:
    """A decoded message without what may differ between two equal runs; non-finite numbers as text."""
    if isinstance(value, dict):
        return {str(key): _bare(item) for key, item in value.items() if key not in LEFT_OUT}
    if isinstance(value, list):
        return [_bare(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def difference(before: Any, after: Any, where: str = "") -> str | None:
    """First difference of two decoded messages, in one line; None if they are equal."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in before or key not in after:
                return f"{where}.{key} is {'new' if key in after else 'gone'}"
            if (found := difference(before[key], after[key], f"{where}.{key}")) is not None:
                return found
        return None
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if (found := difference(old, new, f"{where}[{index}]")) is not None:
                return found
        return None
    return None if before == after and type(before) is type(after) else f"{where}: {before!r} -> {after!r}"[:300]


def compared(before: dict[str, list[Any]], after: dict[str, list[Any]]) -> Iterator[tuple[str, int, str | None]]:
    """(topic, number of messages, first difference or None) of each topic of two runs."""
    for topic in sorted({*before, *after}):
        old, new = before.get(topic, []), after.get(topic, [])
        pairs = enumerate(zip(old, new, strict=False))
        first = next((f"{n}{found}" for n, (a, b) in pairs if (found := difference(a, b)) is not None), None)
        if first is None and len(old) != len(new):
            first = f"{len(old)} messages -> {len(new)}"
        yield topic, len(new), first


def main() -> int:
    """Write the table or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--against", type=Path, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=1.0, help="simulated seconds of each run that is written")
    options = parser.parse_args()
    if (options.write is None) == (options.against is None):
        parser.error("give either --write or --against")
    folder = (options.write or options.against).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    different = 0
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # recorders write here
        for name, file in launch_files():
            table = folder / (name.replace("/", "-").removesuffix(".toml") + ".json.gz")
            try:
                load_plan(file, LOCKSTEP)
            except PlanError as error:
                print(f"{name:38} not run in lockstep: {error}")
                continue
            if options.write:
                with gzip.open(table, "wt", compresslevel=1) as out:
                    json.dump({"seconds": options.seconds, "topics": messages(file, options.seconds)}, out)
                print(f"wrote {table}")
            elif table.exists():
                with gzip.open(table, "rt") as source:
                    before = json.load(source)
                for topic, number, first in compared(before["topics"], messages(file, before["seconds"])):
                    different += first is not None
                    print(f"{name:38} {topic:38} {number:6} {'equal' if first is None else first}")
            else:
                print(f"{name:38} has no table")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())

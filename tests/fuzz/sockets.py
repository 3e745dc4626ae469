"""Mutations of real frames, thrown at every kind of socket there is: none may die, and every frame is accounted for.

    python tests/fuzz/sockets.py --mutations 1000000 --seed 1

The same seed makes the same mutations. Sockets: the stream as a subscriber hears it (all topics, or some), a publisher
that is spoken to, services and their callers, lockstep turns and who asks for them, the registry's calls and its news.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import zmq

from nodes.framework.transport.bus import Context

sys.path.append(str(Path(__file__).resolve().parent))
import fuzz_frames
from fuzz_askers import Calling, Hearing, Scheduling
from fuzz_receivers import Listening, LostError, Publishing, Registering, Serving, Target, Turning

BATCH = 200

TARGETS: tuple[Callable[[Context], Target], ...] = (
    lambda context: Listening(context, None),
    lambda context: Listening(context, [topic for topic, _ in fuzz_frames.stream()]),
    Publishing,
    Serving,
    Registering,
    Turning,
    Calling,
    Scheduling,
    Hearing,
)


def fuzz(mutations: int, seed: int, tell: Callable[[str], None] = print) -> int:
    """Throw so many mutations, the same number at each kind of socket; how many they were. LostError when one dies."""
    logging.disable(logging.WARNING)  # refusals are counted here
    share, thrown = -(-mutations // len(TARGETS)), 0
    for number, make in enumerate(TARGETS):
        context: Context = zmq.Context()
        target = make(context)
        mutator = fuzz_frames.Mutator(seed * 1000 + number)
        began = time.monotonic()
        for size in _batches(share):
            target.throw([mutator.mutate(target.real) for _ in range(size)])
        thrown += share
        rate = share / (time.monotonic() - began)
        counts = f"{share:>7} mutations  {target.sound:>7} sound  {target.refused:>7} refused"
        tell(f"{target.name:<26} {counts}  {rate:.0f}/s")
        target.close()
        context.destroy(linger=0)
    logging.disable(logging.NOTSET)
    return thrown


def _batches(count: int) -> Iterator[int]:
    while count > 0:
        yield min(count, BATCH)
        count -= BATCH


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fz", dir="/tmp") as folder:
        Path(folder).chmod(0o700)
        os.environ["XDG_RUNTIME_DIR"] = folder
        try:
            print(f"{fuzz(given.mutations, given.seed)} mutations, every socket lives")
        except LostError as error:
            print(f"seed {given.seed}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Frames per second and processor share of the viewer's window on a live CHARMIE with 40 curves of 5,000 points.

    python tests/benchmarks/viewer_frames.py [--seconds 60] [--json FILE]

After the plots have filled (FILL_S), frames that were drawn and the processor time of the viewer's process, all
threads, are counted. The figures mean nothing on a busy computer.
"""

from __future__ import annotations

import argparse
from typing import Any

from bars import at_least, at_most, reported
from live_window import CURVES, Window, launched

FRAMES_BAR, SHARE_BAR = 30.0, 0.40
RATE_HZ = 250.0  # rate of states: 5,000 in the 20 s that a live plot shows
FILL_S = 21.0
SECONDS = 60.0


def main(json_path: str | None = None, seconds: float | None = None) -> dict[str, Any]:
    """Measure, print the table, and write it as JSON where asked to."""
    with launched(RATE_HZ) as folder:
        figures: dict[str, Any] = {**Window(folder, FILL_S, SECONDS if seconds is None else seconds).figures()}
    rate, share = figures["frames_per_s"], 100.0 * figures["share_of_core"]
    bars = [
        at_least("frames per second", rate, FRAMES_BAR),
        at_most("share of a core, %", share, 100.0 * SHARE_BAR),
    ]
    print(f"live CHARMIE, {CURVES} curves, {figures['points']:.0f} points")
    return reported(figures, bars, json_path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time that is measured (60)")
    arguments = parser.parse_args()
    main(arguments.json, arguments.seconds)

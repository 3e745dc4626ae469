"""Serial port of a plan's emulated board: its default path, and the check that the plan runs in real time."""

from __future__ import annotations

from pathlib import Path

from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.transport.domain import domain_folder


def usual_port(plan: Plan | None) -> Path:
    """Default path of the serial port of a plan's emulated board."""
    return domain_folder(0 if plan is None else plan.domain) / "serial_board"


def require_realtime(sim: SimPlan) -> None:
    """Raise ValueError with a one-line message unless the plan's simulation runs in real time at speed 1, as a serial
    line requires.
    """
    if sim.mode != "realtime" or sim.speed != 1.0:
        how = f"mode {sim.mode!r}" + (f" at speed {sim.speed:g}" if sim.mode == "realtime" else "")
        raise ValueError(
            f"a serial line transmits in real time, but the simulation runs in {how}; "
            'set mode = "realtime" and speed = 1'
        )

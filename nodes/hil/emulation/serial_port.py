"""What the two ends of a serial line ask of a plan: where the port is, and time that goes with the clock."""

from __future__ import annotations

from pathlib import Path

from nodes.plan.launch_plan import Plan, SimPlan
from nodes.transport.domain import domain_folder


def usual_port(plan: Plan | None) -> Path:
    """Where a plan's emulated board is found by who is not told of another port."""
    return domain_folder(0 if plan is None else plan.domain) / "serial_board"


def require_realtime(sim: SimPlan) -> None:
    """Raise ValueError, one line, for a plan whose simulation does not keep the time that a serial line has."""
    if sim.mode != "realtime" or sim.speed != 1.0:
        how = f"mode {sim.mode!r}" + (f" at speed {sim.speed:g}" if sim.mode == "realtime" else "")
        raise ValueError(
            f'a serial line keeps the time of the clock; {how} does not, mode = "realtime" at speed 1 does'
        )

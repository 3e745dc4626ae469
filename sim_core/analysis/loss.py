"""When a run is lost: the first step that leaves |Phi|_1 above one characteristic length, or that cannot be taken."""

from __future__ import annotations

from sim_core.errors import SimulationDiverged
from sim_core.simulation import Simulation

VIOLATION = "violation"  # the other reasons are those of SimulationDiverged


def advance_or_lose(sim: Simulation, steps: int) -> str:
    """Take steps up to the first that is lost; the reason, empty when none is.

    Where the stepper could not go on, the state is that before the step.
    """
    before = sim.snapshot()
    reason = _advance(sim, steps)
    if not reason:
        return ""
    sim.restore(before)
    for _ in range(steps):
        before = sim.snapshot()
        found = _advance(sim, 1)
        if found:
            if found != VIOLATION:
                sim.restore(before)
            return found
    return reason  # of a stepper whose calls of one step are not its calls of many


def _advance(sim: Simulation, steps: int) -> str:
    try:
        sim.step(steps)
    except SimulationDiverged as error:
        error.file.unlink(missing_ok=True)
        return error.reason
    return "" if sim.peak_violation()[0] <= sim.system.mechanism.characteristic_length else VIOLATION

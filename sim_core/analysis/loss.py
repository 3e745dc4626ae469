"""Detection of a diverged run: a time step fails, or the constraint violation becomes too large.

The constraint violation is too large if its 1-norm exceeds the mechanism's characteristic length.
"""

from __future__ import annotations

from sim_core.errors import SimulationDiverged
from sim_core.simulation import Simulation

VIOLATION = "violation"  # all other reasons come from SimulationDiverged


def advance_or_lose(sim: Simulation, steps: int) -> str:
    """Simulate `steps` time steps, or fewer if the run diverges; returns why it diverged, or "" if it did not.

    After divergence, the simulation is in the state before the time step that failed, or after the time step whose
    constraint violation is too large.
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
    return reason  # for steppers whose result depends on the number of steps per call


def _advance(sim: Simulation, steps: int) -> str:
    try:
        sim.step(steps)
    except SimulationDiverged as error:
        error.file.unlink(missing_ok=True)
        return error.reason
    return "" if sim.peak_violation()[0] <= sim.system.mechanism.characteristic_length else VIOLATION

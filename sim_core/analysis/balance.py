"""Energy balance of a mechanism driven by constant joint loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim_core.mechanism.description import Tunable

if TYPE_CHECKING:
    from sim_core.simulation import Simulation


def energy_balance(sim: Simulation) -> float:
    """Kinetic plus potential energy minus the sum of load times joint position, J.

    This energy is constant for a mechanism without losses and without actuators.
    """
    system, positions = sim.system, sim.joints()[0]
    tuned = sim.parameters
    loads = [joint.load for joint in system.mechanism.moving_joints]
    numbers = [tuned[load.name] if isinstance(load, Tunable) else load for load in loads]
    return sim.energy() - float(sum(load * at for load, at in zip(numbers, positions, strict=True)))

"""What happens to p and v when a guard fires."""

from __future__ import annotations

import numpy as np

from sim_core.guards import Crossing, Guard
from sim_core.integrators.workspace import Workspace
from sim_core.system import System


def capture(system: System, w: Workspace, guard: Crossing | Guard) -> None:
    """Put what the guard captures into p: the numbers that meet its constraints as the motion is."""
    if not guard.captures:
        return
    names = system.mechanism.captured_constraints
    found = np.zeros(len(names))
    system.bind("captures", [w.t, w.q, w.v, w.u, w.p], [found])()
    for name in guard.captures:
        place = system.parameter_names.index(system.mechanism.captured_by(name).name)
        w.p[place] = found[names.index(name)]


def impact(system: System, w: Workspace) -> None:
    """Velocities onto the constraints that hold now, by impulses y: M x + J' y = 0, J x = -Phidot, v gets x.

    All that has mass takes part. The kinetic energy lost is y . Phidot / 2.
    """
    state = [w.t, w.q, w.v, w.u, w.p]
    w.U[:] = 0.0
    system.bind("acceleration", [*state, w.U], [w.a, w.lam, w.factor])()
    system.bind("residual", state, [w.phi, w.phidot])()
    w.r1[:] = 0.0
    w.r2[:] = -w.phidot
    system.bind("apply", [w.factor, w.r1, w.r2], [w.x, w.y])()
    w.v[:] += w.x

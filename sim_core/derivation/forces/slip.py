"""Forces of wheels that slip: friction against the slip, as large as the friction coefficient times the load.

The load of a wheel is the multiplier of its Touching, which the friction changes in turn. With the friction forces
b_k N_k of the wheels k, whose loads are N_k, the equations of motion have the solution y = y0 + sum of y_k N_k, in
which y0 belongs to all other forces and y_k to b_k. The loads N = -y of the rows of the Touchings follow from a linear
system with as many unknowns as wheels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.constraints import Rows
from sim_core.derivation.symbols import Frames, Symbols
from sim_core.mechanism.constraints import Rolling
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.rolling import touching_of

SLOW = 1e-6  # m/s: below it, the slip has the direction that an event has captured
Solve = Callable[[ca.SX, ca.SX], tuple[ca.SX, ca.SX]]


@dataclass(frozen=True)
class Slip:
    """The slip of one wheel.

    velocity  slip (1,) or (2,) along the directions of the wheel's rows, m/s
    aim       unit vector along the slip at the last event, in the same directions
    per_load  friction in the same directions, N per N of load; 0 while the wheel rolls
    force     generalized force (n_q,) of the friction per N of load
    load      load, N, of a wheel without a Touching
    rows      indices of the wheel's rows
    touching  index of the row of its Touching; -1 if the load is given
    """

    wheel: Rolling
    friction: float | ca.SX
    velocity: ca.SX
    aim: ca.SX
    per_load: ca.SX
    force: ca.SX
    load: ca.SX
    rows: list[int]
    touching: int

    @property
    def along(self) -> ca.SX:
        """Slip along the direction that the last event has captured, m/s."""
        return ca.dot(self.velocity, self.aim)

    def load_of(self, lam: ca.SX) -> ca.SX:
        """Load of the wheel, N, at least 0, from the multipliers of all rows."""
        return self.load if self.touching < 0 else ca.fmax(-lam[self.touching], 0.0)

    def turned(self) -> ca.SX:
        """Value that is not negative while the slip is 60 to 90 degrees from the captured direction."""
        return ca.fmin(0.5 * _size(self.velocity) - self.along, self.along - SLOW)

    def excess(self, lam: ca.SX) -> ca.SX:
        """Force along the plane beyond what friction can bear, N, from the multipliers of all rows."""
        return _size(lam[self.rows]) - self.friction * self.load_of(lam)

    def angle(self, lam: ca.SX, holds: ca.SX) -> ca.SX:
        """Angle of the slip, rad; while the wheel rolls, that of the force which friction has to bear.

        lam    multipliers of all rows
        holds  1 while the wheel rolls, otherwise 0
        """
        t, s = ca.vertsplit(ca.vertcat(holds * lam[self.rows] + (1 - holds) * self.velocity, 0.0))[:2]
        return ca.atan2(s, t)


def slips_of(mechanism: Mechanism, frames: Frames, symbols: Symbols, rows: Rows) -> dict[str, Slip]:
    """{name: Slip} of the wheels with friction."""
    found = {}
    for wheel in mechanism.constraints:
        if not isinstance(wheel, Rolling) or wheel.friction is None or wheel.slip_angle is None:
            continue
        velocity, angle = ca.SX(wheel.rows(frames, symbols)), symbols.number(wheel.slip_angle)
        aim = ca.vertcat(ca.cos(angle), ca.sin(angle))[: velocity.numel()]
        along = ca.dot(velocity, aim)
        against = ca.if_else(along > SLOW, velocity / _size(velocity), aim)
        friction = symbols.number(wheel.friction)
        slides = friction * (1 - symbols.row_factor(wheel.name))
        touching = touching_of(wheel, mechanism.constraints)
        found[wheel.name] = Slip(
            wheel,
            friction,
            velocity,
            aim,
            -slides * against,
            ca.jacobian(velocity, symbols.v).T @ (-slides * against),
            ca.SX(0.0 if wheel.load is None else symbols.number(wheel.load)),
            [index for index, name in enumerate(rows.names) if name == wheel.name],
            -1 if wheel.load is not None or touching is None else rows.names.index(touching.name),
        )
    return found


def with_friction(solve: Solve, slips: dict[str, Slip]) -> Solve:
    """The function `solve` (r1, r2), which returns accelerations and multipliers, with the friction of slipping wheels
    beside the forces r1.
    """
    if not slips:
        return solve
    given = [slip for slip in slips.values() if slip.touching < 0]
    carried = [slip for slip in slips.values() if slip.touching >= 0]
    places = [slip.touching for slip in carried]

    def solved(r1: ca.SX, r2: ca.SX) -> tuple[ca.SX, ca.SX]:
        x, y = solve(r1 + sum((slip.load * slip.force for slip in given), ca.SX(r1.numel(), 1)), r2)
        if not carried:
            return x, y
        each = [solve(slip.force, ca.SX(r2.numel(), 1)) for slip in carried]
        coupling = ca.SX.eye(len(carried)) + ca.horzcat(*[y_k[places] for _, y_k in each])
        loads = ca.fmax(ca.solve(coupling, -y[places]), 0.0)
        for k, (x_k, y_k) in enumerate(each):
            x, y = x + x_k * loads[k], y + y_k * loads[k]
        return x, y

    return solved


def _size(vector: ca.SX) -> ca.SX:
    """Length of a vector, with a derivative where it is zero."""
    return ca.sqrt(ca.dot(vector, vector) + 1e-300)

"""Symbols of a derivation, and symbolic frames of the bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from sim_core.mechanism.description import GROUND, Mechanism
from sim_core.mechanism.quantities import CapturedParameter, Number, Tunable, Vector3, holding


@dataclass
class Lifted:
    """Subexpressions replaced by symbols ("lifted"), so that CasADi does not simplify them within larger expressions.

    Branches of the mechanism with equal structure, such as two arms, then get equal code, even if signs in the poses at
    which the branches are mounted differ.

    values   the subexpressions
    symbols  symbols that replace the subexpressions
    twins    pairs of indices of corresponding subexpressions in two branches of equal structure
    """

    values: list[ca.SX] = field(default_factory=list)
    symbols: list[ca.SX] = field(default_factory=list)
    twins: list[tuple[int, int]] = field(default_factory=list)

    def lift(self, expression: ca.SX, places: list[int]) -> ca.SX:
        """A copy of `expression` in which each entry that is not constant is replaced by a new symbol.

        places  list to which the indices of the new symbols are appended
        """
        result = ca.SX(expression)
        for k, value in enumerate(ca.vertsplit(expression.nz[:]) if expression.nnz() else []):
            if value.is_constant():
                continue
            places.append(len(self.values))
            self.values.append(value)
            self.symbols.append(ca.SX.sym(f"lifted_{places[-1]}"))
            result.nz[k] = self.symbols[-1]
        return result

    def side_by_side(self, a: ca.SX, b: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Copies of two columns in which each pair of entries that are both not constant is lifted as twins."""
        a, b = ca.SX(a), ca.SX(b)
        for k in range(a.numel()):
            if a[k].is_constant() or b[k].is_constant():
                continue
            places: list[int] = []
            a[k], b[k] = self.lift(a[k], places), self.lift(b[k], places)
            self.twins.append((places[0], places[1]))
        return a, b

    def needed_by(self, expressions: list[ca.SX]) -> list[int]:
        """Indices, ascending, of all lifted values on which the expressions depend, directly or indirectly."""
        known = {symbol.name(): place for place, symbol in enumerate(self.symbols)}
        found: set[int] = set()
        while True:
            names = [symbol.name() for symbol in ca.symvar(ca.veccat(*expressions))]
            new = sorted({known[name] for name in names if name in known} - found)
            if not new:
                return sorted(found)
            found |= set(new)
            expressions = [self.values[place] for place in new]

    def written_out(self, expression: ca.SX) -> ca.SX:
        """`expression` with all lifted symbols replaced by the subexpressions they stand for."""
        places = self.needed_by([expression])
        symbols, values = [self.symbols[place] for place in places], [self.values[place] for place in places]
        # a lifted value depends on earlier ones only
        return ca.substitute_inplace(symbols, values, [expression], False)[1][0] if places else expression


@dataclass(frozen=True)
class JointMeasure:
    """Position and velocity of a joint.

    is_length  whether the position is a length
    wraps      whether the position is an angle from an arctangent, which jumps by 2 pi at +-pi
    """

    position: ca.SX
    rate: ca.SX
    is_length: bool
    wraps: bool


@dataclass(frozen=True)
class Symbols:
    """Symbols of the time t, coordinates q, velocities v, actuator inputs u and parameters p.

    parameter_names  names of the entries of p, as in Mechanism.parameter_names
    beams            {beam: its coordinates}
    contacts         {beam contact: (Contact, Lookup of the beam's shape functions)}, both defined in beams.py
    states           {first-order state: symbol}
    joints           {declared joint: JointMeasure}
    inputs           {actuator: element of u}
    """

    t: ca.SX
    q: ca.SX
    v: ca.SX
    u: ca.SX
    p: ca.SX
    parameter_names: tuple[str, ...]
    lifted: Lifted = field(default_factory=Lifted)
    beams: Mapping[str, ca.SX] = field(default_factory=dict)
    contacts: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    states: Mapping[str, ca.SX] = field(default_factory=dict)
    joints: Mapping[str, JointMeasure] = field(default_factory=dict)
    inputs: Mapping[str, ca.SX] = field(default_factory=dict)

    def number(self, value: Number) -> float | ca.SX:
        """A number of the mechanism's description; for a Tunable or CapturedParameter, its symbol."""
        if isinstance(value, Tunable | CapturedParameter):
            return self.p[self.parameter_names.index(value.name)]
        return float(value)

    def row_factor(self, constraint: str) -> float | ca.SX:
        """Factor of the rows of a constraint: 1 for a constraint that always holds.

        For a switched constraint, the factor is a parameter, which is 1 while the constraint holds and 0 otherwise.
        """
        name = holding(constraint)
        return self.p[self.parameter_names.index(name)] if name in self.parameter_names else 1.0


def symbols_for(mechanism: Mechanism, n_q: int) -> Symbols:
    """New symbols t, q, v, u, p for a mechanism with n_q coordinates."""
    names = mechanism.parameter_names
    return Symbols(
        ca.SX.sym("t"),
        ca.SX.sym("q", n_q),
        ca.SX.sym("v", n_q),
        ca.SX.sym("u", len(mechanism.actuators)),
        ca.SX.sym("p", len(names)),
        names,
    )


@dataclass(frozen=True)
class Frame:
    """Pose and angular velocity of a body.

    p  position p_WB (3,) in the world, m
    R  rotation matrix R_WB (3, 3), from the body's axes to the world's
    w  angular velocity w_WB_B (3,) in the body's axes, rad/s
    e  Euler parameters (4,), if they are the body's coordinates
    """

    p: ca.SX
    R: ca.SX
    w: ca.SX
    e: ca.SX | None = None

    def point(self, point: Vector3) -> ca.SX:
        """World position (3,) of a body-fixed point, m."""
        return self.p + self.R @ ca.SX(ca.DM(point))

    def axis(self, axis: Vector3) -> ca.SX:
        """World components (3,) of a body-fixed axis."""
        return self.R @ ca.SX(ca.DM(axis))

    @property
    def w_W(self) -> ca.SX:
        """Angular velocity (3,) of the body in world axes, rad/s."""
        return self.R @ self.w


Frames = Mapping[str, Frame]


def ground_frame() -> dict[str, Frame]:
    """{GROUND: frame of the ground}."""
    return {GROUND: Frame(ca.SX(3, 1), ca.SX(ca.DM.eye(3)), ca.SX(3, 1))}


@dataclass(frozen=True)
class Motion:
    """Result of a derivation: coordinate names, frames, and the unconstrained equations M a = f without actuators.

    inertial   function of the accelerations a (n_q,) that returns M a - f, by the formula with the fewest operations
    twins      pairs of indices of corresponding coordinates in branches of equal structure
    potential  potential energy of the beams, J
    recursion  recursions over the links of a tree, from which derivatives follow; None for other coordinates
    """

    coordinate_names: tuple[str, ...]
    frames: Frames
    M: ca.SX
    f: ca.SX
    inertial: Callable[[ca.SX], ca.SX]
    twins: list[tuple[int, int]] = field(default_factory=list)
    potential: ca.SX = field(default_factory=lambda: ca.SX(0))
    recursion: Any = None


# Positions and velocities (n_joints,) of the declared joints, and indices of the joints with wrapped angles. A wrapped
# angle comes from an arctangent and jumps by 2 pi at +-pi.
Measures = tuple[ca.SX, ca.SX, list[int]]


def column(values: Sequence[ca.SX]) -> ca.SX:
    """Column of scalar expressions, which may be empty."""
    return ca.vertcat(*values) if values else ca.SX(0, 1)

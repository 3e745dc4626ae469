"""Base class of the constraints: their rows and properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.joints import GROUND

Expression = Any  # CasADi SX
Frames = Mapping[str, Any]  # {body: `sim_core.derivation.symbols.Frame`}


class ConstraintBase(Frozen):
    """Base class of the constraints: the rows, which are zero if the constraint is satisfied, and their properties."""

    name: str
    has_length_rows = False  # whether the rows are in m, or m/s if the constraint is nonholonomic
    acts_on_point = False  # whether the constraint acts on a single point of the body `body`
    relates_joints = False  # whether the rows depend on the positions or velocities of joints

    @property
    def is_nonholonomic(self) -> bool:
        """Whether the rows are linear in the velocities and do not restrict positions."""
        return False

    @property
    def connected(self) -> tuple[str, str] | None:
        """The two bodies, or the body and the ground, between which the constraint may close a loop."""
        if self.acts_on_point:
            return getattr(self, "body"), GROUND  # noqa: B009  # a field of the subclass
        return (self.body_a, self.body_b) if hasattr(self, "body_a") and hasattr(self, "body_b") else None

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        """Rows of the constraint as a column of expressions.

        The rows of a holonomic constraint are the violation Phi(q, t). Those of a nonholonomic constraint are linear in
        the velocities: G v + g, with a matrix G and a vector g.

        symbols  the `sim_core.derivation.symbols.Symbols` of the mechanism
        """
        raise NotImplementedError

    def rows_are_lengths(self, symbols: Any) -> bool:
        """Whether the rows are lengths or velocities. Other rows are angles, ratios or rates of these."""
        return self.has_length_rows

    def captured(self, frames: Frames, symbols: Any, own: Expression) -> Expression:
        """Value of the constraint's CapturedParameter, the symbol `own`, with which the current state satisfies it."""
        import casadi as ca  # only derivations need it

        return ca.substitute(self.rows(frames, symbols), own, 0)

    def direction(self, frames: Frames, symbols: Any) -> Expression:
        """Derivative d Phi / d r (3,) of the violation Phi with respect to the position r of the point on which the
        constraint acts.

        Raises InvalidMechanism for a constraint that does not act on a single point of a body.
        """
        raise InvalidMechanism(
            f"constraint {self.name!r} does not act on a single point of a body, so that its force has no single "
            "direction; use Anchored, BeamContact or ChainContact"
        )

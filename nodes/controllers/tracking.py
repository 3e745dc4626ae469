"""Common parts of controllers: check for expected joints, extrapolation of references in time, and tracking error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nodes.framework.messages import JointReference, RobotState
from nodes.node import Context

Vector = NDArray[np.float64]
REFERENCE_LIFE_S = 0.2  # an older reference is held at constant position, no longer extrapolated


class ExpectedJoints:
    """Checks that states contain the joints that a controller requires."""

    def __init__(self, context: Context, joints: Sequence[str]) -> None:
        self._context, self._joints = context, tuple(joints)
        self._met = False
        self._names: list[str] = []
        self.indices: list[int] = []  # indices of the joints in the latest state that has them

    def are_in(self, state: RobotState) -> bool:
        """Whether a state has all required joints.

        Raises ValueError if joints are missing in the first state, which is an error of the plan. Joints that are
        missing in a later state cause a warning.
        """
        if self._met and state.name == self._names:
            return True
        missing = [joint for joint in self._joints if joint not in state.name]
        if not missing:
            self._met, self._names = True, list(state.name)
            self.indices = [state.name.index(joint) for joint in self._joints]
            return True
        line = f"{self._context.name} needs joint {missing[0]!r}; the state has {state.name[:10]}"
        if state.name and not self._met:
            raise ValueError(line)
        self._context.warn(f"{line}: no command is sent for it"[:300])
        return False


class Targets:
    """Targets of the joints: each joint's latest reference, extrapolated in time with its velocity and acceleration.

    The target of a joint without a reference is the constant position that `hold` sets.
    """

    def __init__(self, joints: Sequence[str]) -> None:
        self._place = {joint: k for k, joint in enumerate(joints)}
        self._last: Sequence[str] = ()
        self._where: list[tuple[int, int]] = []
        n = len(joints)
        self._position, self._velocity, self._acceleration = np.zeros(n), np.zeros(n), np.zeros(n)
        self._since = np.full(n, np.nan)
        self.has_reference = np.zeros(n, dtype=bool)  # whether each joint has a reference

    def hold(self, position: Vector) -> None:
        """Set these positions as the targets of the joints without a reference."""
        self._position[~self.has_reference] = position[~self.has_reference]

    def add_reference(self, reference: JointReference) -> bool:
        """Store a reference, valid from its timestamp on. Returns whether a joint in it had no reference before."""
        if reference.name != self._last:
            self._last = list(reference.name)
            pairs = ((i, self._place.get(name)) for i, name in enumerate(reference.name))
            self._where = [(i, k) for i, k in pairs if k is not None]
        for i, k in self._where:
            self._position[k] = reference.position[i]
            self._velocity[k] = reference.velocity[i] if reference.velocity else 0.0
            self._acceleration[k] = reference.acceleration[i] if reference.acceleration else 0.0
            self._since[k] = reference.timestamp
        new = not all(self.has_reference[k] for _, k in self._where)
        self.has_reference[[k for _, k in self._where]] = True
        return new

    def at(self, now: float) -> tuple[Vector, Vector, Vector]:
        """Return target (positions, velocities, accelerations) at simulation time `now` (s), (n,) each.

        Units are rad or m, and seconds. A reference is extrapolated for at most REFERENCE_LIFE_S. After that time the
        target position is constant.
        """
        age = np.where(self.has_reference, now - self._since, 0.0)
        fresh = age <= REFERENCE_LIFE_S
        age = np.minimum(np.maximum(age, 0.0), REFERENCE_LIFE_S)
        a = self._acceleration
        position = self._position + age * (self._velocity + age * a / 2)
        return position, np.where(fresh, self._velocity + age * a, 0.0), np.where(fresh, a, 0.0)


class TrackingError:
    """Peak and root mean square (rms) of the position error, over all states since the start or the latest reset."""

    def __init__(self, joints: Sequence[str], units: Sequence[str]) -> None:
        self._joints, self._units = tuple(joints), np.array(units)
        self._peak, self._squares, self._count = np.zeros(len(joints)), np.zeros(len(joints)), np.zeros(len(joints))

    def add_error(self, error: Vector, counts: NDArray[np.bool_]) -> None:
        """Include the position errors (n,) of one state, but only those of joints for which `counts` is true."""
        np.maximum(self._peak, np.abs(error) * counts, out=self._peak)
        self._squares += error * error * counts
        self._count += counts

    @property
    def figures(self) -> dict[str, float]:
        """Largest errors among the joints, such as {"peak_error_rad": 0.012, "rms_error_rad": 0.004}.

        Sliding joints have separate entries, which end in "_m". A unit without counted errors has no entries.
        """
        found = {}
        for unit in ("rad", "m"):
            mine = self._units == unit
            if (self._count[mine] > 0).any():
                found[f"peak_error_{unit}"] = float(self._peak[mine].max())
                found[f"rms_error_{unit}"] = float(self._rms()[mine].max())
        return found

    def of_each(self) -> Mapping[str, Mapping[str, float | str]]:
        """Return {joint: {"peak": peak error, "rms": rms error, "unit": unit of both errors}} of all joints."""
        rows = zip(self._joints, self._peak.tolist(), self._rms().tolist(), self._units.tolist(), strict=True)
        return {joint: {"peak": peak, "rms": rms, "unit": unit} for joint, peak, rms, unit in rows}

    def _rms(self) -> Vector:
        return np.asarray(np.sqrt(self._squares / np.maximum(self._count, 1)))

"""Checks of the arguments of runs of many systems at once, and the arrays that such runs use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from sim_core.arguments import as_array, as_number, as_whole
from sim_core.batch.lane_servos import LaneServo, lane_servos
from sim_core.batch.peaks import layout_of
from sim_core.compiled_system import CompiledSystem
from sim_core.errors import InvalidRequest, require_finite
from sim_core.integrators.steppers import stepper_named
from sim_core.kernels.lanes import LANES, check_lanes
from sim_core.mechanism.checks.directions import ROUNDED
from sim_core.mechanism.constraints import PrescribedMotion
from sim_core.mechanism.validation import check_tunables
from sim_core.spatial import angular_velocity_of_step, quaternion_of_step, quaternion_product
from sim_core.stabilization.stabilizers import SampledFuzzy

MOST_STEPS = 2**53  # largest number of steps that a float64 holds exactly
STABILIZERS = ("none", "sampled_fuzzy")
Array = np.ndarray


class Requests:
    """Checks and completes the arguments of the runs of a system. Raises InvalidRequest for those that do not fit."""

    def __init__(self, system: CompiledSystem, lanes: int) -> None:
        check_lanes(lanes, LANES)
        if system.mechanism.beams:
            raise InvalidRequest(
                f"{system.mechanism.name!r} has beams, which a batch does not support; use a Simulation"
            )
        self.system, self._owner = system, f"robot {system.mechanism.name!r}"

    @cached_property
    def _default(self) -> Array:
        return self.system.default_parameters()

    def check_mechanism(self) -> None:
        """Raise InvalidRequest for a mechanism whose motion needs a Simulation."""
        if self.system.mechanism.guards:
            raise InvalidRequest(
                f"{self.system.mechanism.name!r} has guards, which a batch does not check; use a Simulation"
            )
        driven = [c.name for c in self.system.mechanism.constraints if isinstance(c, PrescribedMotion) and c.input]
        if driven:
            raise InvalidRequest(
                f"an input prescribes the velocity of {', '.join(map(repr, driven))} of "
                f"{self.system.mechanism.name!r}, which a batch does not follow; use a Simulation"
            )

    def checked_run(self, q0: Any, step_s: float, steps: int, every: int) -> int:
        """Number of systems in a run. Raises InvalidRequest for invalid arguments and for unsupported mechanisms."""
        self.check_mechanism()
        step_s = as_number(self._owner, "step_s", step_s)
        steps, every = as_whole(self._owner, "steps", steps), as_whole(self._owner, "every", every)
        for name, value, valid, wanted in (
            ("steps", steps, 0 <= steps <= MOST_STEPS, f"from 0 to {MOST_STEPS}"),
            ("every", every, every >= 1, "at least 1"),
            ("step_s", step_s, 0 < step_s < np.inf, "above 0 and finite"),
        ):
            if not valid:
                raise InvalidRequest(f"the argument {name!r} is {value}; it must be {wanted}")
        return len(np.atleast_2d(as_array(self._owner, "q0", q0)))

    def rows(self, name: str, value: Any, count: int, size: int) -> Array:
        array = np.atleast_2d(as_array(self._owner, name, value))
        if array.shape != (count, size):
            raise InvalidRequest(
                f"{name} has shape {array.shape}; for {count} systems of {self.system.mechanism.name!r} it must be "
                f"{(count, size)}"
            )
        self._require_finite(name, array)
        return array

    def _require_finite(self, name: str, array: Array) -> None:
        if not np.isfinite(array).all():
            require_finite(self.system.mechanism.name, name, array.ravel().tolist())

    def parameters(self, p: Any, count: int) -> Array:
        if p is None:
            return np.tile(self._default, (count, 1))
        values = self.rows("p", p, count, len(self.system.parameter_names))
        check_tunables(self.system.mechanism, values)
        return values

    def efforts(self, u: Any, count: int, steps: int, servos: tuple[LaneServo, ...] = ()) -> Array:
        """Actuator efforts and servo commands of `count` systems, clipped to their limits.

        The shape of the result is (count, 1, n_u) for constant inputs, otherwise (count, steps, n_u).

        u       inputs: None for zero, (count, n_u) constant ones, or (count, steps, n_u) with one row per time step
        steps   number of steps; negative if only constant inputs are permitted
        servos  servos whose columns of u are commands instead of efforts
        """
        n_u = self.system.n_u
        array = np.zeros((count, n_u)) if u is None else as_array(self._owner, "u", u)
        least, most = self.input_limits(servos)
        if array.ndim < 3:
            return np.asarray(np.clip(self.rows("u", array, count, n_u), least, most)[:, None, :])
        if steps < 0:
            raise InvalidRequest(f"u has shape {array.shape}; give constant efforts, of shape {(count, n_u)}")
        if array.shape != (count, steps, n_u):
            raise InvalidRequest(
                f"u has shape {array.shape}; for this rollout it must be {(count, steps, n_u)} or {(count, n_u)}"
            )
        self._require_finite("u", array)
        return np.asarray(np.clip(array, least, most))

    def input_limits(self, servos: tuple[LaneServo, ...] = ()) -> tuple[Array, Array]:
        """Smallest and largest input (n_u,) of the actuators: an effort, or a command to one of the servos."""
        limits = [a.effort_limit for a in self.system.mechanism.actuators]
        most = np.array([np.inf if limit is None else limit for limit in limits])
        least = -most
        for servo in servos:
            least[servo.actuator], most[servo.actuator] = servo.commands
        return least, most

    def servos(self, modes: Mapping[str, str] | None) -> tuple[LaneServo, ...]:
        return lane_servos(self.system.mechanism, modes or {}, self.system.coordinate_names)

    def gains(self, stabilizer: str, step_s: float) -> Array:
        """Array [Kp, Kd, Ku] of the gains of the stabilizer for the step size `step_s`, s.

        The array is empty if the stabilizer is "none" or the mechanism has no constraints.
        """
        if stabilizer not in STABILIZERS:
            raise InvalidRequest(f"a batch has no stabilizer {stabilizer!r}; choose {' or '.join(STABILIZERS)}")
        if stabilizer == "none" or not self.system.max_rows:
            return np.zeros(0)
        length = self.system.mechanism.characteristic_length
        eps, rho, hold, slope = SampledFuzzy().gains(step_s, stepper_named("rk4"), length)[:4]
        k1 = (1.0 - rho) ** 2
        k2 = 2.0 * (1.0 - rho) - hold * k1
        return np.asarray([1.0 / eps, k2 / k1 * step_s / eps, k1 * eps / (slope * step_s**2)])

    def rebased(self, q: Array, v: Array, p: Array) -> tuple[Array, Array, Array]:
        """Start states q, v (n, n_q) and parameters p (n, n_p) with the rotations moved from q into the quaternions.

        Raises InvalidRequest for a quaternion in p whose norm is not 1.
        """
        joints = self.system.mechanism.oriented_joints
        if not joints:
            return q, v, p
        layout, q, v, p = layout_of(self.system), q.copy(), v.copy(), p.copy()
        for joint, places in zip(joints, layout.orientations, strict=True):
            turning = slice(places.rotation, places.rotation + 3)
            quaternion = slice(places.quaternion, places.quaternion + 4)
            norms = np.linalg.norm(p[:, quaternion], axis=1)
            if (wrong := np.abs(norms - 1.0) > ROUNDED).any():
                raise InvalidRequest(
                    f"p: the quaternion of joint {joint.name!r} of {self.system.mechanism.name!r} has the norm "
                    f"{norms[wrong][0]:g}; it must be 1"
                )
            p[:, quaternion] /= norms[:, None]
            rows = np.flatnonzero(q[:, turning].any(axis=1))
            s, rates = q[rows, turning].T, v[rows, turning].T
            p[rows, quaternion] = quaternion_product(p[rows, quaternion].T, quaternion_of_step(s)).T
            v[rows, turning] = angular_velocity_of_step(s, rates).T
            q[rows, turning] = 0.0
        return q, v, p

    def references(self, attitudes: Any) -> Array:
        """Reference attitudes (4 m,): the normalized quaternions `attitudes` (m, 4), one after the other."""
        m = len(self.system.mechanism.oriented_joints)
        array = as_array(self._owner, "attitudes", attitudes)
        norms = np.linalg.norm(array, axis=-1) if array.shape == (m, 4) else np.zeros(1)
        if not (np.abs(norms - 1.0) <= ROUNDED).all():
            raise InvalidRequest(
                f"the argument 'attitudes' of {self._owner} must be {m} quaternions of norm 1, one per spherical and "
                f"free joint; its shape is {array.shape}"
            )
        return np.asarray((array / norms[:, None]).ravel())

"""Checks whether the step size is too large for the fastest mode of an assembled mechanism.

The modes are those of the motion linearized about the current state. The derivatives of the acceleration with respect
to q and v are central differences of the accelerations that the compiled function `acceleration` computes. The
differences are taken in the directions that the constraints leave free, the null space of the constraint Jacobian J.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from sim_core.flexible.elements import beam_model
from sim_core.integrators.steppers import Stepper
from sim_core.integrators.workspace import Workspace
from sim_core.mechanism.contacts import SphereContact
from sim_core.mechanism.description import GROUND, Number, Spring
from sim_core.mechanism.quantities import CapturedParameter, Tunable
from sim_core.monitoring.differences import Differences
from sim_core.monitoring.fast_modes import FastModes
from sim_core.monitoring.joint_shares import Share, contact_shares, joint_shares, oriented_shares
from sim_core.spatial import quaternion_of_step, quaternion_product
from sim_core.stabilization.stabilizers import largest_step
from sim_core.system import System

GROWS = 1e-3  # growth per step: a mode that grows by less does not make a run diverge
FADES = 1e-3  # share of the amplitude per period: an undamped mode that the stepper damps by more is not resolved
OF_DAMPING = 0.3  # permitted change of a mode's damping by the stepper, as a share of that damping
RESOLVED = 0.1  # step times |lambda|: below it every stepper is accurate enough
SUSPECT = 0.5  # step times |lambda|: a slower mode is not the cause of an error of the energy
ACCURATE = 0.2  # the same, for the step that is recommended then
SLOW = 1e-4  # step times |lambda|: below it the growth per step is rounding
LEAST_STEP = 1e-9  # s: a required step below it means that the state has diverged
GROWING = 0.1  # share of |lambda|: a mode with a larger real part is physically unstable
ON_SLOPE = 1e-6  # increment of first differences
ON_CURVE = 1e-4  # increment of second differences
SQUARINGS = 3  # of a matrix, for an upper bound of its largest eigenvalue
RANK = 1e-8  # share of the largest singular value of J: rows below it restrain nothing
PAST_OF_ALL = 30  # coordinates up to which all earlier states are checked; beyond, a share that bounds the work
MANY = 200  # coordinates from which on only the fastest modes are computed
DENSE_TICKS = 65536  # modes are checked at ticks that are powers of four up to here, then at each multiple


@dataclass(frozen=True)
class StepTooLarge:
    """Result of a check that found the step size too large for a mode.

    rate     absolute value of the mode's eigenvalue, 1/s
    element  part of the mechanism with the largest contribution to the mode, such as "spring 'cable'"
    step_s   largest permitted step size, s, rounded down to two digits
    line     one-line message for the user
    """

    rate: float
    element: str
    step_s: float
    line: str


def next_check(tick: int) -> int:
    """Number of the first time step after `tick` at which the modes are checked.

    The modes are checked at powers of 4 up to DENSE_TICKS, and then at the multiples of DENSE_TICKS.
    """
    if tick >= DENSE_TICKS:
        return (tick // DENSE_TICKS + 1) * DENSE_TICKS
    return int(4 ** ((tick.bit_length() + 1) // 2))


class FastestMode:
    """Checks whether a running simulation's step size resolves the fastest mode; the simulation is not changed."""

    def __init__(self, system: System, w: Workspace, stepper: Stepper, step_s: float) -> None:
        self._system, self._w, self._stepper, self._step_s = system, w, stepper, step_s
        names = {state.name for state in system.mechanism.first_order_states}
        self._is_state = np.array([name in names for name in system.coordinate_names], dtype=bool)
        self._at_v = w.v  # velocities of the state that is checked
        n, n_rows = system.n_q, system.max_rows
        self._q, self._v, self._a = np.zeros(n), np.zeros(n), np.zeros(n)
        state = [w.t, self._q, self._v, w.u, w.p]
        self._M, self._J = np.zeros((n, n), order="F"), np.zeros((n_rows, n), order="F")
        self._terms = system.bind("terms", state, [self._M, np.zeros(n), self._J, np.zeros(n_rows)])
        self._factor = np.zeros(system.max_factor)
        results = [self._a, np.zeros(n_rows), self._factor]
        self._accelerate = system.bind("acceleration", [*state, np.zeros(n_rows)], results)
        n_bodies, n_joints = len(system.mechanism.bodies), len(system.mechanism.moving_joints)
        self._p, self._R = np.zeros((n_bodies, 3)), np.zeros((n_bodies, 3, 3))
        self._place = system.bind("poses", state, [self._p, self._R])
        self._positions, self._rates = np.zeros(n_joints), np.zeros(n_joints)
        self._measure = system.bind("joints", state, [self._positions, self._rates])
        self._energy = np.zeros(2)
        self._compute_energy = system.bind("energy", state, [self._energy])

    def check(self, at_rest: bool = False) -> StepTooLarge | None:
        """Check the step size in the current state; returns a StepTooLarge, or None if the step size suits.

        The result is None also for a stepper that adapts its step size.

        at_rest  whether to check the current state with zero velocities instead, because friction is a fast damper only
                 near rest. The result is then None without a check if the mechanism has neither joint friction nor
                 custom forces
        """
        mechanism = self._system.mechanism
        if self._stepper.adaptive or self._system.n_q == 0:
            return None
        if at_rest and not (mechanism.forces or any(joint.friction is not None for joint in mechanism.joints)):
            return None
        self._at_v = np.where(self._is_state, self._w.v, 0.0) if at_rest else self._w.v
        found = self._check(" at rest" if at_rest else "")
        self._at_v = self._w.v
        return found

    def check_past(self, states: np.ndarray, departed: bool = False) -> StepTooLarge | None:
        """Check the step size in earlier states; returns a StepTooLarge for the first state that needs a smaller step.

        Returns None if the step size suits all states.

        states    (n, 1 + 2 n_q): t, q, v, oldest first
        departed  whether the run is known to be inaccurate. If the step size suits all states, the result then is a
                  StepTooLarge for the fastest mode of all states, if step size times |eigenvalue| exceeds SUSPECT
        """
        found, fastest, size, at = None, None, SUSPECT / self._step_s, self._at_v
        now = [array.copy() for array in (self._w.t, self._w.q, self._w.v)]
        share = min(1.0, (PAST_OF_ALL / max(self._system.n_q, 1)) ** 2)  # a state's work grows with the square
        states = states[-max(round(share * len(states)), 1) :]
        if departed and not self._system.mechanism.oriented_joints:
            states = with_middles(states)
        for state in states[np.all(np.isfinite(states), axis=1)]:
            self._w.t[0] = state[0]
            self._w.q[:], self._w.v[:] = np.split(state[1:], 2)
            self._at_v = self._w.v
            if (found := self._check("")) is not None:
                break
            if departed and (mode := self._fastest_above(size)) is not None:
                size = abs(mode[0])
                fastest = mode[0], self._element(*mode)
        if found is None and fastest is not None:
            found = self._report(*fastest, 0.0, "")
        for array, value in zip((self._w.t, self._w.q, self._w.v), now, strict=True):
            array[:] = value
        self._at_v = at
        return found

    @property
    def _is_large(self) -> bool:
        """Whether only the fastest modes are computed, because the work for all modes would hold up the run."""
        system = self._system
        return system.n_q >= MANY and (system.max_rows == 0 or system.is_rolled)

    def _fastest_of_many(self, rate: float) -> list[tuple[complex, np.ndarray]]:
        return self._fast_modes.find(self._at_v, rate)

    @cached_property
    def _fast_modes(self) -> FastModes:
        return FastModes(self._system, self._w)

    def _fastest_above(self, size: float) -> tuple[complex, np.ndarray] | None:
        """Eigenvalue and shape (n_q,) of the fastest mode of the current state; None unless |eigenvalue| > `size`."""
        if self._is_large:
            modes = self._fastest_of_many(size)
            return modes[0] if modes and abs(modes[0][0]) > size else None
        free, A = self._linearized()
        if free.shape[1] == 0 or not np.all(np.isfinite(A)) or eigenvalues_below(A, size):
            return None
        values, vectors = np.linalg.eig(A)
        k = int(np.argmax(np.abs(values)))
        return (complex(values[k]), free @ vectors[: free.shape[1], k]) if abs(values[k]) > size else None

    def _unresolved(self) -> list[tuple[complex, np.ndarray]]:
        """Eigenvalues and shapes (n_q,) of the current state's modes that are fast for the step, fastest first.

        The list is empty if none of them departs. Of conjugate modes, that with Im >= 0 is given.
        """
        rate = RESOLVED / self._step_s
        if self._is_large:
            return [mode for mode in self._fastest_of_many(rate) if abs(mode[0]) > rate]
        free, A = self._linearized()
        if free.shape[1] == 0 or not np.all(np.isfinite(A)) or eigenvalues_below(A, rate):
            return []
        poles = [complex(pole) for pole in np.linalg.eigvals(A) if pole.imag >= 0.0 and abs(pole) > rate]
        if all(departure(self._stepper, pole, self._step_s) <= 1.0 for pole in poles):
            return []
        values, vectors = np.linalg.eig(A)
        order = [k for k in np.argsort(-np.abs(values), kind="stable") if values[k].imag >= 0.0]
        f = free.shape[1]
        return [(complex(values[k]), free @ vectors[:f, k]) for k in order if abs(values[k]) > rate]

    def _check(self, where: str) -> StepTooLarge | None:
        failing: list[tuple[complex, Share, float]] = []
        for pole, shape in self._unresolved():
            if (found := departure(self._stepper, pole, self._step_s)) > 1.0:
                element = self._element(pole, shape)
                # a beam's highest modes come from its discretization: numerical damping of them does no harm
                if found == math.inf or not element.is_beam:
                    failing.append((pole, element, found))
        if not failing:
            return None
        report = self._report(*failing[0], where, [pole for pole, _, _ in failing])
        return report if report.step_s > LEAST_STEP else None  # the state has diverged already

    def _linearized(self) -> tuple[np.ndarray, np.ndarray]:
        """(basis (n_q, f) of the directions that the constraints leave free, system matrix (2 f, 2 f)) of the
        linearized motion.

        The system matrix describes the motion along the free directions, linearized about the current state.
        """
        self._q[:], self._v[:] = self._w.q, self._at_v
        self._terms()
        free = _free_directions(self._J)
        f = free.shape[1]
        A = np.zeros((2 * f, 2 * f))
        A[:f, f:] = np.eye(f)
        for place, moved, differences in zip((0, f), (self._q, self._v), self._differences, strict=True):
            size = ON_SLOPE * max(1.0, float(np.abs(moved).max(initial=0.0)))
            A[f:, place : place + f] = free.T @ differences(size * free.T).T / (2.0 * size)
        return free, A

    @cached_property
    def _differences(self) -> tuple[Differences, Differences]:
        """Central differences of the accelerations in directions of q and of v, compiled or loaded at the first use."""
        return Differences(self._accelerate, self._q, self._a), Differences(self._accelerate, self._v, self._a)

    # -- elements that determine a mode -------------------------------------------------------------------------------

    def _report(
        self, pole: complex, share: Share, found: float, where: str, failing: Sequence[complex] = ()
    ) -> StepTooLarge:
        stepper, step, name = self._stepper, self._step_s, self._system.mechanism.name
        rate = abs(pole)
        largest = [largest_step(partial(departure, stepper, each)) for each in failing]  # a slower mode may need less
        most = min(largest, default=ACCURATE / rate)
        most = float(f"{rounded_down(most):.2g}")
        what = f"{rate:.4g} {'rad/s' if abs(pole.imag) > abs(pole.real) else '1/s'}"
        fate = (
            "diverges"
            if found == math.inf
            else "is damped by the stepper's error"
            if found > 0.0
            else "is not resolved"
        )
        line = (
            f"the fastest mode of {name!r}{where}, {what} by {share.element}, {fate} with {stepper.name} at "
            f"{1e3 * step:.4g} ms; use a step of at most {1e3 * most:.3g} ms"
            + (", and a smaller one for harder impacts" if share.is_impact else "")
        )
        return StepTooLarge(rate, share.element, most, line)

    def _element(self, pole: complex, shape: np.ndarray) -> Share:
        """Share of the part of the mechanism with the largest contribution to a mode, see `_shares`.

        pole, shape  eigenvalue, 1/s, and shape (n_q,) of the mode
        """
        x = np.real(shape * np.exp(-1j * np.angle(shape[np.argmax(np.abs(shape))])))
        x /= float(np.abs(x).max()) or 1.0
        if self._is_state[most := int(np.argmax(np.abs(x)))]:
            return Share(self._state_label(self._system.coordinate_names[most]), 0.0)
        shares = list(self._shares(x, abs(pole)))
        if forces := self._system.mechanism.forces:  # what no other element explains
            rest = abs(pole) ** 2 * self._kinetic(x) - sum(share.size for share in shares)
            names = ", ".join(repr(force.name) for force in forces)
            shares.append(Share(f"force{'s' * (len(forces) > 1)} {names}", rest))
        return max(shares, key=lambda share: share.size) if shares else Share("its inertia", 0.0)

    def _state_label(self, name: str) -> str:
        """Label, for a message, of the joint friction or custom force to which a first-order state belongs."""
        for joint in self._system.mechanism.joints:
            if joint.bristle == name:
                return f"the friction of joint {joint.name!r}"
        force, _, state = name.partition(".")
        return f"state {state!r} of force {force!r}"

    def _shares(self, x: np.ndarray, rate: float) -> Iterator[Share]:
        """Yield the contribution to rate^2 x' M x of each element of the mechanism, with the mass matrix M.

        x     shape of a mode (n_q,)
        rate  absolute value of the mode's eigenvalue, 1/s
        """
        mechanism, w = self._system.mechanism, self._w
        curve = ON_CURVE
        ends = {sign: self._ends(w.q + sign * curve * x) for sign in (-1.0, 0.0, 1.0)}
        lengths = {sign: end[1] for sign, end in ends.items()}
        stored = 0.0
        for k, spring in enumerate(mechanism.springs):
            l_minus, l0, l_plus = (lengths[sign][k] for sign in (-1.0, 0.0, 1.0))
            V = [self._stored(spring, length) for length in (l_minus, l0, l_plus)]
            stiffness = (V[0] - 2.0 * V[1] + V[2]) / curve**2
            slope = (l_plus - l_minus) / (2.0 * curve)
            damping = self._value(spring.damping) * slope**2 * rate
            stored += stiffness
            yield Share(f"spring {spring.name!r}", abs(stiffness))
            yield Share(f"the damper of spring {spring.name!r}", abs(damping))
        self._q[:], self._v[:] = w.q, x
        self._measure()
        for joint, slope in zip(mechanism.moving_joints, self._rates, strict=True):
            yield Share(f"the damping of joint {joint.name!r}", self._value(joint.damping) * float(slope) ** 2 * rate)
        for joint, position, slope in zip(mechanism.moving_joints, self._positions, self._rates, strict=True):
            for share in joint_shares(joint, float(position), float(slope), rate, self._value):
                stored += share.size if share.stores else 0.0
                yield share._replace(size=abs(share.size))
        for share in self._oriented_shares(x, rate):
            stored += share.size if share.stores else 0.0
            yield share._replace(size=abs(share.size))
        self._v[:] = 0.0
        potentials = [end[0] for _, end in sorted(ends.items())]
        for beam in mechanism.beams:
            model = beam_model(beam)
            first = self._system.coordinate_names.index(model.coordinate_names[0])
            part = x[first : first + model.n]
            bent = float(part @ model.K @ part)
            stored += bent
            yield Share(f"beam {beam.name!r}", abs(bent), is_beam=True)
        for contact in mechanism.contacts:
            apart = [self._apart(w.q + sign * curve * x, contact) for sign in (-1.0, 0.0, 1.0)]
            for share in contact_shares(contact, apart, curve, rate, self._value):
                stored += share.size if share.stores else 0.0
                yield share
        weight = (potentials[0] - 2.0 * potentials[1] + potentials[2]) / curve**2 - stored
        yield from self._loads(x)
        yield Share(f"gravity on {self._mover(x)}", abs(weight))
        # the remainder comes from the motion itself: centrifugal and gyroscopic terms
        yield Share(f"the motion of {self._mover(x)}", 0.5 * self._kinetic(x) * self._speed(x) ** 2)

    def _oriented_shares(self, x: np.ndarray, rate: float) -> Iterator[Share]:
        """Yield the contribution to a mode of shape x of the springs, dampers, friction and stops of spherical
        and free joints.

        x     shape of the mode (n_q,)
        rate  absolute value of the mode's eigenvalue, 1/s
        """
        at = 0
        names = self._system.parameter_names
        for joint in self._system.mechanism.joints:
            block = slice(at, at + len(joint.coordinates))
            at = block.stop
            if not joint.orientation_names:
                continue
            first = names.index(joint.orientation_names[0])
            start = self._w.p[first : first + 4]
            poses = []
            for sign in (-1.0, 0.0, 1.0):
                q = self._w.q[block] + sign * ON_CURVE * x[block]
                place = q[:3] if joint.slides else np.zeros(3)
                poses.append(np.concatenate([place, quaternion_product(start, quaternion_of_step(q[-3:]))]))
            yield from oriented_shares(joint, poses, x[block], ON_CURVE, rate, self._value)

    def _loads(self, x: np.ndarray) -> Iterator[Share]:
        """Yield the contribution to a mode of shape x of joint loads and actuator efforts.

        A constant load or effort acts like a stiffness if the Jacobian from coordinate velocities to the joint velocity
        depends on q.
        """
        mechanism, w, moved = self._system.mechanism, self._w, {}
        for sign in (-1.0, 1.0):
            self._q[:], self._v[:] = w.q + sign * ON_CURVE * x, x
            self._measure()
            moved[sign] = self._rates.copy()
        self._q[:], self._v[:] = w.q, self._at_v
        slopes = np.abs(moved[1.0] - moved[-1.0]) / (2.0 * ON_CURVE)
        names = [joint.name for joint in mechanism.moving_joints]
        for joint, slope in zip(mechanism.moving_joints, slopes, strict=True):
            yield Share(f"the load of joint {joint.name!r}", abs(self._value(joint.load)) * float(slope))
        for actuator, u in zip(mechanism.actuators, w.u, strict=True):
            if actuator.joint:
                size = abs(float(u)) * float(slopes[names.index(actuator.joint)])
                yield Share(f"actuator {actuator.name!r}", size)

    def _ends(self, q: np.ndarray) -> tuple[float, list[float]]:
        """Potential energy of the mechanism, J, and lengths of the springs, m, at q."""
        self._q[:], self._v[:] = q, 0.0
        self._compute_energy()
        self._place()
        potential = float(self._energy[1])
        lengths = [math.dist(self._point(s.body_a, s.point_a), self._point(s.body_b, s.point_b)) for s in self._springs]
        self._q[:], self._v[:] = self._w.q, self._at_v
        return potential, lengths

    def _apart(self, q: np.ndarray, contact: SphereContact) -> np.ndarray:
        """Vector (3,) from the `other_point` of a contact to the centre of the contact's sphere, at the coordinates q.

        The vector is expressed in the frame of the contact's body `other`.
        """
        self._q[:] = q
        self._place()
        offset = np.subtract(self._point(contact.body, contact.center), self._point(contact.other, contact.other_point))
        if contact.other != GROUND:
            names = [each.name for each in self._system.mechanism.bodies]
            offset = self._R[names.index(contact.other)].T @ offset
        self._q[:] = self._w.q
        return offset

    @property
    def _springs(self) -> tuple[Spring, ...]:
        return self._system.mechanism.springs

    def _point(self, body: str, point: tuple[float, float, float]) -> list[float]:
        if body == GROUND:
            return list(point)
        k = [each.name for each in self._system.mechanism.bodies].index(body)
        return [float(c) for c in self._p[k] + self._R[k] @ np.array(point)]

    def _stored(self, spring: Spring, length: float) -> float:
        k, l0, F0 = (self._value(n) for n in (spring.stiffness, spring.rest_length, spring.pretension))
        return F0 * length + 0.5 * k * (length - l0) ** 2

    def _kinetic(self, x: np.ndarray) -> float:
        return float(x @ (self._fast_modes.inertial(x) if self._is_large else self._M @ x))

    def _speed(self, x: np.ndarray) -> float:
        """Largest |v_i x_i| over the coordinates i, 1/s, with the current velocities v.

        The result estimates the rate of the fastest-turning angle that takes part in a mode.

        x  shape of the mode (n_q,)
        """
        return float(np.abs(self._at_v * x).max(initial=0.0))

    def _mover(self, x: np.ndarray) -> str:
        """Label of the joint (joint coordinates) or body (absolute coordinates) that moves most in the mode shape x."""
        coordinate = self._system.coordinate_names[int(np.argmax(np.abs(x)))]
        if self._system.mechanism.has_joint_coordinates:
            return f"joint {coordinate.partition('.')[0]!r}"
        return f"body {coordinate.rpartition('.')[0]!r}"

    def _value(self, number: Number) -> float:
        if isinstance(number, Tunable | CapturedParameter):
            return float(self._w.p[self._system.parameter_names.index(number.name)])
        return float(number)


def departure(stepper: Stepper, pole: complex, step: float) -> float:
    """Error of the stepper in one time step, divided by the permitted error, for a mode that behaves like exp(pole t).

    A value above 1 means that the step size is too large; inf means that the numerical solution grows. The value is 0
    for a stepper that adapts its step size. A mode that grows physically is treated as an undamped vibration of the
    same frequency.

    pole  eigenvalue of the mode, 1/s
    step  step size, s
    """
    size, damping = abs(pole), max(-pole.real, 0.0)
    if stepper.adaptive or size * step < SLOW:
        return 0.0
    if abs(pole.imag) < 1e-6 * size and pole.real < 0.0:
        return math.inf if stepper.growth(0.0, size, step) > 1.0 + GROWS else 0.0
    growth = stepper.growth(size**2, 2.0 * damping, step)
    if growth > 1.0 + GROWS:
        return math.inf
    if not stepper.is_explicit or growth <= 0.0 or pole.real > GROWING * size:
        return 0.0
    lost = abs(math.log(growth) + step * damping)
    allowed = max(FADES * step * size / (2.0 * math.pi), OF_DAMPING * step * damping)
    return lost / allowed


def with_middles(states: np.ndarray) -> np.ndarray:
    """Insert a state in the middle between any two successive states; returns 2 n - 1 states.

    In the middle, q and v are those of the cubic polynomial in time through q and v of both states. An impact that is
    shorter than a time step shows only there.

    states  (n, 1 + 2 n_q): t, q, v at the ends of time steps
    """
    (t, q, v), size = np.split(states, [1, 1 + states.shape[1] // 2], axis=1), len(states)
    h, way = np.diff(t, axis=0), np.diff(q, axis=0)
    place = 0.5 * (q[1:] + q[:-1]) - h / 8.0 * np.diff(v, axis=0)
    speed = 1.5 * way / h - 0.25 * (v[1:] + v[:-1])
    found = np.empty((max(2 * size - 1, 0), states.shape[1]))
    found[::2], found[1::2] = states, np.hstack([0.5 * (t[1:] + t[:-1]), place, speed])
    return found


def eigenvalues_below(A: np.ndarray, limit: float) -> bool:
    """Whether a cheap upper bound of the absolute eigenvalues of a square matrix A is at most `limit`.

    The bound is the n-th root of the Frobenius norm of A^n, for n = 1, 2, 4 up to 2^SQUARINGS. The bounds decrease
    towards the largest absolute eigenvalue and cost far less than the eigenvalues. If the result is False, the
    eigenvalues may be above or below `limit`.
    """
    log_norm, power = 0.0, A  # A^n is exp(log_norm) times `power`; its norm stays 1, so that no power overflows
    for k in range(SQUARINGS + 1):
        norm = float(np.linalg.norm(power))
        if norm == 0.0:
            return True
        log_norm += math.log(norm)
        if math.exp(min(log_norm / 2.0**k, 700.0)) <= limit:
            return True
        power, log_norm = power @ power / norm**2, 2.0 * log_norm
    return False


def _free_directions(J: np.ndarray) -> np.ndarray:
    """Orthonormal basis (n_q, f) of the null space of J (n_r, n_q)."""
    n = J.shape[1]
    if J.shape[0] == 0:
        return np.eye(n)
    sizes = np.linalg.svd(J, compute_uv=False)
    rank = int(np.count_nonzero(sizes > RANK * max(float(sizes.max(initial=0.0)), 1e-300)))
    # QR where no row depends on others: LAPACK's SVD runs on several threads, which takes 100 ms on a busy machine
    basis = np.linalg.qr(J.T, mode="complete")[0] if rank == J.shape[0] else np.linalg.svd(J)[2].T
    free: np.ndarray = basis[:, rank:]
    return free


def rounded_down(step: float) -> float:
    """A step size, s, rounded down to two digits."""
    if not 0.0 < step < math.inf:
        return step
    unit = 10.0 ** (math.floor(math.log10(step)) - 1)
    return math.floor(step / unit) * unit

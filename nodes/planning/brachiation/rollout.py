"""Simulates a swing in which the elbow follows a prescribed path.

The compiled kernels of the mechanism compute all other motion. If the trunk has a motor, the robot's own PD law drives
the motor so that the trunk hangs vertically.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodes.planning.brachiation.swing_model import BOTH, DRIVEN, ELBOW, PITCH, SWING, TRUNK, PlannerModel, swing_system
from sim_core.kernels.bound import BoundKernel, pointer_table
from sim_core.kernels.compiled import call_kernel, inner, loop
from sim_core.mechanism.quantities import Tunable
from sim_core.system import System

LONGEST = 4096  # most steps of one rollout
N_POWERS = 8
NO_PATH = np.zeros(0)
GIVEN = 2  # constraint row of the prescribed elbow acceleration


@loop
def _roll(n_steps, h, share, duration, powers, kernel, hanging, memory, rows, torque, path):  # type: ignore[no-untyped-def]
    """Integrate n_steps time steps of h seconds by the classical Runge-Kutta method, and change q, v in place.

    The elbow's acceleration is prescribed: it is the second derivative of the elbow's polynomial.

    share     fraction of the path that is already completed at the start, 0 .. 1
    duration  duration of the whole path, s
    powers    coefficients of the elbow's polynomial; empty for a free elbow with constant torque
    kernel    (3,) addresses of the kernel `acceleration`, of its table of inputs and of its table of outputs
    hanging   (4,) stiffness, damping and torque limit of the trunk's PD law, then a flag: 1 if the trunk's joint is on
              the second link, 0 if it is on the first
    memory    (8, n), one row each for: q; v; generalized forces tau; accelerations a; q at the start of the time step;
              v at the start of the time step; weighted sum of v over the stages; weighted sum of a over the stages
    rows      (2, n_rows), one row each for U and lam. U is the input of the constraint equations J a = gamma - U, where
              J is the Jacobian and gamma follows from q and v. U[GIVEN] is minus the elbow's acceleration, where GIVEN
              is the index of the equation that prescribes this acceleration; all other entries of U are 0. lam are the
              Lagrange multipliers
    torque    (n_steps + 1,) output: torque of the elbow, N m
    path      (n_steps + 1, n) output: q
    """
    q, v, tau, a = memory[0], memory[1], memory[2], memory[3]
    n, U, lam = q.size, rows[0], rows[1]
    if powers.size > 0:
        q[ELBOW], v[ELBOW], _ = _jet(powers, share, duration)
    for step in range(n_steps + 1):
        for i in range(n):
            path[step, i] = q[i]
            memory[4, i], memory[5, i] = q[i], v[i]
            memory[6, i], memory[7, i] = 0.0, 0.0
        for stage in range(4):
            ahead = 0.0 if stage == 0 else (1.0 if stage == 3 else 0.5)
            if powers.size > 0:
                U[GIVEN] = -_jet(powers, share + (step + ahead) * h / duration, duration)[2]
            if hanging[2] > 0.0:
                tau[TRUNK] = _hang(hanging, q, v)
            call_kernel(kernel[0], kernel[1], kernel[2])
            if stage == 0:
                torque[step] = -lam[GIVEN] if powers.size > 0 else tau[ELBOW]
                if step == n_steps:
                    U[GIVEN] = 0.0
                    return
            _stage(stage, h, q, v, a, memory)
        for i in range(n):
            q[i] = memory[4, i] + memory[6, i]
            v[i] = memory[5, i] + memory[7, i]


@inner
def _hang(hanging, q, v):  # type: ignore[no-untyped-def]
    """Torque of the trunk's motor (N m) from a PD law on the trunk's angle to the vertical.

    hanging  (4,) stiffness, damping and torque limit of the law, then a flag: 1 if the trunk's joint is on the second
             link, 0 if it is on the first
    q, v     coordinates and their rates
    """
    leans = q[PITCH] + hanging[3] * q[ELBOW] + q[TRUNK]
    turns = v[PITCH] + hanging[3] * v[ELBOW] + v[TRUNK]
    return min(max(-hanging[0] * leans - hanging[1] * turns, -hanging[2]), hanging[2])


@inner
def _jet(powers, s, duration):  # type: ignore[no-untyped-def]
    """Value, first and second time derivative of the polynomial sum powers[k] s^k, at s = time / duration in 0 .. 1."""
    position, rate, bending = 0.0, 0.0, 0.0
    for k in range(powers.size - 1, -1, -1):
        bending = bending * s + 2.0 * rate
        rate = rate * s + position
        position = position * s + powers[k]
    return position, rate / duration, bending / (duration * duration)


@inner
def _stage(stage, h, q, v, a, memory):  # type: ignore[no-untyped-def]
    """Add the rates of a Runge-Kutta stage to the sums in `memory`, and set q, v for the next stage.

    stage   number of the stage, 0 to 3
    h       time step, s
    a       accelerations at this stage
    memory  (8, n) arrays of the integration; `_roll` describes its rows
    """
    weight = h / 6.0 if stage == 0 or stage == 3 else h / 3.0
    reach = 0.5 * h if stage < 2 else h
    for i in range(q.size):
        rate = v[i]
        memory[6, i] += weight * rate
        memory[7, i] += weight * a[i]
        if stage < 3:
            v[i] = memory[5, i] + reach * a[i]
            q[i] = memory[4, i] + reach * rate


@loop
def over_limit(torque, n, limit):  # type: ignore[no-untyped-def]
    """(RMS of max(|torque| - limit, 0), RMS of the torque) in N m, over the first n torques."""
    over, all_of_it = 0.0, 0.0
    for k in range(n):
        value = abs(torque[k])
        all_of_it += value * value
        if value > limit:
            over += (value - limit) ** 2
    return math.sqrt(over / n), math.sqrt(all_of_it / n)


@dataclass(frozen=True)
class Arrival:
    """State of the second hand, which swings, at the end of a rollout (simulated swing).

    gap      height above the cable or bars, m
    closing  upward velocity, m/s; positive as the hand approaches the cable or bars from below
    way      position along the cable or bars, m
    drift    velocity along the cable or bars, m/s
    """

    gap: float
    closing: float
    way: float
    drift: float


class Roller:
    """Simulates the motion of one planner model, with kernels that work on the arrays of this object.

    hand        hand that grips, "a" or "b"
    q, v        (n_q,) coordinates and rates
    tau         (n_q,) generalized forces; only the entries of the elbow and the trunk have an effect
    a           (n_q,) accelerations
    lam         (n_rows,) Lagrange multipliers
    torque      torque of the elbow at each time step of the latest rollout, N m
    path        coordinates at each time step of the latest rollout
    accelerate  three functions without arguments, for the mechanisms SWING, BOTH and DRIVEN of `swing_model`; each
                computes a and lam from q, v, tau
    """

    def __init__(self, planner_model: PlannerModel, hand: str) -> None:
        model = planner_model.ordered_from(hand)
        systems = [swing_system(model, kind) for kind in (SWING, BOTH, DRIVEN)]
        self.system = system = systems[BOTH]
        n = system.n_q
        self._memory, self._rows = np.zeros((8, n)), np.zeros((2, system.max_rows))
        self.q, self.v, self.tau, self.a, *_ = self._memory
        self.lam = self._rows[1]
        self.torque, self.path = np.zeros(LONGEST + 1), np.zeros((LONGEST + 1, n))
        self._tensions: list[tuple[int, np.ndarray, float]] = []
        self._keep: list[object] = []
        self._hanging = np.array([*model.hanging, model.trunk_on == "lower"])
        bound = [self._bound(each, model) for each in systems]
        self.accelerate, self._kernels = [call for call, _ in bound], [kernel for _, kernel in bound]
        self.phi, self.phidot = np.zeros(system.max_rows), np.zeros(system.max_rows)
        inputs = [np.zeros(1), self.q, self.v, np.zeros(system.n_u), system.default_parameters()]
        self.measure = system.bind("residual", inputs, [self.phi, self.phidot])

    def _bound(self, system: System, planner_model: PlannerModel) -> tuple[BoundKernel, np.ndarray]:
        """The kernel `acceleration` of a mechanism, bound to the arrays of this object.

        Returns (function that calls the kernel, addresses (3,) for the argument `kernel` of `_roll`).
        """
        parameters = system.default_parameters()
        if planner_model.cable is not None and isinstance(planner_model.cable.tension, Tunable):
            place = system.parameter_names.index(planner_model.cable.tension.name)
            self._tensions.append((place, parameters, planner_model.cable.tension.value))
        motors = self.tau[ELBOW : ELBOW + system.n_u]
        inputs = [np.zeros(1), self.q, self.v, motors, parameters, self._rows[0]]
        outputs = [self.a, self.lam, np.zeros(system.max_factor)]
        tables = pointer_table(inputs), pointer_table(outputs)
        self._keep.append((inputs, outputs, tables))
        numbers = [system.addresses["acceleration"], *(table.ctypes.data for table in tables)]
        kernel = np.array(numbers, dtype=np.int64)
        return system.bind("acceleration", inputs, outputs), kernel

    def warm_up(self) -> None:
        """Compile the rollout functions, so that the first plan takes no longer than later ones."""
        self._advance(1e-6, 1e-6, DRIVEN, np.zeros(N_POWERS), 1.0, 0.0)
        self.coast(1e-6, 1e-6)
        over_limit(self.torque, 1, 1.0)

    def snapshot(self) -> list[Any]:
        """Generalized forces and cable tensions, for `restore`.

        The coordinates are not included, because they are set before each rollout.
        """
        return [self.tau, [float(parameters[place]) for place, parameters, _ in self._tensions]]

    def restore(self, state: list[Any]) -> None:
        """Continue from a result of `snapshot`."""
        self.tau[:] = state[0]
        for (place, parameters, _), tension in zip(self._tensions, state[1], strict=True):
            parameters[place] = tension

    def set_tension(self, scale: float) -> None:
        """Set the cable's tension to `scale` times the tension in the planner model; initially `scale` is 1."""
        for place, parameters, tension in self._tensions:
            parameters[place] = scale * tension

    def roll(self, powers: np.ndarray, duration: float, until: float, step: float, share: float = 0.0) -> int:
        """Move q, v along the elbow's path from the fraction `share` of its duration to the fraction `until`.

        Returns the number of time steps. Both fractions are in 0 .. 1.

        powers    (8,) coefficients of a polynomial: the elbow angle (rad) is the sum of powers[k] s^k, where s rises
                  from 0 to 1 in `duration` seconds
        duration  duration of the whole path, s
        step      approximate time step, s
        """
        return self._advance(max(until - share, 0.0) * duration, step, DRIVEN, powers, duration, share)

    def coast(self, seconds: float, step: float, hands: int = BOTH) -> None:
        """Advance q, v by `seconds` with the constant elbow torque in `tau`.

        step   approximate time step, s
        hands  SWING if one hand grips, BOTH if both hands grip
        """
        self._advance(seconds, step, hands, NO_PATH, 1.0, 0.0)

    def _advance(self, span: float, step: float, kind: int, powers: np.ndarray, duration: float, share: float) -> int:
        n_steps = min(max(math.ceil(span / step - 1e-9), 1), LONGEST)
        kernel, h = self._kernels[kind], span / n_steps
        work = self._hanging, self._memory, self._rows, self.torque, self.path
        _roll(n_steps, h, share, duration, powers, kernel, *work)
        return n_steps

    def arrival(self) -> Arrival:
        """State of the second hand at the present q and v."""
        self.measure()
        return Arrival(float(self.phi[2]), float(self.phidot[2]), float(self.phi[3]), float(self.phidot[3]))

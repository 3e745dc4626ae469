"""Rolls a swing out: the elbow follows a path, everything else follows from the mechanism and its kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robots.gibbon.swing_model import BOTH, ELBOW, SWING, Beliefs, swing_system
from sim_core.kernels.bound import pointer_table
from sim_core.kernels.compiled import call_kernel, inner, loop
from sim_core.quantities import Tunable

LONGEST = 4096  # steps of one rollout
N_POWERS = 8
NO_PATH = np.zeros(0)


@loop
def _roll(n_steps, h, share, duration, powers, kernel, memory, torque, path):  # type: ignore[no-untyped-def]
    """Runge-Kutta 4 over n_steps of h with the elbow's acceleration from its polynomial; q, v are moved in place.

    share      how much of the path lies behind at the start, 0 .. 1; duration of all of it, s
    powers     none where the elbow follows no path: its torque then stays as it is
    kernel     (3,) address and pointer tables of `forward_dynamics` on q, v, tau -> a
    memory     (9, n): q, v, tau, a; q and v at the step's start, sums of the stages; a before
    torque     (n_steps + 1,) gets the elbow's torque, path (n_steps + 1, n) gets q
    """
    q, v, tau, a = memory[0], memory[1], memory[2], memory[3]
    n = q.size
    for step in range(n_steps + 1):
        for i in range(n):
            path[step, i] = q[i]
            memory[4, i], memory[5, i] = q[i], v[i]
            memory[6, i], memory[7, i] = 0.0, 0.0
        for stage in range(4):
            ahead = 0.0 if stage == 0 else (1.0 if stage == 3 else 0.5)
            s = share + (step + ahead) * h / duration
            _accelerate(powers, s, duration, kernel, memory)
            if stage == 0:
                torque[step] = tau[ELBOW]
                if step == n_steps:
                    return
            _stage(stage, h, q, v, a, memory)
        for i in range(n):
            q[i] = memory[4, i] + memory[6, i]
            v[i] = memory[5, i] + memory[7, i]


@inner
def _accelerate(powers, s, duration, kernel, memory):  # type: ignore[no-untyped-def]
    """a at q, v; with a path the elbow's torque becomes that which bends it so: a is linear in it."""
    q, tau, a = memory[0], memory[2], memory[3]
    if powers.size > 0:
        bending = 0.0
        for k in range(powers.size - 1, 1, -1):
            bending = bending * s + k * (k - 1) * powers[k]
        call_kernel(kernel[0], kernel[1], kernel[2])
        for i in range(q.size):
            memory[8, i] = a[i]
        tau[ELBOW] += 1.0
        call_kernel(kernel[0], kernel[1], kernel[2])
        more = (bending / (duration * duration) - a[ELBOW]) / (a[ELBOW] - memory[8, ELBOW])
        tau[ELBOW] += more
        for i in range(q.size):
            a[i] += more * (a[i] - memory[8, i])
        return
    call_kernel(kernel[0], kernel[1], kernel[2])


@inner
def _stage(stage, h, q, v, a, memory):  # type: ignore[no-untyped-def]
    """Add a stage's rates to the sums, and put q, v where the next stage wants them."""
    weight = h / 6.0 if stage == 0 or stage == 3 else h / 3.0
    reach = 0.5 * h if stage < 2 else h
    for i in range(q.size):
        rate = v[i]
        memory[6, i] += weight * rate
        memory[7, i] += weight * a[i]
        if stage < 3:
            v[i] = memory[5, i] + reach * a[i]
            q[i] = memory[4, i] + reach * rate


@dataclass(frozen=True)
class Arrival:
    """How the second hand is at the end of a rollout.

    gap, closing    m above the line, m/s that it nears the line from below
    way, drift      m along the line, m/s
    """

    gap: float
    closing: float
    way: float
    drift: float


class Roller:
    """The kernels of one planning model on memory of their own; `hand` is the one that grips, "a" or "b".

    q, v, tau, a  (n_q,): coordinates, rates, generalized forces, accelerations
    torque, path  of the last rollout
    accelerate    kernels that write a and lam, of SWING and BOTH
    """

    def __init__(self, beliefs: Beliefs, hand: str) -> None:
        seen = beliefs.seen_from(hand)
        systems = [swing_system(seen, hands) for hands in (1, 2)]
        self.system = system = systems[BOTH]
        n = system.n_q
        self._memory = np.zeros((9, n))
        self.q, self.v, self.tau, self.a, *_ = self._memory
        self.torque, self.path = np.zeros(LONGEST + 1), np.zeros((LONGEST + 1, n))
        self._tensions: list[tuple[int, np.ndarray, float]] = []
        state = [np.zeros(1), self.q, self.v]
        self.lam = np.zeros(system.max_rows)
        self.accelerate, self._kernels, self._keep = [], [], []
        for each in systems:
            parameters = each.default_parameters()
            inputs, outputs = [*state, self.tau, parameters], [self.a, self.lam]
            if beliefs.cable is not None and isinstance(beliefs.cable.tension, Tunable):
                place = each.parameter_names.index(beliefs.cable.tension.name)
                self._tensions.append((place, parameters, beliefs.cable.tension.value))
            self.accelerate.append(each.bind("forward_dynamics", inputs, outputs))
            tables = pointer_table(inputs), pointer_table(outputs)
            self._keep.append((inputs, outputs, tables))
            address = each.addresses["forward_dynamics"]
            self._kernels.append(np.array([address, *(table.ctypes.data for table in tables)], dtype=np.int64))
        self.phi, self.phidot = np.zeros(system.max_rows), np.zeros(system.max_rows)
        inputs = [*state, np.zeros(system.n_u), system.default_parameters()]
        self.measure = system.bind("residual", inputs, [self.phi, self.phidot])

    def warm_up(self) -> None:
        """Compile what rolling needs, so that the first plan costs what the others do."""
        for hands in (SWING, BOTH):
            self._advance(1e-6, 1e-6, hands, np.zeros(N_POWERS), 1.0, 0.0)

    def slacken(self, scale: float) -> None:
        """The line's tension is `scale` times what is believed; 1 at first."""
        for place, parameters, tension in self._tensions:
            parameters[place] = scale * tension

    def roll(self, powers: np.ndarray, duration: float, until: float, step: float, share: float = 0.0) -> int:
        """Move q, v along the elbow's path from `share` of it to `until`, in steps of about `step` s; how many.

        powers   (8,): elbow = sum powers[k] s^k, rad, s from 0 to 1 over `duration` s
        """
        self.q[ELBOW] = np.polynomial.polynomial.polyval(share, powers)
        self.v[ELBOW] = np.polynomial.polynomial.polyval(share, np.polynomial.polynomial.polyder(powers)) / duration
        return self._advance(max(until - share, 0.0) * duration, step, SWING, powers, duration, share)

    def coast(self, seconds: float, step: float, hands: int = BOTH) -> None:
        """Move q, v on for a time with the elbow's torque as it stands in `tau`, in steps of about `step` s."""
        self._advance(seconds, step, hands, NO_PATH, 1.0, 0.0)

    def _advance(self, span: float, step: float, hands: int, powers: np.ndarray, duration: float, share: float) -> int:
        n_steps = min(max(int(np.ceil(span / step - 1e-9)), 1), LONGEST)
        kernel, h = self._kernels[hands], span / n_steps
        _roll(n_steps, h, share, duration, powers, kernel, self._memory, self.torque, self.path)
        return n_steps

    def arrival(self) -> Arrival:
        """How the second hand is at the present q and v."""
        self.measure()
        return Arrival(float(self.phi[2]), float(self.phidot[2]), float(self.phi[3]), float(self.phidot[3]))

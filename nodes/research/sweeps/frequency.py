"""Frequency response of a launch, measured in lockstep with its controllers in the loop, and its margins.

A sine d is added to the effort u_c of one actuator, so that the robot gets u = u_c + d. With the amplitudes U_c, U and
Y of the efforts and of a joint's position at the frequency of d, the loop gain is L = -U_c / U, and the response of the
robot in the loop is Y / U. The loop is opened at the effort of this actuator; all other loops stay closed.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from nodes.framework.plan.launch_plan import Plan
from nodes.framework.simulation.compose import compose
from nodes.recorder import without_recorders
from sim_core.analysis.linearization import LinearSystem, linearize
from sim_core.errors import InvalidRequest, UnknownName

Array = np.ndarray
PERIODS = 4  # of a sine in one measurement
SETTLED = 1e-3  # largest relative change of the loop gain between two measurements
MOST_MEASUREMENTS = 12  # at one frequency
NARROW = 1.002  # ratio of the two frequencies between which a crossing is interpolated
PER_PERIOD = 4  # fewest steps in a period


class Margins(NamedTuple):
    """Stability margins of a closed loop, over all crossings in the measured range; None without such a crossing.

    gain         factor by which the loop gain may grow: the smallest 1 / |L| above 1 where L is real and negative
    gain_hz      frequency of this crossing, Hz
    lower_gain   factor to which the loop gain may fall: the largest such 1 / |L| below 1
    lower_gain_hz  frequency of this crossing, Hz
    phase_deg    smallest change of the phase of L that makes it -180 degrees where |L| = 1
    phase_hz     frequency of this crossing, Hz
    delay_s      smallest additional delay that makes the phase of L -180 degrees where |L| = 1, s
    delay_hz     frequency of this crossing, Hz
    """

    gain: float | None = None
    gain_hz: float | None = None
    lower_gain: float | None = None
    lower_gain_hz: float | None = None
    phase_deg: float | None = None
    phase_hz: float | None = None
    delay_s: float | None = None
    delay_hz: float | None = None


@dataclass(frozen=True)
class FrequencyResponse:
    """Response at the frequencies (n,), Hz, ascending: complex loop gains, and responses of the robot.

    loop    (n,) loop gain L, without unit
    robot   (n,) position of the joint by the effort, measured in the loop, rad/(N m) or as the units are
    linear  (n,) the same of the linear model of the robot; None if there is none, for the reason `without_linear`
    """

    actuator: str
    joint: str
    frequencies: Array
    loop: Array
    robot: Array
    linear: Array | None
    margins: Margins
    without_linear: str = ""


def frequency_response(
    plan: Plan,
    actuator: str,
    frequencies: Sequence[float],
    amplitude: float,
    joint: str = "",
    settle_s: float = 2.0,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> FrequencyResponse:
    """Measure the response of a launch at an actuator.

    frequencies  Hz; each is moved to the next one of which PERIODS periods are a whole number of steps
    amplitude    of the sine, N m or N
    joint        joint whose position is measured; by default the actuator's
    settle_s     time (s) from the start of the launch to the first measurement
    report       function called with (measured frequencies, all frequencies); it may raise an error to stop

    Raises InvalidRequest for a plan of several robots, a frequency that the step does not resolve, a run that diverges,
    and a response that does not settle; UnknownName for an unknown actuator or joint.
    """
    plan = without_recorders(plan)
    plan = msgspec.structs.replace(plan, sim=msgspec.structs.replace(plan.sim, mode="lockstep"))
    with compose(plan) as run:
        if len(run.server.robots) != 1:
            raise InvalidRequest(f"launch {plan.name!r} has several robots; give a launch of one robot")
        robot = run.server.robots[0]
        loop = _Loop(run, robot, actuator, joint)
        highest = 1.0 / (PER_PERIOD * loop.step_s)
        for frequency in frequencies:
            if not 0.0 < frequency <= highest:
                raise InvalidRequest(
                    f"{frequency:g} Hz: the frequencies must lie in 0 .. {highest:g} Hz, as a period needs "
                    f"{PER_PERIOD} steps of {1e3 * loop.step_s:g} ms"
                )
        run.step(max(1, round(settle_s / loop.step_s)))
        linear, why = loop.linear()
        found: dict[float, tuple[complex, complex]] = {}
        loop.begin(amplitude)
        for k, frequency in enumerate(sorted(frequencies)):
            report(k, len(frequencies))
            found |= dict([loop.measure(frequency)])
        report(len(frequencies), len(frequencies))
        for crosses in (_crosses_one, _crosses_real_axis):
            for low, high in list(_crossings(found, crosses)):
                _refine(loop, found, crosses, low, high)
    at = np.array(sorted(found))
    gains, responses = (np.array([found[f][k] for f in at]) for k in (0, 1))
    model = None if linear is None else _response(linear, at)
    return FrequencyResponse(actuator, loop.joint, at, gains, responses, model, _margins(found), why)


class _Loop:
    """The loop of one actuator of a run, with a sine added to its effort."""

    def __init__(self, run: Any, robot: Any, actuator: str, joint: str) -> None:
        self.run, self.robot, self.simulation = run, robot, robot.simulation
        system = self.simulation.system
        actuators = {each.name: k for k, each in enumerate(system.mechanism.actuators)}
        owner = f"robot {system.mechanism.name!r}"
        if actuator not in actuators:
            raise UnknownName(owner, "actuator", actuator, actuators)
        self.actuator = actuators[actuator]
        self.joint = joint or system.mechanism.actuators[self.actuator].joint
        if self.joint not in system.joint_names:
            raise UnknownName(owner, "joint", self.joint, system.joint_names)
        self._place = system.joint_names.index(self.joint)
        self.step_s = float(self.simulation.step_s)
        effort = self.simulation.driven
        if effort is None:
            raise InvalidRequest(
                f"{owner}: an effort cannot be changed at every step with stepper {self.simulation.stepper.name!r}, or "
                'with actuators that prescribe a motion; choose stepper = "rk4"'
            )
        self._effort: Array = effort
        self._rate, self._amplitude, self._phase = 0.0, 0.0, 0
        self._rows: list[tuple[float, float, float]] = []
        self._commanded = 0.0

    def linear(self) -> tuple[LinearSystem | None, str]:
        """(linear model of the robot, from all efforts to the joint's position; ""), or (None, why there is none)."""
        try:
            sim = self.simulation
            model = linearize(
                sim.system, sim.state, outputs=[self.joint], step_s=self.step_s, stepper=sim.stepper,
                stabilizer=sim.stabilizer,
            )  # fmt: skip
        except InvalidRequest as error:
            return None, str(error)
        k = [self.actuator]
        return dataclasses.replace(model, B=model.B[:, k], D=model.D[:, k]), ""

    def begin(self, amplitude: float) -> None:
        """Begin to add a sine of this amplitude to the effort."""
        self._amplitude = amplitude
        apply, self._commanded = self.robot.commands.apply, float(self._effort[self.actuator])

        def apply_and_add() -> None:
            self._effort[self.actuator] = self._commanded
            apply()
            self._commanded = float(self._effort[self.actuator])
            added = self._amplitude * math.sin(self._rate * self._phase)
            self._effort[self.actuator] += added
            self._phase += 1
            position = float(self.robot.commands.joints()[0][self._place])
            self._rows.append((self._commanded, self._commanded + added, position))

        self.robot.commands.apply = apply_and_add

    def measure(self, frequency: float) -> tuple[float, tuple[complex, complex]]:
        """(frequency, (loop gain, response of the robot)) at a frequency near the given one."""
        steps = max(PERIODS * PER_PERIOD, round(PERIODS / (frequency * self.step_s)))
        frequency = PERIODS / (steps * self.step_s)
        self._rate, self._phase = 2.0 * math.pi * frequency * self.step_s, 0
        before = np.full(2, np.inf, dtype=complex)
        for _ in range(MOST_MEASUREMENTS):
            self._rows.clear()
            self.run.step(steps)
            rows = np.array(self._rows)
            if not np.isfinite(rows).all():
                raise InvalidRequest(f"the run diverged at {frequency:.4g} Hz; is the loop stable without the sine?")
            sine = np.exp(-1j * self._rate * np.arange(len(rows)))
            commanded, effort, position = rows.T @ sine
            if abs(effort) < 1e-3 * self._amplitude * len(rows):
                raise InvalidRequest(
                    f"at {frequency:.4g} Hz the loop cancels the sine, so that its gain is not resolved"
                )
            now = np.array([-commanded, position]) / effort
            if (np.abs(now - before) <= SETTLED * np.maximum(np.abs(now), [SETTLED, 0.0])).all():
                return frequency, (complex(now[0]), complex(now[1]))
            before = now
        raise InvalidRequest(
            f"the response at {frequency:.4g} Hz has not settled after {MOST_MEASUREMENTS * PERIODS} periods; let the "
            "launch settle longer before, give a smaller amplitude, or a launch that holds the robot in one place"
        )


def _response(linear: LinearSystem, frequencies: Array) -> Array:
    one = np.eye(len(linear.states))
    z = np.exp(2j * np.pi * frequencies * (linear.step_s or 0.0))
    return np.array([(linear.C @ np.linalg.solve(w * one - linear.A, linear.B) + linear.D).item() for w in z])


Found = dict[float, tuple[complex, complex]]
Crosses = Callable[[complex, complex], bool]


def _crosses_one(a: complex, b: complex) -> bool:
    """Whether |L| crosses 1 between two neighbouring frequencies."""
    return (abs(a) > 1.0) != (abs(b) > 1.0)


def _crosses_real_axis(a: complex, b: complex) -> bool:
    """Whether L crosses the negative real axis between two neighbouring frequencies, on the shorter way."""
    return bool((a.imag > 0.0) != (b.imag > 0.0) and abs(np.angle(-a) - np.angle(-b)) < math.pi)


def _crossings(found: Found, crosses: Crosses) -> Iterator[tuple[float, float]]:
    """Yield neighbouring frequencies between which the loop gain has a crossing."""
    for low, high in itertools.pairwise(sorted(found)):
        if crosses(found[low][0], found[high][0]):
            yield low, high


def _refine(loop: _Loop, found: Found, crosses: Crosses, low: float, high: float) -> None:
    """Measure between two frequencies, halving the interval of a crossing until it is NARROW."""
    while high / low > NARROW:
        middle, values = loop.measure(math.sqrt(low * high))
        if not low < middle < high:
            return  # the step resolves no more
        found[middle] = values
        low, high = (low, middle) if crosses(found[low][0], values[0]) else (middle, high)


def _margins(found: Found) -> Margins:
    gains, phases = [], []
    for low, high in _crossings(found, _crosses_real_axis):
        a, b = found[low][0], found[high][0]
        share = a.imag / (a.imag - b.imag)
        gains.append((1.0 / abs(a.real + share * (b.real - a.real)), low * (high / low) ** share))
    for low, high in _crossings(found, _crosses_one):
        a, b = np.log(found[low][0]), np.log(found[high][0])
        share = a.real / (a.real - b.real)
        turn = (b.imag - a.imag + math.pi) % (2.0 * math.pi) - math.pi
        phases.append((float(np.angle(-np.exp(1j * (a.imag + share * turn)))), low * (high / low) ** share))
    upper = min((each for each in gains if each[0] > 1.0), default=(None, None))
    lower = max((each for each in gains if each[0] < 1.0), default=(None, None))
    phase = min(((abs(math.degrees(angle)), f) for angle, f in phases), default=(None, None))
    delay = min((((angle % (2.0 * math.pi)) / (2.0 * math.pi * f), f) for angle, f in phases), default=(None, None))
    return Margins(*(None if x is None else float(x) for x in (*upper, *lower, *phase, *delay)))

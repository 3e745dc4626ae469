"""Frequency response of a launch, measured in lockstep with its controllers in the loop, and its margins.

A sine d is added to the effort u_c of one actuator, so that the robot gets u = u_c + d. With the amplitudes U_c, U and
Y of the efforts and of a joint's position at the frequency of d, the loop gain is L = -U_c / U, and the response of the
robot in the loop is Y / U. The loop is opened at the effort of this actuator; all other loops stay closed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from nodes.framework.plan.launch_plan import Plan
from nodes.framework.simulation.compose import compose
from nodes.recorder import without_recorders
from nodes.research.sweeps.margins import Margins, margins_of, resolve_crossings
from sim_core.analysis.linearization import LinearSystem, linearize
from sim_core.errors import InvalidRequest, UnknownName

Array = np.ndarray
PERIODS = 4  # of a sine in one measurement
SETTLED = 1e-3  # largest relative change of the loop gain between two measurements
MOST_MEASUREMENTS = 12  # at one frequency, or as many as fit into the time to settle
LEAST_WAIT_S = 10.0  # shortest time to settle at one frequency
DECAYS = 0.5  # ratio of the rest of the motion at the end and at the beginning, below which it decays
PER_PERIOD = 4  # fewest steps in a period


@dataclass(frozen=True)
class FrequencyResponse:
    """Response at the frequencies (n,), Hz, ascending: complex loop gains, and responses of the robot.

    loop    (n,) loop gain L, without unit
    robot   (n,) position of the joint by the effort, measured in the loop, rad/(N m) or as the units are
    linear  (n,) the same of the linear model of the robot; None if there is none, for the reason `without_linear`
    notes   one line for each part of the range where margins may be missing
    """

    actuator: str
    joint: str
    frequencies: Array
    loop: Array
    robot: Array
    linear: Array | None
    margins: Margins
    without_linear: str = ""
    notes: tuple[str, ...] = ()


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

    frequencies  Hz; each is moved to the next one of which PERIODS periods are a whole number of steps. Further ones
                 between them are measured to find all crossings
    amplitude    of the sine, N m or N
    joint        joint whose position is measured; by default the actuator's
    settle_s     time (s) from the start of the launch to the first measurement, and the longest wait at a frequency,
                 which is at least LEAST_WAIT_S and MOST_MEASUREMENTS measurements
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
        loop = _Loop(run, robot, actuator, joint, settle_s)
        highest = 1.0 / (PER_PERIOD * loop.step_s)
        for frequency in frequencies:
            if not 0.0 < frequency <= highest:
                raise InvalidRequest(
                    f"{frequency:g} Hz: the frequencies must lie in 0 .. {highest:g} Hz, as a period needs "
                    f"{PER_PERIOD} steps of {1e3 * loop.step_s:g} ms"
                )
        run.step(max(1, round(settle_s / loop.step_s)))
        linear, why = loop.linear()
        measured = _Measured(loop, amplitude, report)
        for k, frequency in enumerate(sorted(frequencies)):
            measured.expected = len(frequencies) - k
            measured.add(frequency)
        measured.expected = 1
        model = None if linear is None else functools.partial(_response, linear)
        notes = resolve_crossings(measured.loop, measured.add_if_resolved, model)
        report(len(measured.loop), len(measured.loop))
    at = np.array(sorted(measured.loop))
    gains, responses = (np.array([found[f] for f in at.tolist()]) for found in (measured.loop, measured.robot))
    margins = margins_of(measured.loop)
    of_model = None if model is None else model(at)
    return FrequencyResponse(actuator, loop.joint, at, gains, responses, of_model, margins, why, tuple(notes))


class _Unresolved(InvalidRequest):
    """The loop gain at one frequency is too large to be measured."""


class _Measured:
    """Loop gains and responses of the robot, by frequency.

    expected  number of frequencies still to be measured, for `report`
    """

    def __init__(self, loop: _Loop, amplitude: float, report: Callable[[int, int], None]) -> None:
        self.loop: dict[float, complex] = {}
        self.robot: dict[float, complex] = {}
        self.expected = 0
        self._loop, self._report = loop, report
        loop.begin(amplitude)

    def add(self, frequency: float) -> float:
        """Measure near a frequency; the measured frequency."""
        self._report(len(self.loop), len(self.loop) + self.expected)
        frequency, (gain, response) = self._loop.measure(frequency)
        self.loop[frequency], self.robot[frequency] = gain, response
        return frequency

    def add_if_resolved(self, frequency: float) -> float | None:
        """Measure near a frequency; the measured frequency, or None if the loop gain there is too large."""
        try:
            return self.add(frequency)
        except _Unresolved:
            return None


class _Loop:
    """The loop of one actuator of a run, with a sine added to its effort."""

    def __init__(self, run: Any, robot: Any, actuator: str, joint: str, settle_s: float) -> None:
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
        self.wait_s = max(settle_s, LEAST_WAIT_S)

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
        sine = np.exp(-1j * self._rate * np.arange(steps))
        window = 1.0 - np.cos(2.0 * np.pi * np.arange(steps) / steps)  # of Hann: against decaying motions
        before, rests = np.full(2, np.inf, dtype=complex), []
        for _ in range(max(MOST_MEASUREMENTS, math.ceil(self.wait_s / (steps * self.step_s)))):
            self._rows.clear()
            self.run.step(steps)
            rows = np.array(self._rows)
            if not np.isfinite(rows).all():
                raise InvalidRequest(f"the run diverged at {frequency:.4g} Hz; is the loop stable without the sine?")
            commanded, effort, position = rows.T @ (sine * window)
            if abs(effort) < 1e-3 * self._amplitude * steps:
                raise _Unresolved(f"at {frequency:.4g} Hz the loop cancels the sine, so that its gain is not resolved")
            now = np.array([-commanded, position]) / effort
            if (np.abs(now - before) <= SETTLED * np.maximum(np.abs(now), [SETTLED, 0.0])).all():
                return frequency, (complex(now[0]), complex(now[1]))
            before = now
            rests.append(float(np.std(rows[:, 2] - 2.0 / steps * (position * sine.conj()).real)))
        raise InvalidRequest(self._why_not_settled(frequency, steps * self.step_s, rests))

    def _why_not_settled(self, frequency: float, each_s: float, rests: list[float]) -> str:
        """Message about a response that has not settled.

        rests  standard deviations of the position less its sine, in measurements of `each_s` seconds
        """
        what = f"the response at {frequency:.4g} Hz has not settled after {len(rests) * each_s:.3g} s"
        half = len(rests) // 2
        if max(rests[half:]) < DECAYS * max(rests[:half]):
            return f"{what}: the launch still comes to rest; give it more time, --settle {2.0 * self.wait_s:g}"
        return (
            f"{what}: a motion beside the sine does not decay; the loop is unstable or at its limit of effort without "
            "the sine, the launch moves the robot, or the measurements are noisy"
        )


def _response(linear: LinearSystem, frequencies: Array) -> Array:
    one = np.eye(len(linear.states))
    z = np.exp(2j * np.pi * frequencies * (linear.step_s or 0.0))
    return np.array([(linear.C @ np.linalg.solve(w * one - linear.A, linear.B) + linear.D).item() for w in z])

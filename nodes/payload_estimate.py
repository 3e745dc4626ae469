"""Estimates the mass that a link of the robot carries, while the robot moves, with its 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import numpy as np

from nodes.framework import messages
from nodes.framework.plan.launch_plan import Plan
from nodes.hil.identification.model import model_of
from nodes.hil.identification.payload import (
    TWO_SIDED_95,
    Calibration,
    Load,
    LoadedLink,
    Motion,
    averaged,
    calibrated,
)
from nodes.node import Context, Node, Outgoing

LEAST_SAMPLES = 6  # of a window
LEAST_MOTIONS = 20  # of a calibration
STATE = ("_begun", "_samples", "_applied", "_motions", "_taus", "_calibration", "_load", "_estimate")


class PayloadEstimateParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The link, the calibration, and the time in which a load is forgotten."""

    body: str = ""  # body that carries the load; "": the last link
    source: Literal["measured_state", "state"] = "measured_state"  # topic of the positions and efforts
    calibrate_s: float = 3.0  # s without load at the start, in which the robot moves
    forgetting_s: float = 2.0  # s: time constant of the forgetting
    window_s: float = 0.1  # s: time over which positions and efforts are averaged
    gain_error: float = 0.1  # standard deviation of the motors' gains before the calibration, relative
    gain_drift: float = 0.005  # standard deviation by which gains vary after it, relative
    friction: float = 0.5  # standard deviation of offsets and friction before it, relative to the efforts
    heaviest: float = 2.0  # kg: standard deviation of the mass before the first measurement
    reach: float = 0.15  # m: distance of the load's parts from the body's origin
    center: list[float] = []  # m: centre of the load in the body's frame, if it is known; the load is then a point

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not 0.0 < value < math.inf:
                raise ValueError(f"{name} is {value}; it must be a number above 0")
        if len(self.center) not in (0, 3) or not all(map(math.isfinite, self.center)):
            raise ValueError(f"center is {self.center}; it must be three numbers, m, or empty")
        least_s = LEAST_MOTIONS * self.window_s / 2.0
        if self.calibrate_s < least_s:
            raise ValueError(
                f"calibrate_s is {self.calibrate_s}; with window_s = {self.window_s} it must be at least {least_s:g}"
            )


class PayloadEstimate(Node):
    """Publishes `payload`: mass, interval and centre of the load, twice per window after the calibration.

    Positions and efforts come from `measured_state`; if that has no efforts, the efforts are those of
    `applied_command`. In the first `calibrate_s` the robot carries no load: gains, offsets and friction of the motors
    are fitted. A load that changes is noticed, and measured anew.
    """

    subscribes = {
        "measured_state": messages.RobotState,
        "state": messages.RobotState,
        "applied_command": messages.JointCommand,
    }
    publishes = {"payload": messages.PayloadEstimate}
    services = {"calibrate": "fit gains, offsets and friction anew; the robot has to carry no load"}
    Params = PayloadEstimateParams
    state_attributes = STATE
    _params: PayloadEstimateParams

    @classmethod
    def check(cls, params: PayloadEstimateParams, plan: Plan) -> None:
        _loaded_link(params, plan.sim.robot, plan.sim.parameters)

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._prepare(context.params)
        return None

    def on_parameters(self, params: PayloadEstimateParams) -> Outgoing:
        """Keep the calibration if only `forgetting_s` changes; begin anew otherwise."""
        if msgspec.structs.replace(params, forgetting_s=self._params.forgetting_s) == self._params:
            self._params = params
        else:
            self._prepare(params)
        return None

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        if name != "calibrate":
            return super().on_request(name, args)
        self._begin()
        return f"calibrating for {self._params.calibrate_s:g} s"

    def on_reset(self, time: float) -> Outgoing:
        self._begin()
        return None

    def _prepare(self, params: PayloadEstimateParams) -> None:
        context = self._context
        self._link = _loaded_link(params, context.robot_source, context.robot_parameters)
        self._params = params
        mechanism = model_of(context.robot_source, context.robot_parameters)
        self._actuators = {actuator.name: actuator.joint for actuator in mechanism.actuators}
        self._begin()

    def _begin(self) -> None:
        self._begun = math.nan  # timestamp of the first sample, s
        self._samples: list[tuple[float, list[float], list[float]]] = []  # time, positions, efforts
        self._applied: dict[str, float] = {}  # by joint, effort of the last command
        self._motions: list[Motion] = []  # of the calibration
        self._taus: list[Any] = []
        self._calibration: Calibration | None = None
        self._load = Load(self._link.scale.shape[1])
        self._estimate: messages.PayloadEstimate | None = None

    def on_message(self, name: str, message: messages.Message) -> Outgoing:
        if isinstance(message, messages.JointCommand):
            self._add_command(message)
        elif name == self._params.source and isinstance(message, messages.RobotState):
            return self._add_state(message)
        return None

    def _add_command(self, command: messages.JointCommand) -> None:
        for actuator, value in zip(command.name, command.value, strict=True):
            if (joint := self._actuators.get(actuator)) and command.mode == "effort":
                self._applied[joint] = value
            elif joint:
                self._applied.pop(joint, None)  # the servo's effort is not known

    def _add_state(self, state: messages.RobotState) -> Outgoing:
        if any(joint not in state.name for joint in self._link.joints):
            return None
        order = [state.name.index(joint) for joint in self._link.joints]
        if state.effort:
            effort = [state.effort[k] for k in order]
        elif all(joint in self._applied for joint in self._link.joints):
            effort = [self._applied[joint] for joint in self._link.joints]
        else:
            return None
        now, samples = state.timestamp, self._samples
        if samples and not 0.0 < now - samples[-1][0] < self._params.window_s / 2.0:
            samples.clear()  # a gap, or a clock that was set
        samples.append((now, [state.position[k] for k in order], effort))
        if math.isnan(self._begun):
            self._begun = now
        if now - samples[0][0] < self._params.window_s - self._context.step_s / 2.0:
            return None
        outgoing = self._add_window(now) if len(samples) >= LEAST_SAMPLES else None
        middle = now - self._params.window_s / 2.0 - self._context.step_s / 2.0
        self._samples = [sample for sample in samples if sample[0] > middle]
        return outgoing

    def _add_window(self, now: float) -> Outgoing:
        time, q, effort = map(np.array, zip(*self._samples, strict=True))
        motion, params = averaged(time, q, effort), self._params
        tau, Y = self._link.at(motion)
        if self._calibration is None:
            is_unloaded = now <= self._begun + params.calibrate_s + self._context.step_s / 2.0
            if is_unloaded or len(self._motions) < LEAST_MOTIONS:
                self._motions.append(motion)
                self._taus.append(tau)
                return None
            errors = params.gain_error, params.gain_drift, params.friction
            self._calibration = calibrated(self._motions, self._taus, *errors)
            self._motions, self._taus = [], []
        kept = math.exp(-params.window_s / 2.0 / params.forgetting_s)
        self._load.add(motion, tau, Y, self._calibration, kept)
        self._estimate = self._solved(self._calibration)
        return [("payload", self._estimate)]

    def _solved(self, calibration: Calibration) -> messages.PayloadEstimate:
        x, covariance = self._load.solved(calibration)
        d, row = self._link.scale @ x, self._link.scale[0]
        mass, half = float(d[0]), TWO_SIDED_95 * math.sqrt(float(row @ covariance @ row))
        center = (d[1:4] / mass).tolist() if mass > half else []
        return messages.PayloadEstimate(
            body=self._link.link, mass=mass, lower=mass - half, upper=mass + half, center=center
        )

    @property
    def figures(self) -> Mapping[str, float]:
        found = self._estimate
        return {} if found is None else {"mass_kg": found.mass, "lower_kg": found.lower, "upper_kg": found.upper}

    @property
    def counters(self) -> Mapping[str, int]:
        return {"load_changes": self._load.changes}


def _loaded_link(params: PayloadEstimateParams, robot: str, parameters: Mapping[str, Any]) -> LoadedLink:
    return LoadedLink(model_of(robot, parameters), params.body, params.heaviest, params.reach, params.center)

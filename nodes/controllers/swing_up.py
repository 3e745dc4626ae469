"""Swing-up and balance control of the rotary pendulum.

The pendulum is pumped to the energy of upright rest [AstromFuruta2000]. Near the top a linear-quadratic regulator
balances the pendulum while the arm follows its reference. The switch between pumping and balancing has hysteresis.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np

from nodes.controllers.riccati import lqr_gain
from nodes.controllers.take_over import TakeOver
from nodes.controllers.tracking import ExpectedJoints
from nodes.framework.messages import Event, JointCommand, JointReference, Message, RobotState
from nodes.node import Context, Node, Outgoing
from sim_core.tables import Range

# Energies are in units of the pendulum's largest moment of gravity: -1 hanging at rest, 1 at rest upright.
TARGET_ENERGY = 1.05  # a little more than upright rest, as margin for errors of the masses
HANGING_ENERGY = -0.98  # below it the motion is too small to determine its direction
PUMP_GAIN = 3.0  # share of pump_acceleration per unit of missing energy
PUMP_SOFTNESS = 0.5  # rad/s, pendulum speed below which pumping fades, so that it does not follow noise
CENTRE_STIFFNESS = 60.0  # 1/s^2, returns the arm to its reference while pumping
CENTRE_DAMPING = 4.0  # 1/s
REFERENCE_LIFE_S = 0.2  # the velocity of an older reference is ignored
# Bryson's rule for the regulator: tolerable theta, delta (rad), their rates (rad/s), and torque (N m).
# Stable with a loop delay of 25 ms; smaller values saturate the torque and fall after rough catches.
TOLERABLE_STATE = (0.4, 0.2, 4.0, 4.0)
TOLERABLE_TORQUE = 0.01
FADE_S = 0.05  # fade after a start in the middle of a run: half the time constant of the pendulum's fall


class SwingUpParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Model parameters and limits of the controller."""

    torque_limit: Annotated[float, Range(1e-9, 1e6, "N m")] = 0.05  # N m
    arm_mass: Annotated[float, Range(1e-9, 1e6, "kg")] = 0.095  # kg, a uniform rod
    arm_length: Annotated[float, Range(1e-6, 1e4, "m")] = 0.085  # m, from the axis to the pendulum's pivot
    pendulum_mass: Annotated[float, Range(1e-9, 1e6, "kg")] = 0.024  # kg, a uniform rod
    pendulum_length: Annotated[float, Range(1e-6, 1e4, "m")] = 0.129  # m
    gravity: Annotated[float, Range(1e-6, 1e4, "m/s^2")] = 9.81  # m/s^2
    pump_acceleration: Annotated[float, Range(1e-6, 1e6, "rad/s^2")] = 35.0  # rad/s^2, largest of the arm while pumping
    catch_angle_deg: float = 20.0  # angle from upright below which the regulator starts
    release_angle_deg: float = 40.0  # angle from upright above which pumping starts
    reference_bandwidth: Annotated[float, Range(1e-6, 1e4, "rad/s")] = (
        6.0  # rad/s, of the arm's set point following the reference
    )

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not (math.isfinite(value := getattr(self, name)) and value > 0.0):
                raise ValueError(f"{name} is {value}; it must be a number above 0")
        if not self.catch_angle_deg < self.release_angle_deg < 90.0:
            raise ValueError(
                f"catch_angle_deg {self.catch_angle_deg} must be below release_angle_deg "
                f"{self.release_angle_deg}, and release_angle_deg below 90"
            )


class RotaryModel:
    """Model with two joints: the arm turns by theta about the vertical, the pendulum by alpha about the arm.

    alpha is 0 when the pendulum hangs. The mass matrix (kg m^2) is M(alpha) = [[arm + swept sin^2 alpha, coupling cos
    alpha], [coupling cos alpha, swept]]. The inertias of the rods about their own long axes are neglected, because they
    are about 1 % of the inertias about the joints.

    arm       inertia of the arm, with the pendulum's mass at its end, about the vertical (kg m^2)
    swept     inertia of the pendulum about its pivot (kg m^2)
    coupling  pendulum's mass times length of the arm times distance of the pendulum's centre of mass from the pivot
              (kg m^2)
    """

    def __init__(self, params: SwingUpParams) -> None:
        com = params.pendulum_length / 2.0
        self.arm = params.arm_length**2 * (params.arm_mass / 3.0 + params.pendulum_mass)
        self.swept = params.pendulum_mass * params.pendulum_length**2 / 3.0
        self.coupling = params.pendulum_mass * params.arm_length * com
        self.weight = params.pendulum_mass * params.gravity * com  # N m, largest moment of gravity
        self.fall_rate = math.sqrt(self.weight / self.swept)  # rad/s, unstable eigenvalue upright, arm fixed

    def pendulum_energy(self, alpha: float, alpha_dot: float) -> float:
        """Energy of the pendulum with the arm fixed, divided by `weight`, the largest gravity torque.

        It is the sum of kinetic and potential energy. The potential energy is zero at alpha = pi / 2, where the
        pendulum is horizontal; alpha is 0 when the pendulum hangs.
        """
        return 0.5 * self.swept / self.weight * (alpha_dot * alpha_dot) - math.cos(alpha)

    def arm_torque(self, alpha: float, theta_dot: float, alpha_dot: float, theta_ddot: float) -> float:
        """Torque (N m) that gives the arm the acceleration theta_ddot while the pendulum moves freely.

        alpha is the angle of the pendulum (rad), theta_dot and alpha_dot are the rates of arm and pendulum (rad/s).
        """
        sine, cosine = math.sin(alpha), math.cos(alpha)
        M12, dM11 = self.coupling * cosine, 2.0 * self.swept * sine * cosine
        alpha_ddot = (0.5 * dM11 * (theta_dot * theta_dot) - self.weight * sine - M12 * theta_ddot) / self.swept
        inertia = (self.arm + self.swept * sine**2) * theta_ddot + M12 * alpha_ddot
        return inertia + dM11 * alpha_dot * theta_dot - self.coupling * sine * (alpha_dot * alpha_dot)

    def balance_gain(self) -> tuple[float, ...]:
        """Gains of the regulator on (theta, delta, theta_dot, delta_dot), in N m/rad and N m s/rad.

        theta is the angle of the arm, and delta the angle of the pendulum from the upright position (rad); theta_dot
        and delta_dot are their rates (rad/s).
        """
        M = np.array([[self.arm, -self.coupling], [-self.coupling, self.swept]])
        A, B = np.zeros((4, 4)), np.zeros((4, 1))
        A[:2, 2:] = np.eye(2)
        A[2:, 1] = np.linalg.solve(M, [0.0, self.weight])
        B[2:, 0] = np.linalg.solve(M, [1.0, 0.0])
        gain = lqr_gain(A, B, np.diag(np.array(TOLERABLE_STATE) ** -2.0), np.array([[TOLERABLE_TORQUE**-2.0]]))
        return tuple(float(k) for k in gain[0])


class SetPoint:
    """Set point of the arm while balancing: a critically damped filter of the reference.

    The set point starts at the arm's angle when balancing begins. Its velocity and acceleration are bounded, so a
    distant reference does not make it jump.
    """

    LARGEST_ACCELERATION = 8.0  # rad/s^2: makes the pendulum lean by 4 degrees
    LARGEST_VELOCITY = 3.0  # rad/s

    def __init__(self) -> None:
        self.position = self.velocity = self.acceleration = 0.0

    def start(self, position: float) -> None:
        self.position, self.velocity, self.acceleration = position, 0.0, 0.0

    def follow(self, position: float, velocity: float, acceleration: float, bandwidth: float, dt: float) -> None:
        """Advance the set point by dt seconds toward the reference.

        position, velocity, acceleration  reference of the arm (rad, rad/s, rad/s^2)
        bandwidth                         bandwidth of the filter (rad/s)
        """
        approach = _clip(velocity + 0.5 * bandwidth * (position - self.position), self.LARGEST_VELOCITY)
        self.acceleration = _clip(
            acceleration + 2.0 * bandwidth * (approach - self.velocity), self.LARGEST_ACCELERATION
        )
        self.velocity += dt * self.acceleration
        self.position += dt * self.velocity


class SwingUp(Node):
    """Replies to each state with the arm's torque."""

    subscribes = {"state": RobotState, "reference": JointReference, "event": Event}
    publishes = {"command": JointCommand}
    Params = SwingUpParams
    state_attributes = ("_balancing", "_set_point", "_reference", "_reference_time", "_time", "_take_over")

    def on_start(self, context: Context) -> Outgoing:
        self._expected = ExpectedJoints(context, ("arm", "pendulum"))
        self._take_over = TakeOver(context, FADE_S)
        self._begin(0.0)
        return self.on_parameters(context.params)

    def on_parameters(self, params: SwingUpParams) -> Outgoing:
        self._params = params
        self._model = RotaryModel(params)
        self._gain = self._model.balance_gain()
        self._catch = math.radians(params.catch_angle_deg)
        self._release = math.radians(params.release_angle_deg)
        return None

    def on_reset(self, time: float) -> Outgoing:
        self._take_over.restart(time)
        self._begin(time)
        return None

    def _begin(self, time: float) -> None:
        self._balancing = False
        self._set_point = SetPoint()
        self._reference = (0.0, 0.0, 0.0)
        self._reference_time = self._time = time

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, RobotState):
            if not self._expected.are_in(message):
                return None
            torque = np.array([_clip(self._torque(message), self._params.torque_limit)])
            self._take_over.add_state(message)
            given = np.array([message.effort[self._expected.indices[0]] if message.effort else 0.0])
            value = self._take_over(message.timestamp, given, torque).tolist()
            return [("command", JointCommand(name=["arm"], value=value, state_seq=message.seq))]
        if isinstance(message, Event):
            self._take_over.process_event(message)
        if isinstance(message, JointReference):
            self._set_reference(message)
        return None

    def _set_reference(self, message: JointReference) -> None:
        """Store the arm's reference, which is valid from the time of the latest state on."""
        if "arm" in message.name:
            i = message.name.index("arm")
            rows = (message.position, message.velocity, message.acceleration)
            position, velocity, acceleration = (row[i] if i < len(row) else 0.0 for row in rows)
            self._reference, self._reference_time = (position, velocity, acceleration), self._time

    def _torque(self, state: RobotState) -> float:
        """Torque on the arm (N m), before it is clipped to the torque limit.

        Near the upright position the torque balances the pendulum; anywhere else it pumps energy into the pendulum.
        """
        i, j = self._expected.indices
        dt, self._time = state.timestamp - self._time, state.timestamp
        theta, alpha = state.position[i], state.position[j]
        theta_dot, alpha_dot = state.velocity[i], state.velocity[j]
        delta = math.remainder(alpha - math.pi, 2.0 * math.pi)
        if self._balancing:
            self._balancing = abs(delta) < self._release
        elif abs(delta) < self._catch and abs(delta + alpha_dot / self._model.fall_rate) < self._release:
            self._balancing = True
            self._set_point.start(theta)
        if self._balancing:
            return self._balance(theta, delta, theta_dot, alpha_dot, dt)
        return self._pump(theta, alpha, theta_dot, alpha_dot)

    def _pump(self, theta: float, alpha: float, theta_dot: float, alpha_dot: float) -> float:
        """Torque (N m) that brings the pendulum's energy to that of upright rest, and the arm back to its reference.

        theta is the angle of the arm and alpha that of the pendulum (rad); theta_dot and alpha_dot are their rates
        (rad/s).
        """
        model, most = self._model, self._params.pump_acceleration
        missing = TARGET_ENERGY - model.pendulum_energy(alpha, alpha_dot)
        # power into the pendulum: -coupling cos(alpha) alpha_dot theta_ddot
        sense = _clip(alpha_dot * math.cos(alpha) / PUMP_SOFTNESS, 1.0)
        if missing > TARGET_ENERGY - HANGING_ENERGY:
            sense = 1.0
        pump = -_clip(PUMP_GAIN * most * missing, most) * sense
        centre = CENTRE_STIFFNESS * _clip(self._reference[0] - theta, 1.0) - CENTRE_DAMPING * theta_dot
        return model.arm_torque(alpha, theta_dot, alpha_dot, _clip(pump + centre, most))

    def _balance(self, theta: float, delta: float, theta_dot: float, delta_dot: float, dt: float) -> float:
        """Torque (N m) that balances the pendulum and moves the arm to the set point, which follows the reference.

        theta      angle of the arm (rad)
        delta      angle of the pendulum from the upright position (rad)
        theta_dot  rate of theta (rad/s)
        delta_dot  rate of delta (rad/s)
        dt         time since the previous state (s)
        """
        position, velocity, acceleration = self._reference
        if self._time - self._reference_time > REFERENCE_LIFE_S:
            velocity = acceleration = 0.0
        set_point, model = self._set_point, self._model
        set_point.follow(position, velocity, acceleration, self._params.reference_bandwidth, max(0.0, dt))
        # under a steady acceleration of the arm the pendulum balances leaning into it
        lean = -model.coupling / model.weight * set_point.acceleration
        error = (theta - set_point.position, delta - lean, theta_dot - set_point.velocity, delta_dot)
        feedforward = model.arm * set_point.acceleration
        return feedforward - sum(k * e for k, e in zip(self._gain, error, strict=True))


def _clip(value: float, limit: float) -> float:
    """`value`, limited to the range -limit .. limit."""
    return max(-limit, min(limit, value))

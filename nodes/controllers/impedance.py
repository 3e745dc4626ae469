"""Cartesian impedance control: a spring and a damper pull a point of the robot to its position in the reference."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec
import numpy as np

from nodes.controllers.model import ModelController, ModelOfRobot, ModelParams, for_each
from nodes.controllers.tracking import Vector
from nodes.framework.plan.launch_plan import Plan
from sim_core.errors import UnknownName
from sim_core.inverse import DrivenDynamics
from sim_core.mechanism import PointOutput
from sim_core.mechanism.outputs import VelocityOutput

AXES = 3  # of the world: x, y, z


class ImpedanceParams(ModelParams, frozen=True, kw_only=True):
    """The controlled point, and the spring and damper that act on it along the axes of the world.

    body             body of the model to which the point belongs
    point            the point in the body's frame (m)
    stiffness        stiffness of the spring (N/m): one number for all axes, or three
    damping          damping of the damper (N s/m): one number for all axes, or three
    joint_stiffness  stiffness of additional springs from the joints to their reference positions: one number for all
                     joints, or one per joint
    joint_damping    damping of additional dampers of the joints: one number for all joints, or one per joint
    """

    body: str
    point: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])  # m
    stiffness: list[float]  # N/m
    damping: list[float]  # N s/m
    joint_stiffness: list[float] = msgspec.field(default_factory=lambda: [0.0])  # N m/rad or N/m
    joint_damping: list[float] = msgspec.field(default_factory=lambda: [0.0])  # N m s/rad or N s/m


class Impedance(ModelController):
    """Commands the efforts g(q) + J' (stiffness (x* - x) + damping (dx*/dt - dx/dt)) + joint springs and dampers.

    g(q) are the efforts that hold the robot at rest at q. x is the position of a point of the robot in the world, and J
    its Jacobian with the transpose J'. x* is the position of the same point when the joints are at the reference. The
    point pushes an obstacle with the force stiffness (x* - x) and no more. [Hogan1985]
    """

    Params = ImpedanceParams

    @classmethod
    def check(cls, params: ImpedanceParams, plan: Plan) -> None:
        super().check(params, plan)
        mechanism = ModelOfRobot(params, plan.sim.parameters, plan.sim.robot).mechanism
        try:
            mechanism.body(params.body)
        except UnknownName as error:
            raise ValueError(f"body: {error}") from None
        if len(params.point) != AXES or not all(map(math.isfinite, params.point)):
            raise ValueError(f"point is {params.point}; it must have three coordinates in m")

    def gains(self, params: ImpedanceParams, n: int) -> None:
        """Set the stiffness and damping of the three axes and of n joints from the parameters."""
        self._stiffness = for_each(params.stiffness, AXES, "stiffness", "N/m")
        self._damping = for_each(params.damping, AXES, "damping", "N s/m")
        self._joint_stiffness = for_each(params.joint_stiffness, n, "joint_stiffness", "N m/rad or N/m")
        self._joint_damping = for_each(params.joint_damping, n, "joint_damping", "N m s/rad or N s/m")

    def _model_of(self, params: ImpedanceParams) -> ModelOfRobot:
        model, at = super()._model_of(params), (params.point[0], params.point[1], params.point[2])
        point = PointOutput(name="point", body=params.body, point=at)
        rate = VelocityOutput(name="point", body=params.body, point=at)
        model.mechanism = dataclasses.replace(model.mechanism, outputs=(point, rate), arrows=())
        return model

    def _prepare(self, params: Any) -> None:
        super()._prepare(params)
        system, n = self._system, self._system.n_q
        self._weight = DrivenDynamics(system, self._q)
        self._at, self._along, self._found = np.zeros(n), np.zeros(n), np.zeros(2 * AXES)
        given = [np.zeros(1), self._at, self._along, np.zeros(system.n_u), system.default_parameters()]
        self._compute_point = system.bind("outputs", given, [self._found])

    def _point(self, q: Vector, v: Vector) -> tuple[Vector, Vector]:
        """World position (m) and velocity (m/s) of the controlled point."""
        self._at[:], self._along[:] = q, v
        self._compute_point()
        return self._found[:AXES].copy(), self._found[AXES:].copy()

    def _jacobian(self, q: Vector) -> Vector:
        """Jacobian J (3, n): maps the joint velocities to the world velocity of the controlled point."""
        return np.stack([self._point(q, e)[1] for e in np.eye(len(q))], axis=1)

    def _effort(self, position: Vector, velocity: Vector, acceleration: Vector) -> Vector:
        mine = self._model.indices
        target, target_rate = self._point(position, velocity)
        x, rate = self._point(self._q, self._v)
        force = self._stiffness * (target - x) + self._damping * (target_rate - rate)
        self._weight.a[:] = 0.0
        self._weight()
        effort = self._weight.tau + self._jacobian(self._q).T @ force
        effort[mine] += self._joint_stiffness * (position - self._q)[mine]
        effort[mine] += self._joint_damping * (velocity - self._v)[mine]
        return effort

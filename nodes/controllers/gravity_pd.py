"""Joint PD control with gravity compensation from a model of the robot."""

from __future__ import annotations

from nodes.controllers.model import ModelController, ModelParams, for_each
from nodes.controllers.tracking import Vector
from sim_core.inverse import DrivenDynamics


class GravityPDParams(ModelParams, frozen=True, kw_only=True):
    """Gains of the controller. Each list has one number for all joints, or one per joint."""

    stiffness: list[float]  # N m/rad or N/m
    damping: list[float]  # N m s/rad or N s/m


class GravityPD(ModelController):
    """Commands the efforts g(q) + stiffness (q* - q) + damping (v* - v).

    q* and v* are the reference. g(q) are the efforts that hold the robot at rest at q.
    """

    Params = GravityPDParams

    def gains(self, params: GravityPDParams, n: int) -> None:
        """Set stiffness and damping from the parameters, for n joints."""
        self._stiffness = for_each(params.stiffness, n, "stiffness", "N m/rad or N/m")
        self._damping = for_each(params.damping, n, "damping", "N m s/rad or N s/m")

    def _prepare(self, params: GravityPDParams) -> None:
        super()._prepare(params)
        self._weight = DrivenDynamics(self._system, self._q)

    def _effort(self, position: Vector, velocity: Vector, acceleration: Vector) -> Vector:
        mine = self._model.indices
        self._weight.a[:] = 0.0
        self._weight()
        effort = self._weight.tau
        effort[mine] += self._stiffness * (position - self._q)[mine] + self._damping * (velocity - self._v)[mine]
        return effort

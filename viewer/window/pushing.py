"""Pushes on the bodies of a live robot with the mouse."""

from __future__ import annotations

from collections.abc import Callable

from viewer.data.series import Floats
from viewer.data.signals import Signals
from viewer.window.docks.steering import SteeringPanel
from viewer.window.scene.view import SceneView

GRAVITY = 9.81  # m/s^2, for the weight that suggests the force of a push
USUAL = 0.5  # force that is suggested for a push, as share of the robot's weight


class Pushing:
    """Pushes a body in the simulation when the user drags the body in the scene.

    steering  panel with the force and the duration of pushes
    redraw    function that draws the scene anew
    """

    def __init__(self, scene: SceneView, steering: SteeringPanel, redraw: Callable[[], None]) -> None:
        self._scene, self._steering = scene, steering
        self._signals = Signals()
        scene.pushed, scene.missed, scene.redraw = self._push, self._show_missed, redraw
        scene.dragged_push = steering.show_drag
        steering.push_strength.valueChanged.connect(self._set_strength)

    def show_robot(self, signals: Signals) -> None:
        """Suggest a force for the robot that is shown, and show whether its bodies can be pushed."""
        self._signals, description = signals, signals.description
        if description is not None:
            weight = GRAVITY * sum(body.mass for body in description.bodies)
            self._steering.suggest_strength(float(f"{USUAL * weight:.1g}") or 1.0)
            self._steering.show_pushable(description.pushable)

    def _set_strength(self, newton: float) -> None:
        self._scene.strength = newton

    def _show_missed(self) -> None:
        self._steering.show_failure(
            "no push: begin the drag on a body; if the body is too fast, pause the simulation first"
        )

    def _push(self, body: str, newton: Floats, point: Floats) -> None:
        """Push a body of the live robot.

        newton  force (3,), N, in world axes
        point   point of application (3,), m, in the body's frame
        """
        description = self._signals.description
        if description is None:
            return
        if body not in description.pushable:
            self._steering.show_failure(
                f'{body} cannot be pushed: its launch file needs [sim] parameters = {{ pushable = "{body}" }}, or the '
                f"launch --set sim.parameters.pushable={body}"
            )
            return
        namespace = self._signals.robot.rpartition("/")[0]
        self._steering.push(f"{namespace}/{body}" if namespace else body, newton.tolist(), point.tolist())

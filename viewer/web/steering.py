"""Panels of the browser view that steer a live simulation, push bodies and set parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nodes.framework.client import Client
from nodes.framework.transport.service import ServiceError
from viewer.data.parameters import limits_text, outside, parse_value, read_all, value_text
from viewer.data.signals import Signals
from viewer.web.calls import Calls
from viewer.web.scene import WebScene

SPEEDS = ("0.1", "0.25", "0.5", "1", "2", "5", "10")
DIRECTIONS = {"+x": (1, 0, 0), "-x": (-1, 0, 0), "+y": (0, 1, 0), "-y": (0, -1, 0), "+z": (0, 0, 1), "-z": (0, 0, -1)}
GRAVITY = 9.81  # m/s^2, for the weight that suggests the force of a push
UNPUSHABLE = 'no body can be pushed: the launch needs `--set "sim.parameters.pushable=*"`'


class Steering:
    """Buttons that control the simulation and push bodies, and a line with the answer to the last call."""

    def __init__(self, viser: Any, domain: int, scene: WebScene, signals: Callable[[], Signals]) -> None:
        self._signals, self._scene = signals, scene
        self._calls = Calls(domain, self._tell)
        gui = viser.gui
        self._run = gui.add_button_group("", ("❚❚ pause", "▶ resume", "step", "↺ reset"))
        self._count = gui.add_number("steps", 1, min=1, max=1_000_000, step=1)
        self._speed = gui.add_dropdown("speed", SPEEDS, initial_value="1")
        self._stop = gui.add_button("Emergency stop", color="red")
        self._release = gui.add_button("Release the stop", visible=False, color="orange")
        with gui.add_folder("Push", expand_by_default=False):
            self._body = gui.add_dropdown("body", ("-",))
            self._direction = gui.add_dropdown("direction", tuple(DIRECTIONS))
            self._newton = gui.add_number("force [N]", 1.0, min=0.0)
            self._duration = gui.add_number("time [s]", 0.1, min=0.001)
            push = gui.add_button("Push")
        self._follow = gui.add_checkbox("follow the robot", True)
        fit = gui.add_button("Show all of it")
        self._message = gui.add_markdown("")
        self._pushable: list[str] | None = None
        self._run.on_click(lambda event: self._pressed(event.target.value))
        self._speed.on_update(lambda event: self._set_speed(event))
        self._stop.on_click(lambda _: self._call_all(False))
        self._release.on_click(lambda _: self._call_all(True))
        push.on_click(lambda _: self._push())
        fit.on_click(lambda _: scene.fit(signals()))

    @property
    def follows(self) -> bool:
        """Whether the cameras follow the robot."""
        return bool(self._follow.value)

    def show_state(self, is_live: bool, is_stopped: bool) -> None:
        """Enable the buttons that the simulation accepts.

        is_live     whether messages of the launch arrive
        is_stopped  whether an emergency stop holds
        """
        for handle in (self._speed, self._stop):
            if handle.disabled is is_live:
                handle.disabled = not is_live
        for handle, is_visible in ((self._run, is_live), (self._release, is_stopped)):  # viser disables no button group
            if handle.visible is not is_visible:
                handle.visible = is_visible
        description = self._signals().description
        if description is not None and description.pushable != self._pushable:
            self._pushable = list(description.pushable)
            self._body.options = tuple(self._pushable) or ("-",)
            weight = GRAVITY * sum(body.mass for body in description.bodies)
            self._newton.value = float(f"{0.5 * weight:.1g}") or 1.0

    def forget(self) -> None:
        """Forget a launch that has ended."""
        self._pushable = None
        self._tell("")

    def close(self) -> None:
        """Cancel the calls that have not started."""
        self._calls.close()

    def _pressed(self, button: str) -> None:
        service = button.split(" ")[-1]
        arguments = {"n": int(self._count.value)} if service == "step" else {}

        def work(client: Client) -> None:
            client.call("sim", service, **arguments)
            status = client.sim_status()
            self._tell(f"{service}: {status['state']} at t = {status['time']:.3f} s, step {status['tick']}")

        self._calls.run(work)

    def _set_speed(self, event: Any) -> None:
        if event.client is None:
            return
        factor = float(self._speed.value)

        def work(client: Client) -> None:
            client.call("sim", "speed", x=factor)
            self._tell(f"speed {factor:g}")

        self._calls.run(work)

    def _call_all(self, is_release: bool) -> None:
        def work(client: Client) -> None:
            answers = client.estop("" if is_release else "emergency stop in the browser", is_release)
            missing = [f"{each.node}: {each.error}" for each in answers if each.error]
            if missing or not answers:
                self._tell(
                    f"⚠ not {'released' if is_release else 'stopped'}: {', '.join(missing) or 'no node answers'}"
                )
                return
            nodes = ", ".join(f"{each.node} after {each.ms:.0f} ms" for each in answers)
            self._tell(f"{'released' if is_release else 'stopped'}: {nodes}")

        self._calls.run(work)

    def _push(self) -> None:
        if not self._pushable:
            self._tell(f"⚠ {UNPUSHABLE}")
            return
        namespace = self._signals().robot.rpartition("/")[0]
        body, direction = str(self._body.value), np.array(DIRECTIONS[self._direction.value], dtype=float)
        force, duration = (float(self._newton.value) * direction).tolist(), float(self._duration.value)

        def work(client: Client) -> None:
            name = f"{namespace}/{body}" if namespace else body
            client.call("sim", "push", body=name, force=force, point=[0.0, 0.0, 0.0], duration_s=duration)
            self._tell(f"pushed {body} with {math.hypot(*force):.3g} N for {duration:g} s")

        self._calls.run(work)

    def _tell(self, text: str) -> None:
        self._message.content = text


class Parameters:
    """Forms with the parameters of all nodes; a value is set by Enter or by the button of its node."""

    def __init__(self, gui: Any, tab: Any, domain: int) -> None:
        self._gui, self._tab = gui, tab
        self._calls = Calls(domain, self._tell)
        self._values: dict[str, dict[str, Any]] = {}
        self._limits: dict[str, dict[str, dict[str, Any]]] = {}
        self._fields: dict[tuple[str, str], Any] = {}
        self._forms: list[Any] = []
        self._is_reading = False
        with tab:
            self._message = gui.add_markdown("the parameters of the nodes appear when a launch is live")

    def read(self) -> None:
        """Request the parameters of all nodes, and show them."""
        if self._is_reading:
            return
        self._is_reading = True

        def work(client: Client) -> None:
            try:
                self._show(*read_all(client))
            finally:
                self._is_reading = False

        self._calls.run(work, is_quiet=True)

    def forget(self) -> None:
        """Remove the parameters, which are of a launch that has ended."""
        self._show({}, {})

    def close(self) -> None:
        """Cancel the calls that have not started."""
        self._calls.close()

    def _show(self, values: dict[str, Any], limits: dict[str, Any]) -> None:
        values = {node: found for node, found in values.items() if found}
        if values == self._values:
            return
        known = {(node, key) for node, found in values.items() for key in found}
        before, self._values, self._limits = self._values, values, limits
        if known != self._fields.keys():
            self._build()
            return
        for (node, key), field in self._fields.items():
            if values[node][key] != before[node][key]:  # set by this page or by another client
                field.value = value_text(values[node][key])

    def _build(self) -> None:
        for form in self._forms:
            form.remove()
        self._forms, self._fields = [], {}
        with self._tab:
            for node, found in self._values.items():
                form = self._gui.add_form(node)
                self._forms.append(form)
                with form:
                    for key, value in found.items():
                        self._fields[node, key] = self._field(key, value, self._limits.get(node, {}).get(key, {}))
                    button = self._gui.add_button(f"Set {node}")
                button.on_click(lambda _, form=form: form.submit())
                form.on_submit(lambda _, node=node: self._submit(node))
        self._tell("" if self._fields else "no node of this launch has parameters")

    def _field(self, key: str, value: Any, limit: dict[str, Any]) -> Any:
        unit = limit.get("unit", "")
        hint = " ".join(filter(None, (key, limits_text(limit), unit)))
        return self._gui.add_text(f"{key} [{unit}]" if unit else key, value_text(value), hint=hint)

    def _submit(self, node: str) -> None:
        """Set the parameters of a node whose text differs from their value."""
        for (owner, key), field in self._fields.items():
            before = self._values.get(node, {}).get(key)
            if owner != node or field.value == value_text(before):
                continue
            try:
                value = parse_value(field.value, before)
            except ValueError as error:
                self._refuse(field, before, f"{node}.{key}: {error}")
                continue
            limit = self._limits.get(node, {}).get(key, {})
            if outside(value, limit):
                self._refuse(field, before, f"{node}.{key} = {value:g} is outside {limits_text(limit)}")
                continue
            self._set(node, key, value, field, before)

    def _set(self, node: str, key: str, value: Any, field: Any, before: Any) -> None:
        def work(client: Client) -> None:
            try:
                client.call(node, "set_parameters", **{key: value})
            except ServiceError as error:
                self._refuse(field, before, str(error))
                return
            self._values[node] = client.call(node, "get_parameters")
            field.value = value_text(self._values[node][key])
            self._tell(f"{node}.{key} = {field.value}")

        self._calls.run(work)

    def _refuse(self, field: Any, before: Any, text: str) -> None:
        """Show the value before in a field again, and the reason why another one was refused."""
        field.value = value_text(before)
        self._tell(f"⚠ {text}")

    def _tell(self, text: str) -> None:
        self._message.content = text

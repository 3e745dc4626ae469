"""Sliders of the browser view that command the joints of the live robot, and a line that says who commands it."""

from __future__ import annotations

from typing import Any

from nodes.framework.client import Client
from viewer.data.joints import (
    WAITING,
    JointRange,
    commanded_by_hand,
    commander_text,
    joint_ranges,
)
from viewer.data.signals import Signals
from viewer.web.calls import Calls

STEPS = 1000  # places of a slider


class Joints:
    """One slider for each joint that an actuator drives.

    From the user's first motion of a slider on, the slider commands the joint, and commands of nodes to this joint have
    no effect. The button "Give back" ends the user's commands.
    """

    def __init__(self, gui: Any, tab: Any, domain: int) -> None:
        self._gui, self._tab = gui, tab
        self._calls = Calls(domain, self._tell)
        self._description: object = None
        self._namespace = ""
        self._rows: dict[str, tuple[JointRange, Any]] = {}
        self._by_hand: set[str] = set()
        self._pending: dict[str, float] = {}  # {actuator: value} that is not sent yet
        with tab:
            self._commander = gui.add_markdown(WAITING)
            self._back = gui.add_button("Give back", visible=False, hint="the nodes command these joints again")
            self._message = gui.add_markdown("")
        self._back.on_click(lambda _: self._give_back())

    def show(self, signals: Signals) -> None:
        """Show the joints of the robot. Joints that the user does not command show their present values."""
        if signals.description is not None and signals.description is not self._description:
            self._description = signals.description
            self._build([] if signals.description is None else joint_ranges(signals.description))
        self._namespace = signals.robot.rpartition("/")[0]
        for name, (commanded, slider) in self._rows.items():
            column = signals.column(commanded.mode, commanded.joint)
            if name not in self._by_hand and name not in self._pending and column is not None and len(column[1]):
                slider.value = min(max(float(column[1][-1]), commanded.low), commanded.high)

    def read(self) -> None:
        """Renew the user's commands, which the simulation ends otherwise, and request who commands the robot."""

        def work(client: Client) -> None:
            if self._by_hand:
                client.call("sim", "hand_command")
            status = client.call("sim", "status")
            self._show_hand(commanded_by_hand(status, self._namespace))
            if self._rows:
                self._commander.content = commander_text(status, self._namespace, self._by_hand)

        self._calls.run(work, is_quiet=True, unless_waiting=True)

    def forget(self) -> None:
        """Forget a launch that has ended."""
        self._description = None
        self._build([])
        self._tell("")

    def close(self) -> None:
        """Cancel the calls that have not started."""
        self._calls.close()

    def _build(self, ranges: list[JointRange]) -> None:
        for _, slider in self._rows.values():
            slider.remove()
        self._rows.clear()
        self._pending.clear()
        self._show_hand(set())
        self._commander.content = "this robot has no actuated joint" if self._description else WAITING
        with self._tab:
            for each in ranges:
                label = f"{each.actuator} [{each.unit}]"
                step = (each.high - each.low) / STEPS
                start = min(max(0.0, each.low), each.high)
                slider = self._gui.add_slider(
                    label, each.low, each.high, step, start, hint=f"{each.mode}: {each.limits}"
                )
                slider.on_update(lambda event, each=each: self._moved(event, each))
                self._rows[each.actuator] = each, slider

    def _moved(self, event: Any, commanded: JointRange) -> None:
        if event.client is None:  # moved by this process
            return
        self._pending[commanded.actuator] = float(event.target.value)
        self._calls.run(self._send, unless_waiting=True)

    def _send(self, client: Client) -> None:
        """Send the latest values that the user chose, in one service call for each mode."""
        pending, self._pending = self._pending, {}
        for mode in ("position", "effort"):
            chosen = {name: value for name, value in pending.items() if self._rows[name][0].mode == mode}
            if chosen:
                names = [f"{self._namespace}/{name}" if self._namespace else name for name in chosen]
                taken = client.call("sim", "hand_command", mode=mode, name=names, value=list(chosen.values()))
                self._show_hand({name.removeprefix(f"{self._namespace}/") for name in taken})
                self._tell("")

    def _give_back(self) -> None:
        def work(client: Client) -> None:
            client.call("sim", "give_back")
            self._show_hand(set())

        self._pending.clear()
        self._calls.run(work)

    def _show_hand(self, names: set[str]) -> None:
        self._by_hand = names
        if self._back.visible is not bool(names):
            self._back.visible = bool(names)

    def _tell(self, text: str) -> None:
        self._message.content = text

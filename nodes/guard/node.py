"""The guard as a node: it receives `raw_command`, and publishes the guarded `command`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from nodes.framework.messages import Description, Enable, Event, JointCommand, Message, RobotState
from nodes.guard.backlog import Backlog
from nodes.guard.command_guard import CommandGuard, Intervention
from nodes.guard.limits import GuardParams, missing_joint
from nodes.guard.motor_commands import Guarded
from nodes.node import Context, Node, Outgoing

if TYPE_CHECKING:
    from nodes.framework.plan.launch_plan import Plan


def check_params(params: GuardParams, plan: Plan) -> None:
    """Check that the limits fit the plan's robot, and that the plan's mode supports them.

    Raises ValueError with a one-line message otherwise.
    """
    if params.enable_file and plan.sim.mode != "realtime":
        raise ValueError(
            f"key 'enable_file' works only in mode realtime, but the plan has mode {plan.sim.mode!r}; leave the key out"
        )
    if plan.sim.robot and (line := missing_joint(params, actuators_of(plan))):
        raise ValueError(line)


def actuators_of(plan: Plan) -> dict[str, str]:
    """Return {actuator: joint that it drives} of the plan's robot.

    Actuators that drive no joint, such as grippers, are left out.
    """
    from robots.registry import build  # imported here, since the node's own process does not need it

    sim = plan.sim
    return {each.name: each.joint for each in build(sim.robot, **sim.parameters).actuators if each.joint}


def event_of(intervention: Intervention, name: str) -> Event:
    """Return the event that reports an intervention of a guard.

    name  name of the node that has the guard
    """
    commanded, given = intervention.commanded, intervention.given
    return Event(
        kind=intervention.kind,
        node=name,
        key=intervention.cause,
        part=intervention.joint,
        old="" if commanded is None else msgspec.json.encode(commanded).decode(),
        new="" if given is None else msgspec.json.encode(given).decode(),
        detail=intervention.line,
    )


class Guard(Node):
    """Passes commands on to the robot while the commands and the measured motion are within the limits.

    A command outside the limits is clamped, or the guard brakes the robot to a stop. The stop lasts until
    `armswing estop --release` acknowledges it. Each intervention is published as an event. A controller
    sends its commands to the guard if it has the key `remap = { command = "raw_command" }` in the launch file. With the
    key `remap = { state = "measured_state" }`, the guard checks the motion of the robot instead of that of the model.
    """

    subscribes = {"description": Description, "state": RobotState, "raw_command": JointCommand, "enable": Enable}
    publishes = {"command": JointCommand, "event": Event}
    services = {
        "estop": "stop the robot, until released: reason = text",
        "release": "acknowledge a stop, once its cause is gone",
    }
    Params = GuardParams

    @classmethod
    def check(cls, params: GuardParams, plan: Plan) -> None:
        check_params(params, plan)

    @classmethod
    def commands(cls, params: GuardParams, plan: Plan) -> Collection[str] | None:
        return None

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._guard = CommandGuard(context.params)
        self._backlog = Backlog(context.params.longest_wait_ms)
        self._now = 0.0
        self._answers: int | None = None
        self._due: list[Guarded] = []  # first commands of an emergency stop
        return None

    def on_parameters(self, params: GuardParams) -> Outgoing:
        raise ValueError("the limits of a guard are fixed during a run; set them in the launch file")

    def on_reset(self, time: float) -> Outgoing:
        self._now = time
        self._guard.reset()
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        guard = self._guard
        self._backlog.run()
        if isinstance(message, RobotState):
            self._now, self._answers = message.timestamp, message.seq
            if self._context.params.enable_file:
                guard.switch(switch_state(self._context.params.enable_file))
            guard.add_state(self._now, message.name, message.position, message.velocity)
            due, self._due = self._due, []
            return self._sent([*due, *guard.check(self._now)])
        if isinstance(message, JointCommand):
            if stale_s := self._backlog.stale_s(message):
                guard.reject_stale(self._now, stale_s)
                return self._sent(())
            age_s = self._now - message.timestamp
            return self._sent(
                guard.process_command(self._now, message.mode, message.name, message.value, age_s), message
            )
        if isinstance(message, Enable):
            guard.enable(self._now, message.pressed)
        elif isinstance(message, Description):
            guard.has_servo = {each.name for each in message.actuators if "velocity" in each.modes}
        return None

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        if name == "release":
            return self._guard.acknowledge(self._now)
        self._due += self._guard.stop(self._now, "estop", str(args.get("reason") or "emergency stop"))
        return "controlled stop"

    def _sent(self, guarded: Iterable[Guarded], answered: JointCommand | None = None) -> Iterator[tuple[str, Message]]:
        state_seq = self._answers if answered is None else answered.state_seq
        for mode, names, values in guarded:
            yield "command", JointCommand(mode=mode, name=names, value=values, state_seq=state_seq)  # type: ignore[arg-type]
        while self._guard.interventions:
            intervention = self._guard.interventions.popleft()
            if intervention.kind != "guard_clamp":
                self._context.warn(f"t = {self._now:.3f} s: {intervention.line}")
            yield "event", event_of(intervention, self._context.name)

    @property
    def counters(self) -> Mapping[str, int]:
        """Numbers of clamped values, controlled stops, commands passed on, and, if there were any, stale commands."""
        stale = {"stale": self._backlog.stale} if self._backlog.stale else {}
        return {"clamps": self._guard.clamps, "stops": self._guard.stops, "passed": self._guard.passed} | stale

    def snapshot(self) -> Any:
        return {"guard": self._guard.snapshot(), "now": self._now, "answers": self._answers}

    def restore(self, state: Any) -> None:
        self._guard.restore(state["guard"])
        self._now, self._answers = state["now"], state["answers"]


def switch_state(file: str) -> str:
    """State of an enabling switch: "" if its file contains 1, and otherwise one line of text.

    If the file cannot be read, the switch counts as released.
    """
    try:
        with open(file, encoding="ascii") as opened:
            text = opened.read(16).strip()
    except OSError as error:
        return f"the enabling switch is released: file {file!r} cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return f"the enabling switch is released: file {file!r} has bytes that are no text"
    return "" if text == "1" else "the enabling switch is released"

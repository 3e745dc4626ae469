"""Loads an edited node file into a running node: the new node takes over between two messages.

A separate thread loads the file and starts the new node, while the old node continues. The new node gets the old node's
parameters and random numbers, the latest message of each topic that is not sampled, and the old node's snapshot if both
nodes have one. The first commands of the new node equal the last ones of the old node and change gradually to the new
node's own values. If the new node raises an exception during this change, the old node takes over again.
"""

from __future__ import annotations

import copy
import math
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.messages import JointCommand, Message
from nodes.framework.messages.topics import is_sampled
from nodes.framework.plan.key_checks import convert, suggestion
from nodes.framework.plan.node_classes import node_class
from nodes.node import Context, Node
from robots.files import python_module

FADE_S = 0.2  # duration of the fade, simulation time
SILENT_S = 0.02  # simulation time after which the new node should command each actuator that the old node commanded
FIXED = ("subscribes", "publishes", "services", "rate_hz", "lossless", "has_own_clock")  # decided at a launch's start


@dataclass
class Loaded:
    """A started node of the edited file that has not replaced the running node yet.

    file      name of the file
    messages  messages that `on_start` of the new node returned
    dropped   names of parameters of the running node that the new class no longer has
    commands   declared names of the topics with commands to the node's robot
    actuators  names of the robot's actuators; empty if they are unknown
    """

    file: str
    node: Node
    context: Context
    messages: list[tuple[str, Message]]
    dropped: list[str]
    commands: Collection[str] = ()
    actuators: Sequence[str] = ()

    def discard(self) -> None:
        """End the node, which may hold threads or processes, without having put it in charge."""
        with suppress(Exception):
            list(self.node.on_stop() or ())


def load_anew(
    file: Path,
    old: Node,
    context: Context,
    planned: Mapping[str, Any],
    latest: Mapping[str, tuple[str, Message]],
    commands: Collection[str] = (),
    content: bytes | None = None,
) -> Loaded:
    """A started node of an edited file, with the parameters of the running node.

    planned  parameters that the launch file sets. They keep their values, and so do parameters that were changed from
             their defaults; all others get the edited file's defaults
    latest   {topic: (declared name, latest message)}; messages of sampled topics are not delivered to the new node
    commands  declared names of the topics with commands to the node's robot
    content  content of the file; None to read it
    Raises the exceptions that the code of the file raises, and ValueError for an edit that requires a new launch.
    """
    cls = node_class(
        python_module(file, file.read_bytes() if content is None else content), type(old).__name__, str(file)
    )
    for name in FIXED:
        if getattr(cls, name) != getattr(type(old), name):
            raise ValueError(
                f"{cls.__name__}: `{name}` has changed, which has no effect on a running launch; start a new launch"
            )
    params, dropped = _carried(context.params, cls.Params, planned)
    if context.plan is not None and context.robot:
        cls.check(params, context.plan)
    new = copy.copy(context)
    new.params = params
    node = cls()
    messages = list(node.on_start(new) or ())
    for topic, (name, message) in latest.items():
        if not is_sampled(topic):
            for _ in node.on_message(name, message) or ():
                pass
    return Loaded(file.name, node, new, messages, dropped, commands, _actuators(context) if commands else ())


def _actuators(context: Context) -> list[str]:
    """Names of the actuators of the node's robot.

    The result is empty if the plan does not have this robot, or if its model cannot be built on this computer, as on
    one without the libraries of the simulation.
    """
    if context.plan is None or context.plan.sim.robot_name != context.robot:
        return []
    try:
        return [actuator.name for actuator in context.plan.sim.make_mechanism().actuators]
    except (ValueError, LookupError, OSError, ImportError):
        return []


def _carried(params: Any, kind: type[msgspec.Struct], planned: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Parameters for the new class `kind` of an edited node, from the parameters `params` of the running node.

    Returns (parameters, names of old parameters that the new class lacks). A parameter keeps its old value if the
    launch file sets it or if it was changed from its default. A parameter that only the new class has gets the launch
    file's value.

    planned  parameters that the launch file sets
    """
    before, names = {**planned, **msgspec.to_builtins(params)}, kind.__struct_encode_fields__
    defaults: dict[str, Any] = {}
    with suppress(TypeError):  # required parameters have no default
        defaults = msgspec.to_builtins(type(params)())
    kept = {key: value for key, value in before.items() if key in planned or value != defaults.get(key)}
    fitting = {key: value for key, value in kept.items() if key in names}
    return convert(fitting, kind, "params"), sorted(set(kept) - set(names))


class Handover:
    """The change from one node to another, from the request until only the new node's commands act.

    publish  function that publishes the messages of one call of a node
    settled  function that is called once, at the end, with the node in charge, this node's context, and the exception
             that the new node raised (None if the new node did not fail)
    left     function that is called with the actuators that the old node commanded and the new node does not command,
             if there are any, and with whether the new node commands others

    After the request, the old node publishes one more command, for which at most the time `fade_s` is allowed; then the
    new node takes over. Let c0 be the old node's last command, and t0 the time of the new node's first command. A
    command w(t) of the new node at the time t is published as

        c(t) = w(t) + (c0 - w(t0)) max(0, 1 - (t - t0) / fade_s)
    """

    def __init__(
        self,
        old: tuple[Node, Context],
        new: Loaded,
        now: float,
        publish: Callable[[list[tuple[str, Message]]], None],
        settled: Callable[[Node, Context, BaseException | None], None],
        left: Callable[[list[str], bool], None],
        fade_s: float = FADE_S,
    ) -> None:
        self._old, self._new = old, new
        self._publish, self._settled, self._left = publish, settled, left
        self._fade_s, self._requested_at = fade_s, now
        self._last: dict[str, tuple[str, float]] = {}  # {actuator: (mode, value)} of the old node's last commands
        self._off: dict[str, tuple[str, float]] = {}  # {actuator: (mode, old last command minus new first command)}
        self._began_at: float | None = None  # time of the new node's first command, s
        self._commands = JointCommand in old[0].publishes.values()
        self._in_charge_since: float | None = None
        self._new_names: set[str] | None = set()  # actuators that the new node commanded; None once they are checked

    def call(self, method: str, *args: Any, now: float) -> None:
        """Call a method of the node in charge at simulation time `now` (s), and publish the returned messages."""
        waits = self._commands and not self._last and now <= self._requested_at + self._fade_s
        if self._in_charge_since is None and not waits:
            self._in_charge_since = now
            if self._new.messages and not self._try(lambda: self._new.messages, now):
                return
        if self._in_charge_since is None:
            self._publish(self._noted(list(getattr(self._old[0], method)(*args) or ())))
        elif not self._try(lambda: list(getattr(self._new.node, method)(*args) or ()), now):
            self._publish(list(getattr(self._old[0], method)(*args) or ()))
        else:
            self._check_commanded(now - self._in_charge_since)
            if not self._commands or now >= self._in_charge_since + self._fade_s:
                with suppress(Exception):  # it is out of charge; it may hold threads or processes
                    list(self._old[0].on_stop() or ())
                self._settled(self._new.node, self._new.context, None)

    def _check_commanded(self, since: float) -> None:
        """Report, once, the actuators that the new node does not command after the time `since` (s) in charge."""
        if self._new_names is None or since < SILENT_S:
            return
        if names := [name for name in self._last if name not in self._new_names]:
            self._left(names, bool(self._new_names))
        self._new_names = None

    def _try(self, produce: Callable[[], list[tuple[str, Message]]], now: float) -> bool:
        """Publish the messages that `produce` returns, and return True.

        If the new node's code raises an exception, put the old node in charge again and return False.
        """
        try:
            self._publish([(name, self._faded(name, message, now)) for name, message in produce()])
        except (Exception, SystemExit) as error:
            self._settled(*self._old, error)
            return False
        return True

    def _noted(self, messages: list[tuple[str, Message]]) -> list[tuple[str, Message]]:
        for _, message in messages:
            if isinstance(message, JointCommand):
                self._last |= {n: (message.mode, value) for n, value in zip(message.name, message.value, strict=False)}
        return messages

    def _faded(self, topic: str, message: Message, now: float) -> Message:
        """The message to publish: a command of the new node is blended with the last command of the old node.

        Raises ValueError if the new node's first command of an actuator has another mode than the old node's last one,
        for a value that is no finite number, and for an actuator that the robot does not have and that the old node did
        not command.

        topic  declared name of the message's topic
        """
        if not isinstance(message, JointCommand):
            return message
        if topic in self._new.commands and (known := self._new.actuators):
            for name in message.name:
                if name not in known and name not in self._last:
                    raise ValueError(
                        f"the node commands actuator {name!r}, which the robot {self._new.context.robot!r} does not "
                        f"have{suggestion(name, known)}"
                    )
        for name, value in zip(message.name, message.value, strict=False):
            if not math.isfinite(value):
                raise ValueError(f"the command of actuator {name!r} is {value}; a command has to be a finite number")
        if self._began_at is None:
            self._began_at = now
        if self._new_names is not None:
            self._new_names.update(message.name)
        mode, commanded = message.mode, list(zip(message.name, message.value, strict=False))
        for name, value in commanded:
            if name in self._last and name not in self._off:
                before, last = self._last[name]
                if before != mode:
                    raise ValueError(
                        f"the first command of actuator {name!r} has mode {mode!r}, the last one of the previous code "
                        f"{before!r}, and no gradual change between modes exists; start a new launch"
                    )
                self._off[name] = (mode, last - value)
        part = max(0.0, 1.0 - (now - self._began_at) / self._fade_s)
        offsets = (self._off.get(name, ("", 0.0)) for name, _ in commanded)
        faded = [w + part * off * (kind == mode) for (_, w), (kind, off) in zip(commanded, offsets, strict=True)]
        return msgspec.structs.replace(message, value=faded)


def traceback_of(error: BaseException, file: Path) -> str:
    """Traceback of an error as text, beginning at the first frame in the edited file."""
    frames = traceback.extract_tb(error.__traceback__)
    own = next((index for index, frame in enumerate(frames) if Path(frame.filename) == file), len(frames))
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[own:])] if own < len(frames) else []
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()

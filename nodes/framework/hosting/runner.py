"""Runs one node over sockets, with one poll loop in the main thread; the node's messages are published at once."""

from __future__ import annotations

import gc
import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import zmq

from nodes.framework.hosting.edits import EditedFile
from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.parameters import ParameterChecks
from nodes.framework.hosting.session import NodeSession, poller_of
from nodes.framework.hosting.stop_calls import StopCalls
from nodes.framework.hosting.subscriptions import ReceivedMessage, Subscriptions
from nodes.framework.hosting.timing.clock_asker import ClockAsker
from nodes.framework.hosting.timing.scheduling import arrange
from nodes.framework.hosting.turns import TurnServer
from nodes.framework.hosting.wakeup import StopSignals, Timer, WakeupPipe
from nodes.framework.messages import Event
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.framework.plan.node_classes import locate
from nodes.framework.transport.bus import Context
from nodes.framework.transport.registry import NodeEntry
from nodes.framework.transport.rejections import last_of
from nodes.framework.transport.service import Request
from nodes.node import STOPPED, WAITS_FOR, Node

log = logging.getLogger("armswing.node")

QUIET_S = 5.0
SERVICES = {
    "status": "the node's status",
    "shutdown": "stop and end the process",
    "get_parameters": "the node's parameters",
    "describe_parameters": "units and limits of the node's parameters: name = {unit, low, high}",
    "set_parameters": "change parameters of the node: name = value",
    "estop": "stop the robot that the node drives, until released: reason = text",
    "release": "end an emergency stop",
    "reload": "load the node's edited file; its commands change over gradually",
}


def is_participant(plan: Plan, node: type[Node]) -> bool:
    """Whether the simulation waits for this node: in mode lockstep for every node, in mode fast for lossless nodes.

    A lossless node, such as a recorder, must receive every message.
    """
    mode = plan.sim.mode
    return mode == "lockstep" or (mode == "fast" and node.lossless)


class Runner:
    """One node with its sockets and its poll loop.

    context_plan  plan of the running launch, for a node that was started separately and joined this launch; otherwise
                  None
    on_nodes      function that is called with all nodes of the domain, from several threads: whenever the list of nodes
                  changes, with [] when the registry no longer answers, and when it answers again
    is_restart    whether the process of the node ended before in this launch and was started again
    """

    def __init__(
        self,
        plan: Plan,
        node_plan: NodePlan,
        node: Node,
        context_plan: Plan | None = None,
        on_nodes: Callable[[list[NodeEntry]], None] | None = None,
        is_restart: bool = False,
    ) -> None:
        self._on_nodes, self._is_restart = on_nodes, is_restart
        self._context: Context = zmq.Context.instance()
        lockstep = plan.sim.mode == "lockstep"
        self._started = False
        self._cpu, self._realtime_priority = node_plan.cpu, node_plan.realtime_priority
        self._session = NodeSession(plan.domain, node_plan.name, self._context, not lockstep, self._now_ns)
        self._hosted = HostedNode(node, plan, node_plan, self._publish, not lockstep, context_plan, self._now_ns)
        self._hosted.messages.announce = self._session.announce
        self._turns: TurnServer | None = None
        if is_participant(plan, type(node)):
            self._turns = TurnServer(
                self._context,
                self._hosted,
                self._session.endpoint("step"),
                self._session.remote_endpoint,
                self._session.registry,
            )
        self._subscriptions = self._make_subscriptions(lockstep)
        self._wake = WakeupPipe()
        self._checks = ParameterChecks(self._require_fitting, self._wake)
        file = locate(node_plan.run, plan.view(node_plan.namespace).folder)[0] if node_plan.run else Path()
        self._edits = EditedFile(file, self._hosted, self._session.service, self._wake)
        streams = self._turns is None
        self._timer = Timer(1.0 / node.rate_hz) if node.rate_hz is not None and streams else None
        self._poller = poller_of(self._wake, self._session.publisher.socket, self._session.service.socket)
        if self._timer is not None:
            self._poller.register(self._timer, zmq.POLLIN)
        if self._turns is not None:
            self._poller.register(self._turns.socket, zmq.POLLIN)
        self._asker: ClockAsker | None = None
        if type(node).on_clock is not Node.on_clock and streams and not lockstep:
            everyone = self._hosted.subscribes_to_all or "status" in self._hosted.subscriptions
            self._asker = ClockAsker(
                self._context, node_plan.name, None if everyone else set(self._hosted.subscriptions)
            )
            self._poller.register(self._asker.timer, zmq.POLLIN)
        self._received = self._sent = self._overruns = 0
        self._stop_calls = StopCalls()
        self._shown: dict[str, float] = {}
        self._refused: set[str] = set()
        self._has_node_list = False
        self._nodes: list[NodeEntry] = []
        self._was_connected = True

    def _now_ns(self) -> int:
        """Time of the node's clock (ns): the node's own clock if it has one, otherwise the computer's clock."""
        now_ns = time.time_ns()
        return self._hosted.node.clock_ns(now_ns) if self._started else now_ns

    def _make_subscriptions(self, lockstep: bool) -> Subscriptions:
        hosted = self._hosted
        topics = {topic: kind for topic, (_, kind) in hosted.subscriptions.items()}
        if lockstep:  # robot topics arrive in turns: their order must not depend on timing
            topics = {topic: kind for topic, kind in topics.items() if "/" not in topic}
        elif self._turns is None and f"{hosted.robot}/command" in [
            topic for topic, _ in hosted.messages.publishes.values()
        ]:
            topics.setdefault(f"{hosted.robot}/event", Event)  # reports refused commands
        ignore = ("sim",) if self._turns is not None else ()
        everything = hosted.subscribes_to_all and not lockstep
        return Subscriptions(
            self._context,
            hosted.name,
            None if everything else topics,
            keeps_all=hosted.lossless,
            ignore=ignore,
        )

    def run(self) -> None:
        """Start the node, run its loop until a stop is requested, and stop the node. An exception in the node's code
        ends the loop.
        """
        session, hosted = self._session, self._hosted
        try:
            with StopSignals(self._wake, session.stop):
                more = {} if self._turns is None else {"step": (self._turns.endpoint, self._turns.remote_endpoint)}
                subscribes = hosted.subscribes
                publishes = [topic for topic, _ in hosted.messages.publishes.values()]
                session.open(self._on_change, publishes, subscribes, hosted.lossless, **more)
                self._started = True
                hosted.start()
                if self._is_restart:
                    hosted.stop_after_restart()
                for line in arrange(self._cpu, self._realtime_priority):
                    hosted.context.warn(line)
                gc.collect()  # the garbage of the start, so that it causes no pause in the run
                self._loop()
                if hosted.lossless and self._turns is None:
                    self._subscriptions.take_last(self._take, session.dead)
                    self._pass_lost()
                session.set_state("stopping")
                self._publish_status()
                hosted.stop()
                self._show_log()
                session.set_state("stopped")
                self._publish_status()
        except SystemExit as error:
            session.set_state("failed", f"the node's code called sys.exit({error.code!r})")
            with suppress(Exception):
                self._publish_status()
            if error.code:
                raise  # the exit code is the launch's
            raise RuntimeError(
                f"node {hosted.name!r}: its code called sys.exit({error.code!r}); return instead"
            ) from error
        except BaseException as error:
            session.set_state("failed", f"{type(error).__name__}: {error}"[:300])
            with suppress(Exception):
                self._publish_status()
            raise
        finally:
            self._close()

    def _loop(self) -> None:
        session = self._session
        while not session.stop.is_set():
            if session.status.state == "starting" and self._is_ready():
                session.set_state("ready")
            if session.status_is_due:
                self._publish_status()
                self._check_connection()
            awake = dict(self._poller.poll(int(session.status_wait_s * 1e3) + 1))
            if not awake:
                continue
            if session.service.socket in awake:  # first: an emergency stop does not wait for a backlog of messages
                self._serve()
            self._subscriptions.drain(awake, self._take_after_calls)
            if self._turns is not None and self._turns.socket in awake:
                self._turns.serve(session.publisher)
            if self._timer is not None and self._timer.fileno() in awake:
                self._tick(self._timer.expired())
            if self._asker is not None:
                self._measure_clocks(self._asker, awake)
            if session.publisher.socket in awake:
                session.publisher.serve_subscriptions()
            if self._wake.fileno() in awake:
                self._wake.clear()
                for request, refusal in self._checks.take():
                    self._reply(request, refusal)
                self._edits.take()
                self._subscriptions.update(self._poller, self._take)
                self._pass_lost()
                if self._asker is not None:
                    self._asker.update(self._nodes, self._poller)
            if self._hosted.context.log:
                self._show_log()

    def _is_ready(self) -> bool:
        return self._has_node_list and self._subscriptions.ready and not self._hosted.node.waits_for

    def _on_change(self, nodes: list[NodeEntry]) -> None:
        self._subscriptions.offer(nodes)
        self._nodes = nodes
        self._has_node_list = True
        if self._on_nodes is not None:
            self._on_nodes(nodes)
        self._wake.set()

    def _check_connection(self) -> None:
        is_connected = self._session.is_connected
        if is_connected != self._was_connected:
            self._was_connected = is_connected
            if self._on_nodes is not None:
                self._on_nodes(self._nodes if is_connected else [])

    def _publish(self, topic: str, payload: bytes) -> None:
        self._sent += 1
        self._session.publisher.send(topic, payload)

    def _take_after_calls(self, received: ReceivedMessage) -> None:
        """Answer the service calls that have arrived, and then process the message `received`.

        A long backlog of messages therefore does not delay the answers.
        """
        if self._session.service.has_call:
            self._serve()
        self._take(received)

    def _take(self, received: ReceivedMessage) -> None:
        _, topic, message, _, lost = received
        if type(message) is Event and message.kind == "refused" and message.node == self._hosted.context.name:
            self._warn_refused(message.detail)
        if self._hosted.subscribes_to(topic):
            self._received += 1
            self._hosted.receive(topic, message, lost)

    def _pass_lost(self) -> None:
        """Tell the node of the messages lost at the end of publishers."""
        for topic, lost in self._subscriptions.take_lost():
            if self._hosted.subscribes_to(topic):
                self._hosted.lose(topic, lost)

    def _warn_refused(self, reason: str) -> None:
        """Warn at the node's terminal that the simulation refuses the node's commands, once per reason.

        Reasons that differ only in numbers count as the same reason.
        """
        kind = re.sub(r"\d+", "#", reason)
        if kind not in self._refused and len(self._refused) < 64:
            self._refused.add(kind)
            self._hosted.context.warn(f"the simulation refuses the node's commands: {reason}")

    def _tick(self, expired: int) -> None:
        if expired:
            self._overruns += expired - 1
            own = self._hosted.context.clock
            self._hosted.tick(1e-9 * self._now_ns() if own else time.monotonic())

    def _measure_clocks(self, asker: ClockAsker, awake: dict[Any, int]) -> None:
        if asker.timer.fileno() in awake:
            asker.send_requests()
        for reading in asker.receive_replies(awake):
            self._hosted.receive_clock(reading)

    def _require_fitting(self, changed_values: dict[str, Any]) -> None:
        hosted = self._hosted
        hosted.parameters.require_fitting(changed_values, type(hosted.node), hosted.context)

    def _serve(self) -> None:
        service = self._session.service
        while (request := service.receive()) is not None:
            if request.call.call == "set_parameters":
                self._checks.begin(request)
            elif request.call.call == "reload":
                self._edits.begin(request)  # also during a replacement, to report a mistake in the file at once
            else:
                self._reply(request)

    def _reply(self, request: Request, refusal: str = "") -> None:
        service = self._session.service
        try:
            if refusal:
                raise ValueError(refusal)
            self._stop_calls.check(request.call)
            result = self._answer(request)
        except (ValueError, TypeError, KeyError) as error:  # invalid arguments of a caller must not end the node
            service.refuse(request, str(error) or type(error).__name__)
        except Exception as error:
            service.refuse(request, f"node {self._hosted.name!r} ended: {type(error).__name__}: {error}")
            raise
        else:
            self._session.status.emergency = self._hosted.gate.emergency
            service.reply(request, result)

    def _answer(self, request: Request) -> Any:
        name, args = request.call.call, request.call.args
        hosted = self._hosted
        if name == "status":
            self._measure()
            return msgspec.to_builtins(self._session.status)
        if name == "shutdown":
            self._session.stop.set()
            return None
        if name == "get_parameters":
            return hosted.parameters.plain()
        if name == "describe_parameters":
            return hosted.parameters.limits()
        if name == "set_parameters":
            hosted.set_parameters(args)
            return hosted.parameters.plain()
        if name == "estop" and name not in hosted.node.services:
            return hosted.emergency_stop(str(args.get("reason", "")))
        if name == "release" and name not in hosted.node.services:
            return hosted.release()
        if name in hosted.node.services:
            return hosted.request(name, args)
        known = sorted([*SERVICES, *hosted.node.services])
        raise ValueError(f"node {hosted.name!r} has no service {name!r}; its services are {', '.join(known)}")

    def _measure(self) -> None:
        links = self._subscriptions
        refusals = [links.subscriber.refusals, self._hosted.messages.refusals, *self._session.refusals]
        if self._turns is not None:
            refusals.append(self._turns.refusals)
        self._session.status.refusal = last_of(*refusals)
        self._session.status.counters = {
            "received": self._received + (0 if self._turns is None else self._turns.received),
            "sent": self._sent + (0 if self._turns is None else self._turns.sent),
            "lost": links.lost,
            "refused": sum(each.count for each in refusals),
            "overruns": self._overruns,
            **({"emergency_stops": self._stop_calls.count} if self._stop_calls.count else {}),
            **self._session.counters,
            **self._hosted.gate.counters,
            **self._hosted.node.counters,
        }
        self._session.status.forged = dict(links.subscriber.forged)
        self._session.status.figures = dict(self._hosted.node.figures)
        self._session.status.verdict = self._hosted.verdict
        self._session.status.emergency = self._hosted.gate.emergency
        stops = self._session.status.guard = self._hosted.guard_stops
        self._session.status.limited = self._hosted.limited
        waits_for = self._hosted.node.waits_for
        if self._session.status.state in ("starting", "ready", "running"):
            stopped = f"{STOPPED[stops.by]}: {stops.reason}" if stops is not None and stops.reason else ""
            self._session.status.detail = f"{WAITS_FOR} {waits_for}" if waits_for else stopped

    def _publish_status(self) -> None:
        self._measure()
        self._session.publish_status(self._hosted.messages.time)

    def _show_log(self) -> None:
        now = time.monotonic()
        for level, line in self._hosted.take_log():
            if now - self._shown.get(line, -QUIET_S) < QUIET_S:
                continue
            if len(self._shown) > 256:
                self._shown.clear()
            self._shown[line] = now
            log.log(logging.WARNING if level == "warning" else logging.INFO, "%s: %s", self._hosted.name, line)

    def _close(self) -> None:
        self._checks.close()
        self._edits.close()
        self._session.close()
        self._subscriptions.close()
        if self._turns is not None:
            self._turns.close()
        if self._timer is not None:
            self._timer.close()
        if self._asker is not None:
            self._asker.close()
        self._wake.close()

"""Runs the simulation server over sockets.

The main thread receives the commands before each time step, takes the time steps and paces them; it never waits for a
subscriber. A second thread waits for service calls, which the main thread executes between time steps.
"""

from __future__ import annotations

import gc
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import zmq

from nodes.hosting.outgoing import EncodedMessage
from nodes.hosting.session import NodeSession, poller_of
from nodes.hosting.stop_calls import StopCalls
from nodes.hosting.subscriptions import ReceivedMessage, Subscriptions
from nodes.hosting.timing.clock import DeadlineMissedError, tighten_timer_slack
from nodes.hosting.timing.scheduling import arrange, as_it_is
from nodes.hosting.turns import LockstepError, RemotePort
from nodes.hosting.wakeup import StopSignals, WakeupPipe
from nodes.messages import Event, JointCommand
from nodes.messages.topics import node_topic
from nodes.plan.launch_plan import Plan
from nodes.simulation.links import links_of
from nodes.simulation.lockstep import Scheduler
from nodes.simulation.pacer import StepPacer
from nodes.simulation.restart.snapshots import Restart, require_robot
from nodes.simulation.server import SimServer
from nodes.simulation.services import known_names
from nodes.transport import background_threads
from nodes.transport.bus import Context
from nodes.transport.registry import NodeEntry
from nodes.transport.rejections import RejectionLog, last_of
from nodes.transport.service import Request

log = logging.getLogger("armswing.node")

LONGEST_SLEEP_NS = 50_000_000  # longer waits for a step's deadline can be interrupted by calls
SUBSCRIPTIONS_S = 0.01
MOST_CALLS = 64  # largest number of calls that wait for the stepping thread
STEPS_IN_A_ROW = 8  # without pacing: steps between two checks for other work
STEP_REPLY_S = 1.5  # longest time until the reply to a call of `step`, even if the steps take longer, s
ROUND_TRIP_EVERY = 16  # once in this many steps, commands are received as they arrive, to measure round trips
LONGEST_UNHEARD_NS = 5_000_000
FIRST_COMMANDS_S = 0.2  # longest wait of the first step in realtime for replies to the initial state
FAST_BATCH = 32  # in mode fast, time steps between two runs of a lossless participant, such as a recorder


class SimHost:
    """The simulation server with its sockets and its loop. `run` returns after a shutdown request.

    begin  point of a recorded run from which this run continues; None for a run from its start
    """

    def __init__(self, plan: Plan, server: SimServer, begin: Restart | None = None) -> None:
        self._begin = begin
        self._plan = plan
        self._server = server
        self._context: Context = zmq.Context.instance()
        self._wake, self._service_wake = WakeupPipe(), WakeupPipe()
        self._session = NodeSession(plan.domain, "sim", self._context, wall_clock=plan.sim.mode != "lockstep")
        self._session.publisher.prompt = False  # within a step another thread would take Python's lock
        self._commanded = server.commands
        commands = dict.fromkeys(self._commanded, JointCommand)
        self._subscriptions = Subscriptions(self._context, "sim", {} if plan.sim.mode == "lockstep" else dict(commands))
        self._poller = poller_of(self._wake, self._session.publisher.socket)
        self._nodes_changed = False
        self._own_topics = server.topics
        self._nodes: list[NodeEntry] = []
        self._calls: deque[Request] = deque()
        self._answers: deque[tuple[Request, Any, str | None]] = deque()
        self._first: list[EncodedMessage] = []
        self._ports: dict[str, tuple[str, RemotePort]] = {}
        self._stop_calls = StopCalls()
        self._scheduler: Scheduler | None = None
        self._pacer = StepPacer(plan.sim.step_s, plan.sim.overrun_policy)
        self._scheduling = ""
        self._subscriptions_due = self._chores_due = 0.0
        self._awaited: set[str] | None = None  # nodes whose first commands are awaited, None before the first step
        self._await_until = 0.0
        self._stepping: Request | None = None
        self._step_until = 0.0
        server.out = self._publish_first

    def run(self) -> None:
        """Serve until shut down.

        A SimulationError, LockstepError or DeadlineMissedError ends the run and is raised; its message is one line.
        """
        session, server = self._session, self._server
        services = threading.Thread(target=self._take_calls, name="services", daemon=True)
        try:
            with StopSignals(self._wake, session.stop):
                server.start(restarts=self._begin is not None)
                services.start()
                session.open(self._on_change, self._own_topics, list(self._commanded))
                self._configure_thread()
                self._loop()
                self._settle()
                session.set_state("stopped")
                self._publish_status()
        except BaseException as error:
            session.set_state("failed", f"{error}"[:300])
            with suppress(Exception):
                self._publish_status()
                self._settle()
            raise
        finally:
            self._close(services)

    def _configure_thread(self) -> None:
        """Set processor core and priority of this thread and the scheduling of the other threads; collect garbage.

        Threads that do not carry messages, such as the thread for service calls, do not interrupt a time step.
        """
        sim = self._plan.sim
        tighten_timer_slack()
        for line in arrange(sim.cpu, sim.realtime_priority):
            log.warning("sim: %s", line)
        if sim.mode == "realtime":
            remote = self._session.publisher.remote
            background_threads.defer_others(
                but=[*background_threads.io_threads(), *([] if remote is None else [remote.thread])]
            )
        self._scheduling = as_it_is()
        gc.collect()  # the garbage of the start, so that it causes no pause in the run: 1 to 4 ms

    def _loop(self) -> None:
        server, stop = self._server, self._session.stop
        realtime = self._plan.sim.mode == "realtime"
        ran = False
        while not stop.is_set():
            if ran and not server.runs:
                self._settle()  # before the stop is published, so that observers have all messages
                ran = False
            self._between_steps()
            if not server.runs:
                if not ran:
                    self._rest()
                continue
            if realtime and self._waits_for_commands():
                continue
            if realtime:
                self._paced_steps(begins=not ran)
            elif self._scheduler is not None:
                self._subscriptions.take_all(self._take_command)
                if self._begin is not None:
                    begin, self._begin = self._begin, None
                    self._restart(self._scheduler, begin, self._first, live=False)
                    self._first.clear()
                self._steps_in_a_row(self._scheduler)
            ran = True

    def _steps_in_a_row(self, scheduler: Scheduler) -> None:
        """Take up to STEPS_IN_A_ROW time steps; stop early when a service call arrives."""
        for _ in range(STEPS_IN_A_ROW):
            scheduler.step()
            self._session.publisher.notify()
            if self._calls or not self._server.runs or self._session.stop.is_set():
                break

    def _restart(self, scheduler: Scheduler, begin: Restart, latched: Sequence[EncodedMessage], live: bool) -> None:
        """Continue from a snapshot: take unpublished time steps up to the restart time, then one time step whose
        messages are published.

        begin    point of the recorded run at which to continue
        latched  latest messages of latched topics (such as descriptions), which the server does not send again
        live     whether a run is in progress
        """
        session = self._session
        for topic, payload in latched:
            self._carry(topic, payload)
        for _ in scheduler.restart(self._server, begin, latched, live):
            if session.stop.is_set():
                return
            if session.status_is_due:
                self._publish_status()
        self._server.restart_pace()

    def _paced_steps(self, begins: bool) -> None:
        """Take time steps, each batch at its deadline on the wall clock, until there is other work or the run pauses.

        begins  whether to restart the sequence of deadlines now
        """
        server = self._server
        pacer = self._pacer.at(server.speed, begins)
        if pacer.period_ns > LONGEST_SLEEP_NS and (left_s := pacer.left_s) > 1e-9 * LONGEST_SLEEP_NS:
            self._rest(left_s - 1e-9 * LONGEST_SLEEP_NS)
            return
        notify = self._session.publisher.notify
        take_new, take, always = self._subscriptions.take_new, self._take_command, pacer.period_ns > LONGEST_UNHEARD_NS
        while True:
            try:
                pacer.wait(self._wait_for_commands if always or server.tick % ROUND_TRIP_EVERY == 0 else time.sleep)
            except DeadlineMissedError as error:
                line = f'at t = {server.time:g} s {error}; overrun_policy = "stop" ends the run'
                server.publish_events([Event(kind="late", detail=line)])
                raise DeadlineMissedError(line) from None
            take_new(take)
            for _ in range(self._pacer.batch):
                if server.runs:
                    server.step()
            notify()
            if self._has_more_to_do or not server.runs:
                return

    @property
    def _has_more_to_do(self) -> bool:
        """Whether `_between_steps` has work to do, or a stop is requested."""
        if self._calls or self._nodes_changed or self._server.state != self._session.status.state:
            return True
        return time.monotonic() >= self._chores_due or self._session.stop.is_set()

    def _waits_for_commands(self) -> bool:
        """Wait for the nodes' first commands before the first time step. Returns whether to call this method again.

        A controller sends commands only after it has received a state. The first call therefore publishes the initial
        state. Without the wait, the efforts in the first time steps would be zero.
        """
        server = self._server
        if self._awaited is None:
            self._awaited = self._commanders()
            self._await_until = time.monotonic() + FIRST_COMMANDS_S
            server.publish_state()
        elif not self._await_until:
            return False
        left_s = self._await_until - time.monotonic()
        if self._awaited and left_s > 0.0:
            self._rest(left_s)
            return True
        self._await_until = 0.0
        server.restart_pace()
        return False

    def _commanders(self) -> set[str]:
        """Names of the nodes that subscribe to the state and publish commands."""
        found = set()
        for robot in self._server.robots:
            state, command = robot.messages.topics["state"], robot.commands.topic
            found |= {n.name for n in self._nodes if command in n.publishes and {state, "*"} & set(n.subscribes)}
        return found

    def _between_steps(self) -> None:
        while self._calls:
            self._answer(self._calls.popleft())
        if self._nodes_changed:
            self._nodes_changed = False
            for source in self._subscriptions.update(self._poller, self._take_command):
                self._server.forget(source)
                self._session.revoke(source)
        session, server = self._session, self._server
        session.publisher.notify()
        if server.state != session.status.state:
            session.set_state(server.state, server.detail)
        session.status.emergency = server.emergency
        now = time.monotonic()
        if self._stepping is not None and (not server.steps_left or now > self._step_until):
            self._reply(self._stepping, {"tick": server.tick, "time": server.time}, None)
            self._stepping = None
        if now >= self._subscriptions_due:
            self._subscriptions_due = now + SUBSCRIPTIONS_S
            session.publisher.serve_subscriptions()
        if session.status_is_due:
            self._publish_status()
        self._chores_due = min(self._subscriptions_due, session.status_due)

    def _wait_for_commands(self, longest_s: float) -> None:
        """Wait for up to `longest_s`, and receive commands as they arrive."""
        self._subscriptions.take_new(self._take_command)
        self._subscriptions.take_new(self._take_timed_command, longest_s)

    def _take_command(self, received: ReceivedMessage) -> None:
        if isinstance(received[2], JointCommand):
            if self._awaited:
                self._awaited.discard(received[0])
            self._commanded[received[1]].receive(received[0], received[2], timed=False)

    def _take_timed_command(self, received: ReceivedMessage) -> None:
        if isinstance(received[2], JointCommand):
            self._commanded[received[1]].receive(received[0], received[2])

    def _rest(self, longest_s: float = math.inf) -> None:
        """Wait for a service call, a new subscription or the next status, for at most `longest_s` seconds."""
        session = self._session
        self._poller.poll(int(min(session.status_wait_s, longest_s) * 1e3) + 1)
        self._wake.clear()
        self._subscriptions.take_all(self._take_command)
        self._subscriptions_due = 0.0

    def _settle(self) -> None:
        """Deliver all remaining messages to the participants, when stepping ends."""
        if self._scheduler is not None:
            self._scheduler.finish()

    # -- publishing

    def _publish_first(self, topic: str, payload: bytes) -> None:
        """Publish a message, and keep it for participants that connect later; these receive it when they first run."""
        self._first.append((topic, payload))
        self._carry(topic, payload)

    def _carry(self, topic: str, payload: bytes) -> None:
        self._session.publisher.send(topic, payload)

    def _publish_status(self) -> None:
        session, server = self._session, self._server
        session.status.counters = {
            "overruns": self._pacer.overruns,
            "skipped": self._pacer.skipped,
            "refused": sum(each.count for each in self._refusals),
            "lost": self._subscriptions.lost,
            **server.counters(),
            **session.counters,
        }
        measured = {**server.timing(), **self._pacer.timing()}
        session.status.timing = {name: value for name, value in measured.items() if value is not None}
        session.status.refusal = last_of(*self._refusals)
        session.status.forged = self._forged
        session.publish_status(server.time)

    @property
    def _refusals(self) -> tuple[RejectionLog, ...]:
        ports = [port.refusals for _, port in self._ports.values()]
        return self._server.refusals, self._subscriptions.subscriber.refusals, *self._session.refusals, *ports

    @property
    def _forged(self) -> dict[str, int]:
        """Numbers of messages that were dropped because their topics do not belong to the senders."""
        forged = dict(self._subscriptions.subscriber.forged)
        for _, port in self._ports.values():
            for key, count in port.forged.items():
                forged[key] = forged.get(key, 0) + count
        return forged

    # -- participants

    def _schedule(self) -> None:
        """Connect to every participant of the plan.

        In lockstep, raises ValueError with the names of the nodes that are missing.
        """
        mode = self._plan.sim.mode
        if mode == "realtime":
            if self._scheduler is None:
                self._server.out = self._carry
                self._first.clear()
            return
        entries = {entry.name: entry for entry in self._nodes}
        there = [n for n in self._plan.nodes if n.name in entries and "step" in entries[n.name].endpoints]
        missing = [n.name for n in self._plan.nodes if n not in there]
        if mode == "lockstep" and missing:
            raise ValueError(
                f"resume: lockstep needs every node of the plan; start the missing nodes ({', '.join(missing)})"
            )
        wanted = {node.name: entries[node.name].endpoints["step"] for node in there}
        if self._scheduler is not None and wanted == {name: end for name, (end, _) in self._ports.items()}:
            return
        for _, port in self._ports.values():
            port.close()
        turns = {name: port.seq for name, (_, port) in self._ports.items()}
        self._ports = {}
        for node in there:
            entry = entries[node.name]
            robot = self._plan.robot_of(node.namespace)
            plotted = node_topic("plot", robot, node.local_name)  # announced at any time: it must not matter
            only_listens = entry.lossless and set(entry.publishes) <= {"status", plotted}
            port = RemotePort(
                self._context,
                node.name,
                wanted[node.name],
                entry.subscribes,
                publishes=not only_listens,
                decimation=node.decimation,
                lossless=entry.lossless,
                deadline_s=self._plan.sim.deadline_ms * 1e-3,
                seq=turns.get(node.name, 0),
                topics=entry.publishes,
            )
            self._ports[node.name] = (wanted[node.name], port)
        ports = [port for _, port in self._ports.values()]
        batch = FAST_BATCH if mode == "fast" else 1
        carry = self._carry_own if mode == "lockstep" else self._carry
        links = links_of(self._plan) if mode == "lockstep" else None
        if links is not None and self._scheduler is not None:
            links.count_on(self._scheduler.dropped)
        self._scheduler = Scheduler(self._server, ports, carry, batch, links)
        if self._begin is None:
            self._scheduler.queue_first(self._first)
            self._first.clear()

    def _carry_own(self, topic: str, payload: bytes) -> None:
        """Publish a message of the simulation server. Ignore a message of a node, which the node itself publishes."""
        if topic in self._own_topics:
            self._carry(topic, payload)

    # -- service calls, in the main thread

    def _answer(self, request: Request) -> None:
        name = request.call.call
        try:
            self._stop_calls.check(request.call)
            result, line = self._result(name, request.call.args), None
        except (ValueError, LockstepError) as error:
            result, line = None, str(error)
        if name == "step" and line is None and self._stepping is None:
            self._stepping = request  # replied to when the steps are taken
            self._step_until = time.monotonic() + STEP_REPLY_S
        elif name == "take_over" and line is None:  # replied to when the registry knows the grant
            args = request.call.args
            self._session.grant(args["topic"], args["node"], lambda: self._reply(request, result, None))
        else:
            self._reply(request, result, line)

    def _reply(self, request: Request, result: Any, line: str | None) -> None:
        self._answers.append((request, result, line))
        self._service_wake.set()

    def _result(self, name: str, args: dict[str, Any]) -> Any:
        server = self._server
        if name == "status":
            return {
                **server.status(),
                **self._pacer.status(),
                "scheduling": self._scheduling,
                "frames_refused": sum(each.count for each in self._refusals),
                "last_refusal": last_of(*self._refusals),
                "forged": self._forged,
                "lost": self._subscriptions.lost,
                "dropped": self._scheduler.dropped if self._scheduler is not None else {},
                "emergency_stops": self._stop_calls.count,
                **self._session.launch_counters,
            }
        if name == "shutdown":
            self._session.stop.set()
            self._wake.set()
            return None
        if name in ("resume", "step"):
            self._schedule()
        if name == "restore" and "recording" in args:
            return self._go_back(args)
        if name in ("reset", "restore") and self._scheduler is not None:
            self._scheduler.finish()
            self._scheduler.forget()
        return server.request(name, args)

    def _go_back(self, args: dict[str, Any]) -> None:
        """Continue from a point of a recorded run, for the service `restore`.

        Raises ValueError with a one-line message if this is impossible.
        """
        known_names(args, ["recording"], "restore")
        data = args["recording"]
        begin = Restart.decode(data if isinstance(data, bytes) else b"")
        if self._plan.sim.mode != "lockstep":
            raise ValueError(
                f"restore: a run in mode {self._plan.sim.mode!r} has no snapshots; start the launch in mode 'lockstep'"
            )
        require_robot(begin, self._server.code_hash)
        if self._server.state == "stopped":
            raise ValueError(
                "restore: the run has ended at its duration_s; continue it with "
                "'armswing launch FILE --from RECORDING --at TIME'"
            )
        self._begin = None
        self._schedule()
        assert self._scheduler is not None
        self._scheduler.finish()
        self._scheduler.forget()
        self._restart(self._scheduler, begin, (), live=True)

    # -- called by other threads

    def _on_change(self, nodes: list[NodeEntry]) -> None:
        self._nodes = nodes
        self._subscriptions.offer(nodes)
        self._nodes_changed = True
        self._wake.set()

    def _take_calls(self) -> None:
        service = self._session.service
        poller = poller_of(self._service_wake, service.socket)
        while not self._session.stop.is_set() or self._answers:
            poller.poll()
            self._service_wake.clear()
            while self._answers:
                request, result, line = self._answers.popleft()
                if line is None:
                    service.reply(request, result)
                else:
                    service.refuse(request, line)
            while (call := service.receive()) is not None:
                if len(self._calls) >= MOST_CALLS:
                    service.refuse(call, f"{call.call.call[:80]}: {MOST_CALLS} calls are waiting: try again later")
                    continue
                self._calls.append(call)
                self._wake.set()

    def _close(self, services: threading.Thread) -> None:
        self._session.stop.set()
        self._service_wake.set()
        if services.ident is not None:
            services.join(timeout=2.0)
        self._subscriptions.close()
        self._session.close()
        for _, port in self._ports.values():
            port.close()
        for wake in (self._wake, self._service_wake):
            wake.close()

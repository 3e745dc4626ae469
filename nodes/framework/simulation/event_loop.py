"""Runs the simulation server over sockets.

The main thread receives the commands before each time step, takes the time steps and paces them; it never waits for a
subscriber. A second thread waits for service calls, which the main thread executes between time steps.
"""

from __future__ import annotations

import gc
import logging
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import zmq

from nodes.framework.hosting.outgoing import EncodedMessage
from nodes.framework.hosting.session import NodeSession, poller_of
from nodes.framework.hosting.subscriptions import ReceivedMessage, Subscriptions
from nodes.framework.hosting.timing.clock import DeadlineMissedError, tighten_timer_slack
from nodes.framework.hosting.timing.scheduling import arrange, as_it_is
from nodes.framework.hosting.wakeup import StopSignals, WakeupPipe
from nodes.framework.messages import Event, JointCommand
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.simulation.lockstep import Scheduler
from nodes.framework.simulation.pacer import StepPacer
from nodes.framework.simulation.participants import Participants
from nodes.framework.simulation.restart.snapshots import Restart, require_robot
from nodes.framework.simulation.server import SimServer
from nodes.framework.simulation.service_calls import ServiceCalls
from nodes.framework.simulation.services import known_names
from nodes.framework.transport import background_threads
from nodes.framework.transport.bus import Context
from nodes.framework.transport.registry import NodeEntry
from nodes.framework.transport.rejections import RejectionLog, last_of

log = logging.getLogger("armswing.node")

LONGEST_SLEEP_NS = 50_000_000  # longer waits for a step's deadline can be interrupted by calls
SUBSCRIPTIONS_S = 0.01
STEPS_IN_A_ROW = 8  # without pacing: steps between two checks for other work
ROUND_TRIP_EVERY = 16  # once in this many steps, commands are received as they arrive, to measure round trips
LONGEST_UNHEARD_NS = 5_000_000
FIRST_COMMANDS_S = 0.2  # longest wait of the first step in realtime for replies to the initial state


class SimHost:
    """The simulation server with its sockets and its loop. `run` returns after a shutdown request.

    begin  point of a recorded run from which this run continues; None for a run from its start
    """

    def __init__(self, plan: Plan, server: SimServer, begin: Restart | None = None) -> None:
        self._begin = begin
        self._plan = plan
        self._server = server
        self._context: Context = zmq.Context.instance()
        self._wake = WakeupPipe()
        self._session = NodeSession(plan.domain, "sim", self._context, wall_clock=plan.sim.mode != "lockstep")
        self._session.publisher.prompt = False  # within a step another thread would take Python's lock
        self._carry = self._session.publisher.send
        self._calls = ServiceCalls(server, self._session, self._wake, self._result)
        self._participants = Participants(plan, server, self._context, self._carry, begin is not None)
        self._commanded = server.commands
        commands = dict.fromkeys(self._commanded, JointCommand)
        self._subscriptions = Subscriptions(self._context, "sim", {} if plan.sim.mode == "lockstep" else dict(commands))
        self._poller = poller_of(self._wake, self._session.publisher.socket)
        self._nodes_changed = False
        self._nodes: list[NodeEntry] = []
        self._pacer = StepPacer(plan.sim.step_s, plan.sim.overrun_policy)
        self._scheduling = ""
        self._subscriptions_due = self._chores_due = 0.0
        self._awaited: set[str] | None = None  # nodes whose first commands are awaited, None before the first step
        self._await_until = 0.0

    def run(self) -> None:
        """Serve until shut down.

        A SimulationError, LockstepError or DeadlineMissedError ends the run and is raised; its message is one line.
        """
        session, server = self._session, self._server
        try:
            with StopSignals(self._wake, session.stop):
                server.start(restarts=self._begin is not None)
                self._calls.start()
                session.open(self._on_change, server.topics, list(self._commanded))
                self._configure_thread()
                self._loop()
                self._participants.finish()
                session.set_state("stopped")
                self._publish_status()
        except BaseException as error:
            session.set_state("failed", f"{error}"[:300])
            with suppress(Exception):
                self._publish_status()
                self._participants.finish()
            raise
        finally:
            self._close()

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
                self._participants.finish()  # before the stop is published, so that observers have all messages
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
            elif (scheduler := self._participants.scheduler) is not None:
                self._subscriptions.take_all(self._take_command)
                if self._begin is not None:
                    begin, self._begin = self._begin, None
                    self._participants.restarts = False
                    self._restart(scheduler, begin, self._participants.first, live=False)
                    self._participants.first.clear()
                self._steps_in_a_row(scheduler)
            ran = True

    def _steps_in_a_row(self, scheduler: Scheduler) -> None:
        """Take up to STEPS_IN_A_ROW time steps; stop early when a service call arrives."""
        for _ in range(STEPS_IN_A_ROW):
            scheduler.step()
            self._session.publisher.notify()
            if self._calls.waiting or not self._server.runs or self._session.stop.is_set():
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
        if self._calls.waiting or self._nodes_changed or self._server.state != self._session.status.state:
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
        self._calls.answer()
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
        self._calls.answer_steps()
        now = time.monotonic()
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
        own = self._server.refusals, self._subscriptions.subscriber.refusals
        return *own, *self._session.refusals, *self._participants.refusals

    @property
    def _forged(self) -> dict[str, int]:
        """Numbers of messages that were dropped because their topics do not belong to the senders."""
        forged = dict(self._subscriptions.subscriber.forged)
        for each in self._participants.forged:
            for key, count in each.items():
                forged[key] = forged.get(key, 0) + count
        return forged

    # -- service calls

    def _result(self, name: str, args: dict[str, Any]) -> Any:
        server, scheduler = self._server, self._participants.scheduler
        if name == "status":
            return {
                **server.status(),
                **self._pacer.status(),
                "scheduling": self._scheduling,
                "frames_refused": sum(each.count for each in self._refusals),
                "last_refusal": last_of(*self._refusals),
                "forged": self._forged,
                "lost": self._subscriptions.lost,
                "dropped": scheduler.dropped if scheduler is not None else {},
                "emergency_stops": self._calls.emergency_stops,
                **self._session.launch_counters,
            }
        if name == "shutdown":
            self._session.stop.set()
            self._wake.set()
            return None
        if name in ("resume", "step"):
            self._participants.connect(self._nodes)
        if name == "restore" and "recording" in args:
            return self._go_back(args)
        if name in ("reset", "restore"):
            self._participants.forget()
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
        self._begin, self._participants.restarts = None, False
        self._participants.connect(self._nodes)
        scheduler = self._participants.scheduler
        assert scheduler is not None
        self._participants.forget()
        self._restart(scheduler, begin, (), live=True)

    # -- called by other threads

    def _on_change(self, nodes: list[NodeEntry]) -> None:
        self._nodes = nodes
        self._subscriptions.offer(nodes)
        self._nodes_changed = True
        self._wake.set()

    def _close(self) -> None:
        self._session.stop.set()
        self._calls.stop()
        self._subscriptions.close()
        self._session.close()
        self._calls.close()
        self._participants.close()
        self._wake.close()

"""Results of a run: collected from the nodes at its end, and from the files that the nodes wrote."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.launching.observer import Observer
from nodes.framework.launching.summary import ListenerLoss, Summary
from nodes.framework.launching.supervisor import Failure, Supervisor
from nodes.framework.messages import GuardStops, Verdict
from nodes.framework.messages.topics import resolve
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.recording.places import before_path, is_closed
from nodes.framework.transport.registry import Registry
from nodes.framework.transport.service import ServiceError
from nodes.node import Node

GATHER_S = 0.7  # time to collect statuses, out of the 5 s in which a launch ends
ANSWER_S = 0.5
ENDING_S = 0.2  # longest time from the last step of the simulation until the launch knows of it
MILESTONE_MISSED = ALL_REFUSED = VERDICT_FAILED = ROBOT_STOPPED = 1
VERDICT_NOT_CERTAIN = 3


class RunResults:
    """Collects the results of a run in `summary`: call `gather`, `take_last_statuses` and `finish`, in this order.

    began  time.monotonic() from which the time to the first state is counted
    """

    def __init__(
        self, plan: Plan, observer: Observer, registry: Registry, supervisor: Supervisor, began: float
    ) -> None:
        self.plan = plan
        self.summary = Summary(
            plan=plan.name,
            robot=", ".join(view.sim.robot_name for view in plan.views),
            mode=plan.sim.mode,
            method=plan.sim.method_text(),
        )
        self._observer, self._registry, self._supervisor, self._began = observer, registry, supervisor, began
        self._ended_at = math.inf
        self._failed = ""  # node whose failure ended the run
        self._names = ["sim", *(node.name for node in plan.nodes)]
        self._rejected_connections: dict[str, dict[str, int]] = {}
        # loaded once: a file may be deleted or edited during the run
        classes = {node.name: load_class(node.run, plan.folder) for node in plan.nodes}
        here = plan.nodes_on(plan.sim.host)
        self._recorders = {node.name: file for node in here if (file := recorded_file(node, classes[node.name]))}
        self._has_service = {name for name, cls in classes.items() if "recording" in cls.services}
        self._publishers = {name for name, cls in classes.items() if cls.publishes}
        self._commanders = {name for name, cls in classes.items() if "command" in cls.publishes}
        self._accepted: dict[str, int] = {}
        self._dropped: dict[str, list[int]] = {}  # as in Links.dropped
        self._is_measured = False  # whether the server replied at the end
        self._files = {file: _identity(file) for file in self._recorders.values()}

    def gather(self, resumed_at: float, failed: Failure | None) -> None:
        """Pause the simulation, then collect the status of every remaining node for the summary.

        resumed_at  time.monotonic() at which simulation time began; 0.0 if it did not begin
        failed      failure that ended the run, or None
        """
        self._ended_at = time.monotonic()
        self._failed = "" if failed is None else failed.name
        summary = self.summary
        if resumed_at:
            summary.wall_s = time.monotonic() - resumed_at
        if self._observer.first_state_at is not None:
            summary.first_state_s = self._observer.first_state_at - self._began
        # The last published status is used for nodes that no longer reply.
        summary.time = self._observer.time
        summary.tick = round(summary.time / self.plan.sim.step_s)
        for name in self._names:
            if name in self._observer.status:
                status = self._observer.status[name]
                self._note_losses(name, status.counters, status.refusal, status.forged)
                self._note_work(name, status.figures, status.verdict)
                self._note_guard(name, status.guard)
                self._note_limited(name, status.counters, status.limited)
        deadline = time.monotonic() + GATHER_S
        for name, service in (("sim", "pause"), *((name, "status") for name in self._names)):
            left = deadline - time.monotonic()
            if left <= 0.0:  # a node that does not reply must not delay the end of the others
                return
            with contextlib.suppress(ServiceError):
                args = {"last": True} if service == "pause" else {}
                answer = self._observer.call(name, service, timeout_s=min(left, ANSWER_S), args=args)
                if service == "status" and name == "sim":
                    summary.take_simulation(answer)
                    self._is_measured = True
                    self._note_refused(answer)
                    own = {f"rejected_connections_{kind}": n for kind, n in answer.get("rejected_here", {}).items()}
                    counters = {**answer, "refused": answer["frames_refused"], **own}
                    self._note_losses(name, counters, answer["last_refusal"], answer.get("forged", {}))
                elif service == "status":
                    self._note_losses(name, answer["counters"], answer["refusal"], answer.get("forged", {}))
                    self._note_unsaid(name, answer["refusal"])
                    self._note_work(name, answer["figures"], msgspec.convert(answer["verdict"], Verdict | None))
                    self._note_guard(name, msgspec.convert(answer.get("guard"), GuardStops | None))
                    self._note_limited(name, answer["counters"], answer.get("limited", ""))

    def take_last_statuses(self) -> None:
        """Take verdicts that nodes reached, and losses that they found, while stopping.

        An example is the verdict of a recorder that could not write its last messages.
        """
        self._observer.receive(0.0)
        for name, status in self._observer.status.items():
            if name in self._names and status.state == "stopped":
                self.summary.verdicts.pop(name, None)
                self._note_work(name, status.figures, status.verdict)
                if name in self.summary.nodes:
                    self.summary.nodes[name].lost = status.counters.get("lost", 0)

    def _note_work(self, name: str, figures: dict[str, float], verdict: Verdict | None) -> None:
        if figures:
            self.summary.figures[name] = figures
        if verdict is not None:
            self.summary.verdicts[name] = verdict

    def _note_guard(self, name: str, stops: GuardStops | None) -> None:
        """Note, for the summary, the stops of the robot by a node.

        After the end of the run, no commands arrive any more. A node that does not know simulation time may therefore
        stop the robot; such a stop is left out.
        """
        if stops is None:
            return
        if stops.first_time is None and stops.reason and stops.latest_s <= time.monotonic() - self._ended_at + ENDING_S:
            stops.count, stops.reason = stops.count - 1, ""
        if stops.count and (stops.stopped_s > 0.0 or not stops.reason):
            self.summary.guard_stops[name] = stops
        else:
            self.summary.guard_stops.pop(name, None)

    def _note_limited(self, name: str, counters: Mapping[str, int], limited: str) -> None:
        if limited:
            self.summary.limited[name] = f"{counters.get('clamps', 0)} values; the latest: {limited}"

    def _note_refused(self, answer: Mapping[str, Any]) -> None:
        """Note, for the summary, the nodes whose commands were all refused, from the server's status `answer`."""
        accepted = self._accepted = answer["commands_taken"]
        self._dropped = answer["dropped"]
        for name, refused in answer["commands_refused"].items():
            if name in self._names and not accepted.get(name):
                self.summary.refused_commands[name] = refused["reason"]

    def _note_unsaid(self, name: str, refusal: str) -> None:
        """Note, for the summary, a node of which commands were invalid and therefore not published.

        refusal  topic and reason of the node's latest rejected message
        """
        topic, _, reason = refusal.partition(": ")
        commands = {f"'{view.sim.robot_name}/command'" for view in self.plan.views}
        if name in self._commanders and topic in commands:
            self.summary.refused_commands.setdefault(name, reason)

    def _note_losses(self, name: str, counters: Mapping[str, int], refusal: str, forged: Mapping[str, int]) -> None:
        is_silent = name in self._publishers and counters.get("sent") == 0 and name != self._failed
        mine = self._registry.rejected_by_kind
        self._rejected_connections[name] = {kind: counters.get(f"rejected_connections_{kind}", 0) for kind in mine}
        everywhere = [mine, *self._rejected_connections.values()]
        self.summary.rejected_connections_by_kind = {kind: sum(each[kind] for each in everywhere) for kind in mine}
        self.summary.rejected_connections = sum(self.summary.rejected_connections_by_kind.values())
        self.summary.calls_refused = self._registry.refused
        self.summary.nodes[name] = ListenerLoss(
            lost=counters.get("lost", 0),
            refused=counters.get("refused", 0),
            restarts=self._supervisor.children[name].restarts if name in self._supervisor.children else 0,
            heard_in_silence=counters.get("received", 0) if is_silent else 0,
            last_refusal=refusal,
            forged=dict(forged),
        )

    def finish(self, failure: Failure | None, number: int) -> None:
        """Set the exit code, and list the files that nodes wrote.

        The files are complete only now that the nodes have ended.

        failure  failure that ended the run, or None
        number   number of the signal that ended the run, or 0
        """
        summary = self.summary
        required = [name for name, milestone in self.plan.all_milestones.items() if milestone.required]
        summary.missed = [name for name in required if summary.milestones.get(name) is None]
        for file, before in self._files.items():
            if _identity(file) != before:  # a file that did not change belongs to an earlier run
                kept = before_path(file.resolve() if file.is_symlink() else file)
                summary.take_file(file, kept if before and _identity(kept) == before else None)
        self._check_recordings()
        self._note_holes()
        for name, (dropped, on_link) in self._dropped.items():
            loss = summary.nodes.setdefault(name, ListenerLoss())
            loss.dropped, loss.on_link = dropped, on_link
        recorded = [file.path for file in summary.files if file.path.endswith(".mcap")]
        reports = [verdict.report for verdict in summary.verdicts.values() if verdict.report]
        if recorded and reports:
            summary.look = reports[0].replace("{recording}", shlex.quote(recorded[0]))
        if failure is not None:
            summary.exit_code, summary.failed_node = failure.exit_code, failure.name
            summary.ended = f"node {failure.name!r} {failure.reason}{why(failure)}"
        elif number:
            summary.exit_code = 128 + number
            summary.ended = "interrupted" if number == signal.SIGINT else signal.Signals(number).name
        elif stopped := list(summary.stopped()):
            summary.exit_code = ROBOT_STOPPED
            missed = [f"missed: {', '.join(summary.missed)}"] if summary.missed else []
            summary.ended = "; ".join([*stopped, *missed])
        elif summary.missed:
            summary.exit_code = MILESTONE_MISSED
            summary.ended = f"missed: {', '.join(summary.missed)}"
        elif summary.refused_commands:
            name, reason = next(iter(summary.refused_commands.items()))
            summary.exit_code = ALL_REFUSED
            which = "commands of {!r} were" if self._accepted.get(name) else "every command of {!r} was"
            summary.ended = f"{which.format(name)} rejected: {reason}"
        elif failures := summary.judged("failed"):
            summary.exit_code = VERDICT_FAILED
            summary.ended = "; ".join(f"{name} failed: {reason}" for name, reason in failures.items())
        elif open_verdicts := summary.judged("not certain"):
            summary.exit_code = VERDICT_NOT_CERTAIN
            summary.ended = "; ".join(f"{name} is not certain: {reason}" for name, reason in open_verdicts.items())

    def _check_recordings(self) -> None:
        """Add a verdict on each recorder that gave no verdict and whose file is incomplete.

        This happens, for example, if a recorder was killed.
        """
        for name, file in self._recorders.items():
            if name not in self._has_service:
                continue
            verdict = self.summary.verdicts.get(name)
            if not self.summary.tick or (verdict is not None and verdict.outcome == "failed"):
                continue
            if not file.is_file():
                reason = f"{file} does not exist: nothing of the run was recorded"
                self.summary.verdicts[name] = Verdict("failed", reason)
            elif _identity(file) != self._files[file] and not is_closed(file):
                missing = f"messages after {_known_until(file)} of {self.summary.time:.3f} s are missing"
                reason = f"{file} was not closed: {missing}, the earlier ones are in the file"
                self.summary.verdicts[name] = Verdict("failed", reason)

    def _note_holes(self) -> None:
        """Add to the summary the nodes that failed while the run continued.

        After a crash of the server, also add the time that the run reached.
        """
        summary = self.summary
        for name, code in self._supervisor.failed.items():
            ended = Verdict("failed", f"ended with exit code {code}, the run continued without it")
            summary.holes[name] = summary.verdicts.setdefault(name, ended).reason
        if self._is_measured:
            return
        topic = resolve("state", self.plan.sim.robot_name)
        for file in self._files:
            if _identity(file) != self._files[file]:  # the last state received here may be older
                summary.time = max(summary.time, _last_time(file, topic))
        summary.tick = round(summary.time / self.plan.sim.step_s)


def recorded_file(node: NodePlan, cls: type[Node]) -> Path | None:
    """File that a node writes if the node is a recorder; None for other nodes.

    A recorder subscribes to all topics and has a parameter `file`.
    """
    file = node.params.get("file")
    return Path(file) if "*" in cls.subscribes and isinstance(file, str) else None


def why(failure: Failure) -> str:
    """Last line of output of a failed program, as ": LINE"; "" if it printed nothing."""
    last = next((line.strip() for line in reversed(failure.last_lines) if line.strip()), "")
    return f": {last.removeprefix('error: ')}" if last else ""


def _identity(file: Path) -> tuple[int, int] | None:
    """(inode, modification time) of a file; None if the file does not exist.

    The pair changes when the file is written or replaced.
    """
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _known_until(path: str | os.PathLike[str]) -> str:
    """Log time of the last readable message of a truncated recording as text, such as "t = 3.200 s".

    Returns "its beginning" if no message can be read.
    """
    from nodes.framework.recording.reader import RecordingError, RecordingFile  # which imports numpy, an extra

    try:
        last_ns = [recorded.time_ns for recorded in RecordingFile(path)][-1:]
    except RecordingError:
        last_ns = []
    return f"t = {last_ns[0] / 1e9:.3f} s" if last_ns else "its beginning"


def _last_time(path: str | os.PathLike[str], topic: str) -> float:
    """Simulation time (s) of the last message of a topic in a recording, truncated or not; 0.0 if the recording has no
    such message.
    """
    from nodes.framework.recording.reader import RecordingError, RecordingFile  # which imports numpy, an extra

    latest = 0
    try:
        for recorded in RecordingFile(path):
            if recorded.topic == topic:
                latest = max(latest, recorded.time_ns)
    except (OSError, RecordingError):
        pass
    return latest * 1e-9

"""Summary of a run, which is printed at the end of a launch and written as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.messages import GuardStops, Verdict
from nodes.guard.stop_log import open_stops

JUDGED_S = 1.0  # least duration of a run from which the computer's speed is judged
REAL_TIME_HELD = 0.98  # real-time factor below which the summary says that the computer fell behind

REJECTED_KINDS = {"unknown_key": "with another key", "no_key": "without a key", "no_zmtp": "without ZeroMQ"}

STOPPED_BY = {"guard": "stopped by a guard", "estop": "stopped by estop"}  # {GuardStops.by: label of its line}

MEASURED_BY_THE_SERVER = frozenset(
    {"time", "tick", "speed", "real_time_factor", "overruns", "watchdog_trips", "milestones", "energy", "energy_drift"}
    | {"step_p50_s", "step_p99_s", "step_max_s", "round_trip_p50_s", "round_trip_p99_s", "round_trip_max_s"}
    | {"peak_phi", "peak_phidot", "processor_share", "constraint_mode"}
    | {"step_too_large", "substeps", "energy_departure", "largest_departure", "peak_solve_residual"}
    | {"emergency_stop", "skipped", "jitter_p50_s", "jitter_p99_s", "jitter_max_s", "jitter_histogram", "scheduling"}
)


class FileWritten(msgspec.Struct, kw_only=True):
    """A file that a node wrote.

    before  path to which the previous file of the same name was moved; "" if there was none
    """

    path: str
    size_bytes: int
    before: str = ""

    def text(self) -> str:
        """Text such as "run.mcap (1.2 MB); the one before it is run.before.mcap"."""
        kept = f"; the one before it is {self.before}" if self.before else ""
        return f"{self.path} ({_bytes(self.size_bytes)}){kept}"


class ListenerLoss(msgspec.Struct, kw_only=True):
    """Communication problems of one node.

    lost              number of messages that did not arrive, apart from those in `dropped`
    dropped           number of messages that the node's emulated link (key `link`) lost at random, as the key requests;
                      None if the link loses no messages
    on_link           number of messages on the emulated link, including the lost messages
    refused           number of messages rejected
    forged            {"TOPIC from NODE": number of messages rejected because the topic does not belong to NODE}
    restarts          number of restarts of the node's process
    last_refusal      topic and reason of the last rejected message
    heard_in_silence  number of messages received by a node that declares topics but published nothing in the whole run
    """

    lost: int = 0
    refused: int = 0
    restarts: int = 0
    last_refusal: str = ""
    heard_in_silence: int = 0
    dropped: int | None = None
    on_link: int = 0
    forged: dict[str, int] = {}


class Load(msgspec.Struct, kw_only=True):
    """Peak and RMS of an actuator's effort over the run, and limit of the effort, in `unit` (N m or N).

    limit  None for an actuator without a limit
    """

    peak: float
    rms: float
    limit: float | None = None
    unit: str = "N m"

    def text(self) -> str:
        """Text such as "peak 12.3 N m, rms 4.1 N m (25 %, 8 % of 50 N m)"."""
        text = f"peak {_plain(self.peak)} {self.unit}, rms {_plain(self.rms)} {self.unit}"
        if self.limit is None:
            return text
        peak, rms = (100.0 * value / self.limit for value in (self.peak, self.rms))
        return f"{text} ({peak:.0f} %, {rms:.0f} % of {self.limit:g} {self.unit})"


class Excursion(msgspec.Struct, kw_only=True):
    """Farthest position of a joint outside its limits, in `unit` (rad or m).

    lower, upper  limits of the joint; None for a limit that the joint does not have
    """

    position: float
    lower: float | None = None
    upper: float | None = None
    unit: str = ""

    def text(self) -> str:
        """Text such as "0.40 m of 0 .. 0.14 m": the farthest position, and the limits."""
        ends = ("" if end is None else f"{end:.3g}" for end in (self.lower, self.upper))
        return f"{self.position:.3g} {self.unit} of {' .. '.join(ends)} {self.unit}"


class Overspeed(msgspec.Struct):
    """Largest speed of a joint that was faster than the velocity limit of its actuator."""

    speed: float
    limit: float
    unit: str = ""

    def text(self) -> str:
        """Text such as "5.2 rad/s of 3.5 rad/s": the largest speed, and the limit."""
        return f"{self.speed:.3g} {self.unit} of {self.limit:.3g} {self.unit}"


class Summary(msgspec.Struct, kw_only=True):
    """Results of a run. A result that was not measured is None.

    Times are in s, energies in J, and constraint violations in the units of the constraint equations.

    milestones                    {name: simulation time at which it was reached; None if it was not reached}
    missed                        required milestones that were not reached
    first_state_s                 wall time from the start of the program to the first state of the running simulation
    loads                         {actuator: peak, rms, limit and unit of its effort}; actuators without a joint are
                                  left out
    constraint_mode               constraint mode (set of active constraints) at the end of the run, for a robot with
                                  several constraint modes
    figures                       {node: {quantity that the node measured, with the unit in the name: value}}
    verdicts                      {node that judges the run: outcome and reason}
    guard_stops                   {node that stopped the robot, with its guard or in an emergency stop: when, why and
                                  for how long}
    limited                       {node whose guard changed or rejected commands: number of changed values, and a line
                                  about the latest change}
    emergency_stop                reason of an emergency stop of the simulation that was not released until the end, ""
                                  for none
    nodes                         {node: its communication problems}
    holes                         {node that failed while the run continued: text about the missing data}
    refused_commands              {node whose commands were all refused, or in part invalid: reason}
    rejected_connections          number of connections without an allowed key that were rejected, over all sockets
    rejected_connections_by_kind  {kind: number of rejected connections}; the kinds are connections with another key,
                                  without a key, or without ZeroMQ
    calls_refused                 number of calls to the registry that the calling peer was not allowed to make
    method                        names of stepper and stabilizer, and the step size
    speed                         last requested speed in realtime, in simulated seconds per wall second
    real_time_factor              simulated seconds per wall second, measured since `speed` was last changed
    skipped                       number of deadlines in realtime that the server skipped because it was late
    jitter_...                    how much the time between two time steps in realtime differs from the period
    beyond_limits                 {joint that left its limits: farthest position}
    beyond_velocity_limits        {joint that was faster than its actuator's velocity limit: largest speed}
    scheduling                    core and priority of the server's loop
    energy_departure              last message of the check of the energy balance; "" if the error stayed below 1 %
    largest_departure             largest error of the energy balance, as a fraction of the energy scale of the run
    step_too_large                warning that the step size is too large for the robot; "" if it is not
    look                          command that reports on the recording in detail
    failed_node                   node whose failure ended the run; "" if no failure ended it
    """

    plan: str
    robot: str
    mode: str
    exit_code: int = 0
    ended: str = ""
    time: float = 0.0
    tick: int = 0
    wall_s: float = 0.0
    milestones: dict[str, float | None] = {}
    missed: list[str] = []
    first_state_s: float | None = None
    speed: float = 1.0
    real_time_factor: float | None = None
    processor_share: float | None = None
    overruns: int | None = None
    watchdog_trips: int | None = None
    step_p50_s: float | None = None
    step_p99_s: float | None = None
    round_trip_p50_s: float | None = None
    round_trip_p99_s: float | None = None
    round_trip_max_s: float | None = None
    peak_phi: float | None = None
    peak_phidot: float | None = None
    energy: float | None = None
    energy_drift: float | None = None
    loads: dict[str, Load] = {}
    figures: dict[str, dict[str, float]] = {}
    verdicts: dict[str, Verdict] = {}
    nodes: dict[str, ListenerLoss] = {}
    holes: dict[str, str] = {}
    refused_commands: dict[str, str] = {}
    rejected_connections: int = 0
    rejected_connections_by_kind: dict[str, int] = {}
    files: list[FileWritten] = []
    method: str = ""
    substeps: int = 0
    peak_solve_residual: float | None = None
    look: str = ""
    step_max_s: float | None = None
    skipped: int | None = None
    jitter_p50_s: float | None = None
    jitter_p99_s: float | None = None
    jitter_max_s: float | None = None
    jitter_histogram: dict[str, int] = {}
    scheduling: str = ""
    constraint_mode: str = ""
    beyond_limits: dict[str, Excursion] = {}
    beyond_velocity_limits: dict[str, Overspeed] = {}
    calls_refused: int = 0
    step_too_large: str = ""
    energy_departure: str = ""
    largest_departure: float | None = None
    failed_node: str = ""
    guard_stops: dict[str, GuardStops] = {}
    emergency_stop: str = ""
    limited: dict[str, str] = {}

    def take_simulation(self, status: Mapping[str, Any]) -> None:
        """Copy the measurements from the simulation server's status, except those with the value None."""
        for field in MEASURED_BY_THE_SERVER:
            value = status.get(field)
            if value is not None:
                setattr(self, field, value)
        self.loads = msgspec.convert(status.get("loads", {}), dict[str, Load])
        self.beyond_limits = msgspec.convert(status.get("beyond_limits", {}), dict[str, Excursion])
        self.beyond_velocity_limits = msgspec.convert(status.get("beyond_velocity_limits", {}), dict[str, Overspeed])

    def take_file(self, path: Path, before: Path | None = None) -> None:
        """Add a file that a node was to write, if the file exists.

        before  path to which the previous file of the same name was moved; None if there was none
        """
        if path.is_file():
            kept = "" if before is None else str(before)
            self.files.append(FileWritten(path=str(path), size_bytes=path.stat().st_size, before=kept))

    def judged(self, outcome: str) -> dict[str, str]:
        """{node: reason} of the verdicts with this outcome."""
        return {name: verdict.reason for name, verdict in self.verdicts.items() if verdict.outcome == outcome}

    def stopped(self) -> Iterator[str]:
        """One line for each guard or emergency stop that still holds the robot at the end of the run."""
        yield from open_stops(self.guard_stops)
        if self.emergency_stop:
            yield f"the emergency stop of the simulation was not released: {self.emergency_stop}"

    def lines(self) -> Iterator[tuple[str, str]]:
        """The summary as pairs (label, text), in reading order."""
        yield "robot", f"{self.robot}, {self.mode}, {self.time:.3f} s in {self.tick} steps"
        if self.method:
            yield "method", self.method
        if self.step_too_large:
            yield "step too large", self.step_too_large
        for name, when in self.milestones.items():
            text = f"reached at t = {when:.2f} s" if when is not None else "not reached"
            yield name, text + (" (required)" if name in self.missed else "")
        if self.first_state_s is not None:
            yield "start", f"first state after {self.first_state_s:.2f} s"
        if self.real_time_factor is not None and self.tick:
            judged = self.mode == "realtime" and self.time >= JUDGED_S
            behind = judged and self.real_time_factor < REAL_TIME_HELD * self.speed
            hint = "; this computer fell behind, `armswing doctor` may show why" if behind else ""
            requested = f", {self.speed:g} was requested" if self.mode == "realtime" and self.speed != 1.0 else ""
            yield "real-time factor", f"{self.real_time_factor:.3f}{requested}{hint}"
        if self.overruns is not None and self.tick and self.mode == "realtime":
            late = f", the deadlines of {self.skipped} late steps were skipped" if self.skipped else ""
            yield "overruns", f"{self.overruns}{_share(self.overruns, self.tick)}{late}"
        if self.processor_share is not None and self.mode == "realtime":
            yield "processor", f"the server took {self.processor_share:.0%} of one core".replace("%", " %")
        if self.watchdog_trips:
            often = "once" if self.watchdog_trips == 1 else f"{self.watchdog_trips} times"
            yield "watchdog", f"{often} no command arrived in time, and the actuators went to the safe mode"
        yield from _percentiles("step time", self.step_p50_s, self.step_p99_s, self.step_max_s)
        if self.mode == "realtime":
            yield from _percentiles("period jitter", self.jitter_p50_s, self.jitter_p99_s, self.jitter_max_s)
        yield from _percentiles("round trip", self.round_trip_p50_s, self.round_trip_p99_s)
        if self.peak_phi or self.peak_phidot:  # exactly 0 without constraints
            yield "peak violation", f"|Phi| {self.peak_phi:.2e}, |Phidot| {self.peak_phidot:.2e}"
        if self.peak_solve_residual:
            yield "solve", f"J a = gamma holds to {self.peak_solve_residual:.1e} of its terms"
        if self.substeps:
            yield "change points", f"{self.substeps} substeps near positions where constraint rows lose rank"
        if self.energy is not None and self.tick:
            # Controllers supply energy, so the change describes the motion, not the accuracy.
            drift = self.energy_drift
            change = f", at most {drift:.4g} J away from the start" if drift is not None else ""
            yield "energy", f"{self.energy:.7g} J{change}"
        if self.energy_departure:
            yield "energy departed", self.energy_departure
        if self.beyond_limits:
            yield "beyond its limits", "; ".join(f"{name} {far.text()}" for name, far in self.beyond_limits.items())
        if self.beyond_velocity_limits:
            speeds = (f"{name} {found.text()}" for name, found in self.beyond_velocity_limits.items())
            yield "too fast", "; ".join(speeds)
        if self.constraint_mode:
            yield "at the end", f"constraint mode {self.constraint_mode}"
        for name, stops in self.guard_stops.items():
            yield STOPPED_BY[stops.by], f"{name} {stops.text()}"
        for name, limited in self.limited.items():
            yield "limited by a guard", f"{name} {limited}"
        if self.emergency_stop:
            yield "emergency stop", f"the simulation is still stopped at the end: {self.emergency_stop}"
        for name, load in self.loads.items() if self.tick else ():
            yield f"load of {name}", load.text()
        for name, figures in self.figures.items():
            yield name, ", ".join(figure_text(key, value) for key, value in figures.items())
        for name, verdict in self.verdicts.items():
            yield name, str(verdict)
        yield from self._node_lines()
        for file in self.files:
            yield "file written", file.text()
        if self.look:
            yield "in detail", f"{self.look}    it names causes, and also judges masses, gains, friction and backlash"
        if self.ended:
            yield "ended", f"{self.ended}, exit code {self.exit_code}"

    def _node_lines(self) -> Iterator[tuple[str, str]]:
        if self.nodes:
            yield "messages lost", ", ".join(f"{name} {loss.lost}" for name, loss in self.nodes.items())
        dropped = {name: loss for name, loss in self.nodes.items() if loss.dropped is not None}
        if dropped:
            text = ", ".join(f"{name} {loss.dropped} of {loss.on_link} messages" for name, loss in dropped.items())
            yield "dropped by emulated links", text
        for name, loss in self.nodes.items():
            if loss.heard_in_silence:
                yield "published nothing", f"{name}, which received {loss.heard_in_silence} messages"
        for name, loss in self.nodes.items():
            if loss.refused:
                last = f", the last on {loss.last_refusal}" if loss.last_refusal else ""
                yield "messages rejected", f"{name} {loss.refused}{last}"
        for name, loss in self.nodes.items():
            if loss.forged:
                which = ", ".join(f"{count} on topic {forged}" for forged, count in loss.forged.items())
                yield "forged messages", f"{name} rejected {which}"
        if self.rejected_connections:
            kinds = [
                f"{count} {REJECTED_KINDS.get(kind, kind)}"
                for kind, count in self.rejected_connections_by_kind.items()
                if count
            ]
            yield "rejected connections", f"{self.rejected_connections} without an allowed key: {', '.join(kinds)}"
        if self.calls_refused:
            yield "rejected calls", f"{self.calls_refused} to the registry, about names or nodes of other peers"
        restarts = {name: loss.restarts for name, loss in self.nodes.items() if loss.restarts}
        if restarts:
            yield "restarts", ", ".join(f"{name} {count}" for name, count in restarts.items())

    def text(self) -> str:
        """The whole summary as text, one line for each pair (label, text) that `lines` yields."""
        rows = list(self.lines())
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"  {label:<{width}}  {text}" for label, text in rows)

    def to_json(self) -> bytes:
        """The summary as indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)


UNITS = {"rad": "rad", "deg": "deg", "m": "m", "mm": "mm", "s": "s", "ms": "ms", "us": "us", "hz": "Hz"}
UNITS |= {"n_m": "N m", "n": "N", "kg": "kg"}
ROUNDING = {"s": 1e-6, "ms": 1e-3}  # times are sums of steps: less than a microsecond is rounding


def figure_text(name: str, value: float) -> str:
    """Text of a measured number with the unit that its name ends in: "peak error 0.012 rad" for peak_error_rad."""
    parts = name.split("_")
    for length in (2, 1):
        unit = UNITS.get("_".join(parts[-length:]).lower())
        if unit is not None and len(parts) > length:
            value = value if abs(value) >= ROUNDING.get(unit, 0.0) else 0.0
            return f"{' '.join(parts[:-length])} {value:.3g} {unit}"
    return f"{name.replace('_', ' ')} {value:.3g}"


def _plain(value: float) -> str:
    """Number with three digits and without an exponent: "1000", "4.13", and "0" for rounding errors."""
    return f"{value:.0f}" if abs(value) >= 100.0 or abs(value) < 1e-9 else f"{value:.3g}"


def seconds_text(seconds: float) -> str:
    """Duration in s, ms, us or ns, such as "85.1 us"."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _percentiles(
    label: str, p50: float | None, p99: float | None, most: float | None = None
) -> Iterator[tuple[str, str]]:
    if p50 is not None and p99 is not None:
        at_most = "" if most is None else f", at most {seconds_text(most)}"
        yield label, f"p50 {seconds_text(p50)}, p99 {seconds_text(p99)}{at_most}"


def _share(part: int, whole: int) -> str:
    return f" of {whole} steps ({100.0 * part / whole:.2f} %)" if part and whole else ""


def _bytes(size: int) -> str:
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"

"""Record of what the guard of one node did during a run, from the events that the node publishes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from nodes.framework.messages import Event, GuardStops

CONTROLLED_STOP = ": controlled stop"  # end of the line of a guard's event
# {kind of event: value of GuardStops.by}
BEGINS: dict[str, Literal["guard", "estop"]] = {"guard_stop": "guard", "estop": "estop"}
ENDS = ("guard_acknowledged", "estop_released")
LIMITS = ("guard_clamp", "guard_rejected")


class GuardLog:
    """Record of one node's events: number and durations of its stops, and the limits that changed commands.

    A stop is a controlled stop by a guard, or an emergency stop of a driver without a guard.

    stops    the stops so far; None before the first
    limited  {limit that changed or rejected commands, such as "velocity of joint_2": simulation time (s) of the first
             such command, None if it is not known}
    latest   one line about the latest command that was changed or rejected; "" if there was no such command
    """

    def __init__(self) -> None:
        self.stops: GuardStops | None = None
        self.limited: dict[str, float | None] = {}
        self.latest = ""
        self._since: float | None = None  # beginning of the part of the stop that `stopped_s` does not contain yet
        self._passed: int | None = None  # number of commands passed on until the latest stop was acknowledged

    def add(self, event: Event, now: float, time: float | None, passed: int | None = None) -> None:
        """Process an event that the node publishes.

        now     time of the clock that measures durations (s)
        time    simulation time (s); None if it is not known
        passed  number of commands that the guard passed on so far; None if it is not known
        """
        if event.kind in BEGINS:
            self._begin(event, now, time)
        elif event.kind in ENDS and self.stops is not None:
            self.measure(now)
            self.stops.reason, self._since, self._passed = "", None, passed
        elif event.kind in LIMITS:
            self.limited.setdefault(f"{event.key} of {event.part}" if event.part else event.key, time)
            self.latest = event.detail if time is None else f"t = {time:.3f} s: {event.detail}"

    def _begin(self, event: Event, now: float, time: float | None) -> None:
        reason = event.detail.removesuffix(CONTROLLED_STOP)
        if self.stops is None:
            self.stops = GuardStops(first_time=time, first_reason=reason, by=BEGINS[event.kind])
        self.stops.count += 1
        self.stops.latest_time = time
        self.stops.reason, self.stops.latest_s, self.stops.idle = reason, 0.0, False
        self._since = now

    def measure(self, now: float, passed: int | None = None) -> GuardStops | None:
        """The stops so far, with durations until `now`; None if there was no stop.

        now     time (s) of the clock that measures durations
        passed  number of commands that the guard passed on so far; None if it is not known
        """
        if self.stops is None:
            return None
        if self._since is not None:
            elapsed, self._since = max(now - self._since, 0.0), now
            self.stops.stopped_s += elapsed
            self.stops.latest_s += elapsed
        if self._passed is not None and passed is not None:
            self.stops.idle = 0 < passed == self._passed and not self.stops.reason
        return self.stops

    def limits_text(self) -> str:
        """Text about the limits that changed or rejected commands; "" if no limit did so.

        An example is "commands were limited by velocity of joint_2 and 1 more, first at t = 1.200 s".
        """
        if not self.limited:
            return ""
        first, time = next(iter(self.limited.items()))
        more = f" and {len(self.limited) - 1} more" if len(self.limited) > 1 else ""
        return f"commands were limited by {first}{more}" + ("" if time is None else f", first at t = {time:.3f} s")

    def reset(self, before: float, now: float) -> None:
        """Continue after the clock that measures durations was set from `before` to `now` (s)."""
        self.measure(before)
        if self._since is not None:
            self._since = now

    def snapshot(self) -> dict[str, Any]:
        """The record as plain data, for `restore`. Call `measure` before."""
        return {"stops": msgspec.to_builtins(self.stops), "limited": dict(self.limited), "latest": self.latest}

    def restore(self, state: Mapping[str, Any], now: float, passed: int | None = None) -> None:
        """Continue from a result of `snapshot`.

        now     time of the clock that measures durations (s)
        passed  number of commands that the guard passed on so far; None if it is not known
        """
        self.stops = stops = msgspec.convert(state["stops"], GuardStops | None)
        self.limited, self.latest = dict(state["limited"]), state["latest"]
        self._since = now if stops is not None and stops.reason else None
        self._passed = passed if stops is not None and stops.idle else None


def open_stops(stops: Mapping[str, GuardStops]) -> Iterator[str]:
    """Yield one line for each node whose stop of the robot lasted to the end of a run or was followed by no command.

    stops  {node: its stops until the end of the run}
    """
    for name, each in stops.items():
        if each.is_open:
            what = "guard" if each.by == "guard" else "emergency stop"
            yield f"the {what} of {name!r} stopped the robot {each.text()}"


class GuardActions:
    """What the guards of a robot did during a run, from the events of the run.

    An emergency stop of the simulation counts as that of a node named "sim".

    logs  {name of the node with the guard: its record}
    """

    def __init__(self) -> None:
        self.logs: dict[str, GuardLog] = {}

    def add(self, event: Event, now: float) -> None:
        """Process an event; `now` is the simulation time (s)."""
        if event.kind in BEGINS or event.kind in ENDS or event.kind in LIMITS:
            self.logs.setdefault(event.node or "sim", GuardLog()).add(event, now, now)

    def is_held(self, now: float) -> bool:
        """Whether a node has stopped the robot and still holds it at the simulation time `now` (s)."""
        return any(stops.is_open for log in self.logs.values() if (stops := log.measure(now)) is not None)

    def lines(self, now: float) -> list[str]:
        """One line for each node about its stops until the simulation time `now` (s), and one about limited commands.

        An example is "hardware stopped the robot at t = 1.500 s for 3.200 s: lower of elbow: ...": the node "hardware"
        stopped the robot because of the lower limit of joint "elbow".
        """
        found = []
        for name, log in self.logs.items():
            if (stops := log.measure(now)) is not None and stops.stopped_s > 0.0:
                found.append(f"{name} stopped the robot {stops.text()}")
            if limits := log.limits_text():
                found.append(f"{name}: {limits}")
        return found

    def snapshot(self, now: float) -> dict[str, Any]:
        """The records as plain data, for `restore`."""
        for log in self.logs.values():
            log.measure(now)
        return {name: log.snapshot() for name, log in self.logs.items()}

    def restore(self, state: Mapping[str, Any], now: float) -> None:
        """Continue from a result of `snapshot`, at the simulation time `now` (s)."""
        self.logs = {}
        for name, saved in state.items():
            self.logs[name] = GuardLog()
            self.logs[name].restore(saved, now)

    def reset(self, before: float, now: float) -> None:
        """Continue after simulation time was set from `before` to `now` (s)."""
        for log in self.logs.values():
            log.reset(before, now)

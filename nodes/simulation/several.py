"""Several simulations with one clock: one simulation per robot, stepped together in the order of the plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nodes.hosting.hosted import EncodedMessage, Out
from nodes.hosting.timing.clock import Durations
from nodes.messages import Event
from nodes.plan.launch_plan import joined
from nodes.simulation.restart.snapshots import NEVER, LinksState
from nodes.simulation.server import SimServer
from nodes.simulation.services import known_names
from nodes.transport.rejections import RejectionLog
from sim_core.support.suggestion import did_you_mean

LARGEST = ("peak_phi", "peak_phidot", "substeps", "peak_solve_residual", "energy_drift", "largest_departure")
SUMS = ("energy", "watchdog_trips")
BY_PART = (
    "milestones",
    "loads",
    "beyond_limits",
    "beyond_velocity_limits",
    "commands_taken",
    "commands_refused",
)  # tables by local names
FIRST = ("step_too_large", "energy_departure", "safe_since", "emergency_stop")  # the first value that is not empty


class SeveralServers:
    """Steps the simulations of several namespaces together. Each simulation behaves as in a separate launch.

    The argument `parts` is the table {namespace: simulation}, in the order of the plan. The attribute `parts` is the
    list of the simulations.

    Services act on all simulations. The name of a parameter begins with its namespace, as in "left/arm_damping". The
    services `snapshot` and `describe` return a table {namespace: result}.
    """

    def __init__(self, parts: Mapping[str, SimServer]) -> None:
        self._parts = dict(parts)
        self.parts: Sequence[SimServer] = list(parts.values())
        self._first = self.parts[0]
        self.refusals = RejectionLog(self._first.name)
        self._step_times = Durations()
        for part in self.parts:
            part.refusals = self.refusals
        self._services: dict[str, Callable[[dict[str, Any]], Any]] = {
            "snapshot": lambda args: self._each("snapshot", args),
            "describe": lambda args: self._each("describe", args),
            "restore": self._restore,
            "get_parameters": lambda args: self._parameters(),
            "push": self._push,
            "hand_command": self._hand_command,
            "take_over": self._take_over,
            "set": self._set,
            "set_parameters": self._set,
        }

    @property
    def out(self) -> Out:
        """Function that each simulation calls with (topic, encoded message) to publish a message."""
        return self._first.out

    @out.setter
    def out(self, out: Out) -> None:
        for part in self.parts:
            part.out = out

    @property
    def code_hash(self) -> str:
        """Hash of the robots' equations."""
        return " ".join(part.code_hash for part in self.parts)

    @property
    def tick(self) -> int:
        """Number of time steps since the start or the last reset."""
        return self._first.tick

    @property
    def time(self) -> float:
        """Simulation time, s."""
        return self._first.time

    @property
    def runs(self) -> bool:
        """Whether the next time step is due, because the simulations run or single time steps were requested."""
        return self._first.runs

    @property
    def steps_left(self) -> int:
        """Number of time steps still to take while paused."""
        return self._first.steps_left

    @property
    def speed(self) -> float:
        """Simulated seconds per wall second, in mode realtime."""
        return self._first.speed

    @property
    def state(self) -> str:
        """State of the simulations; "safe" if the actuators of any robot are in their safe mode."""
        return "safe" if any(part.state == "safe" for part in self.parts) else self._first.state

    @property
    def detail(self) -> str:
        """Reason of the present state, as one line. The line names the namespaces whose actuators are in safe mode."""
        safe = [f"{name}: {part.detail}" for name, part in self._parts.items() if part.state == "safe"]
        return "; ".join(safe) or self._first.detail

    @property
    def emergency(self) -> str:
        """Reason of the emergency stop in force; "" if there is no emergency stop."""
        return self._first.emergency

    def start(self, restarts: bool = False) -> None:
        """Publish the descriptions and the initial states."""
        for part in self.parts:
            part.start(restarts)

    def next_snapshot(self, tick: int) -> int:
        """Return NEVER, a tick that no run reaches, because runs of several robots take no snapshots."""
        return NEVER

    def publish_snapshot(
        self,
        nodes: Mapping[str, bytes],
        waiting: Mapping[str, Sequence[EncodedMessage]],
        links: LinksState | None = None,
    ) -> None:
        """Do nothing, because runs of several robots take no snapshots."""

    def restart(self, state: Mapping[str, Any], stamps: bool, ahead: int) -> None:
        """Raise ValueError, because runs of several robots take no snapshots."""
        raise ValueError(
            "a run of several robots takes no snapshots, so it cannot continue from a recording; start a new run"
        )

    def repeat(self, action: Event) -> None:
        """Raise ValueError, because runs of several robots take no snapshots."""
        raise ValueError(
            "a run of several robots takes no snapshots, so it cannot continue from a recording; start a new run"
        )

    def step(self) -> None:
        """Advance every simulation by one time step."""
        began = time.perf_counter_ns()
        for part in self.parts:
            part.step()
        self._step_times.add(time.perf_counter_ns() - began)

    def publish_state(self) -> None:
        """Publish the present states and poses."""
        for part in self.parts:
            part.publish_state()

    def publish_events(self, events: Iterable[Event]) -> None:
        """Publish events with the present simulation time, for every robot."""
        found = list(events)
        for part in self.parts:
            part.publish_events(found)

    def forget(self, source: str) -> None:
        """Record that a node left, so that other nodes may command its actuators. May be called from any thread."""
        for part in self.parts:
            part.forget(source)

    def restart_pace(self) -> None:
        """Begin anew to measure the real-time factor."""
        for part in self.parts:
            part.restart_pace()

    def request(self, name: str, args: dict[str, Any]) -> Any:
        """Execute a service call and return the response. Raises ValueError with a one-line message if the call is
        refused."""
        if (service := self._services.get(name)) is not None:
            return service(args)
        responses = [part.request(name, args) for part in self.parts]
        return responses[0]

    def status(self) -> dict[str, Any]:
        """Status of all simulations together, as plain data in SI units; `simulations` has the status of each one."""
        each = {name: part.status() for name, part in self._parts.items()}
        statuses = list(each.values())
        merged = dict(statuses[0])
        merged |= {key: max(status[key] for status in statuses) for key in LARGEST}
        merged |= {key: sum(status[key] for status in statuses) for key in SUMS}
        merged |= {key: next((s[key] for s in statuses if s[key]), statuses[0][key]) for key in FIRST}
        merged |= {key: _with_namespaces(each, key) for key in BY_PART}
        merged["granted"] = [joined(name, node) for name, status in each.items() for node in status["granted"]]
        merged["commanded_by"] = {name: status["commanded_by"] for name, status in each.items()}
        return {**merged, **self.timing(), "state": self.state, "simulations": each}

    def timing(self) -> dict[str, float | None]:
        """Quantiles (s) of computing times and of round-trip times, in the form of `SimServer.timing`.

        A computing time is the time that one time step of all simulations together takes. A round-trip quantile is the
        largest of the robots' quantiles.
        """
        each = [part.timing() for part in self.parts]
        trips = {key: [t for timing in each if (t := timing[key]) is not None] for key in each[0]}
        return {
            **{key: max(found) if found else None for key, found in trips.items()},
            "step_p50_s": self._step_times.quantile_s(0.50),
            "step_p99_s": self._step_times.quantile_s(0.99),
            "step_max_s": self._step_times.largest_s,
        }

    def counters(self) -> dict[str, int]:
        """Numbers of watchdog trips and of accepted commands, summed over all robots."""
        each = [part.counters() for part in self.parts]
        return {key: sum(counters[key] for counters in each) for key in each[0]}

    def _each(self, service: str, args: dict[str, Any]) -> dict[str, Any]:
        return {name: part.request(service, args) for name, part in self._parts.items()}

    def _restore(self, args: dict[str, Any]) -> None:
        known_names(args, ["state"], "restore")
        state = args.get("state")
        if not isinstance(state, dict) or set(state) != set(self._parts):
            raise ValueError(
                "restore: the argument 'state' must be a table with one snapshot for each namespace; pass a table with "
                f"the keys {', '.join(self._parts)}"
            )
        before = self._each("snapshot", {})
        try:
            for name, part in self._parts.items():
                part.request("restore", {"state": state[name]})
        except ValueError:
            for name, part in self._parts.items():
                part.request("restore", {"state": before[name]})
            raise

    def _push(self, args: dict[str, Any]) -> None:
        """Push a body, whose name begins with its namespace, as in "left/arm"."""
        namespace, _, body = str(args.get("body")).rpartition("/")
        if namespace not in self._parts:
            raise ValueError(
                f"push: the argument 'body' is {args.get('body')!r}; it must begin with a namespace and a slash, and "
                f"the namespaces are {', '.join(self._parts)}"
            )
        self._parts[namespace].request("push", {**args, "body": body})

    def _hand_command(self, args: dict[str, Any]) -> list[str]:
        """Command actuators as a user, in place of the nodes; returns the names of all actuators that a user commands.

        The name of an actuator begins with the namespace, as in "left/arm". A call without names renews the present
        commands of the user to all robots.
        """
        names, values = args.get("name") or [], args.get("value") or []
        found = []
        for namespace, part in self._parts.items():
            places = [place for place, name in enumerate(names) if str(name).rpartition("/")[0] == namespace]
            own = {
                "name": [names[k].rpartition("/")[2] for k in places],
                "value": [values[k] for k in places[: len(values)]],
            }
            if places or not names:
                found += [joined(namespace, name) for name in part.request("hand_command", {**args, **own})]
        return found

    def _take_over(self, args: dict[str, Any]) -> list[str]:
        """Allow a node outside of the plan to publish commands to the robot of the argument `topic`."""
        parts = {f"{part.robot}/command": part for part in self.parts}
        if args.get("topic") not in parts:
            raise ValueError(
                f"take_over: the argument 'topic' is {args.get('topic')!r}; pass one of {', '.join(parts)}"
            )
        found: list[str] = parts[args["topic"]].request("take_over", args)
        return found

    def _parameters(self) -> dict[str, float]:
        return _with_namespaces(self._each("get_parameters", {}))

    def _set(self, args: dict[str, Any]) -> dict[str, float]:
        known = self._parameters()
        for key in args:
            if key not in known:
                raise ValueError(
                    f"set: there is no parameter {key!r}{did_you_mean(key, known)}; use one of {', '.join(known)}"
                )
        for name, part in self._parts.items():
            own = {key.removeprefix(f"{name}/"): value for key, value in args.items() if key.startswith(f"{name}/")}
            if own:
                part.request("set", own)
        return self._parameters()


def _with_namespaces(tables: Mapping[str, Mapping[str, Any]], key: str | None = None) -> dict[str, Any]:
    """Merge the tables {name: value} of all namespaces into one table {namespace/name: value}.

    tables  {namespace: table}
    key     key under which each table in `tables` contains the table {name: value}; None if each table in `tables` is
            itself the table {name: value}
    """
    return {
        joined(namespace, name): value
        for namespace, table in tables.items()
        for name, value in (table if key is None else table[key]).items()
    }

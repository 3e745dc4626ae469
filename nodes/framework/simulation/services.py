"""Services of the simulation server."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from nodes.framework.messages.protocol import NOTHING_STOPPED, RELEASED
from nodes.framework.plan.launch_plan import Plan, joined
from nodes.framework.simulation.robot import RobotSimulation
from sim_core.support.suggestion import did_you_mean

# {service: names of its arguments}
SERVICES: dict[str, tuple[str, ...]] = {
    "pause": ("last",),  # stop simulation time; last = true: at the end of a launch, without an event
    "resume": ("first",),  # let simulation time run; first = true: only if no user paused it
    "step": ("n",),  # advance a paused simulation by n steps
    "push": ("body", "force", "point", "duration_s"),  # an external force on a body, see `Pushes.push`
    "hand_command": ("mode", "name", "value"),  # command actuators in place of the nodes; ends 3 s after the last call
    "give_back": (),  # end all commands of `hand_command`, so that the nodes command these actuators again
    "take_over": ("node", "topic"),  # allow a node outside of the launch file to publish commands on ROBOT/command
    "reset": (),  # set the robot back to its start, and simulation time to zero
    "speed": ("x",),  # simulated seconds per wall second
    "estop": ("reason",),  # put all actuators into their safe mode until `release`
    "release": (),  # end an emergency stop
    "snapshot": (),  # the whole state as plain data
    "restore": ("state",),  # continue from a snapshot; the event loop handles its other argument, `recording`
    "set": (),  # name = value: tune parameters of the mechanism
    "get_parameters": (),  # the tunable parameters of the mechanism
    "describe_parameters": (),  # units and limits of the tunable parameters: name = {unit, low, high}
    "set_parameters": (),  # the same as set
    "describe": (),  # the robot's description
}


class Services:
    """Executes the service calls of a simulation server, on all of its robots.

    robots  {namespace: simulation of a robot}
    run     {service: function} of the services that act on the run as a whole
    jumped  function that is called with "reset" or "restore" after the states of the robots were replaced
    """

    def __init__(
        self,
        plan: Plan,
        robots: Mapping[str, RobotSimulation],
        run: Mapping[str, Callable[..., Any]],
        jumped: Callable[[str], None],
    ) -> None:
        self._robots, self._jumped = robots, jumped
        self._first = next(iter(robots.values()))
        self._has_namespaces = bool(plan.simulations)
        self._safe_mode = plan.sim.safe_mode
        self._functions: dict[str, Callable[..., Any]] = {
            **run,
            "push": self._push,
            "hand_command": self._hand_command,
            "give_back": self._give_back,
            "take_over": self._take_over,
            "reset": self._reset,
            "estop": self._emergency_stop,
            "release": self._release,
            "snapshot": lambda: self._of_each(RobotSimulation.snapshot),
            "restore": self._restore,
            "describe": lambda: self._of_each(lambda robot: msgspec.to_builtins(robot.messages.description)),
            "get_parameters": lambda: self._by_full_name(lambda robot: robot.simulation.parameters),
            "describe_parameters": lambda: self._by_full_name(RobotSimulation.parameter_limits),
        }

    def request(self, name: str, args: dict[str, Any]) -> Any:
        """Execute a service call and return the response. Raises ValueError with a one-line message if the call is
        refused."""
        if name not in SERVICES:
            raise ValueError(f"the simulation has no service {name!r}; its services are {', '.join(SERVICES)}")
        if name in ("set", "set_parameters"):
            return self._set(args)
        known_names(args, SERVICES[name], name)
        return self._functions[name](**args)

    def _push(self, body: Any = None, **args: Any) -> None:
        """Push a body. In a plan with namespaces, its name begins with the namespace, as in "left/arm"."""
        if not self._has_namespaces:
            self._first.push(body=body, **args)
            return
        namespace, _, name = str(body).rpartition("/")
        if namespace not in self._robots:
            raise ValueError(
                f"push: the argument 'body' is {body!r}; it must begin with a namespace and a slash, and the "
                f"namespaces are {', '.join(self._robots)}"
            )
        self._robots[namespace].push(body=name, **args)

    def _hand_command(self, mode: Any = "effort", name: Any = None, value: Any = None) -> list[str]:
        """Command actuators as a user, see `CommandHandler.command_by_hand`.

        In a plan with namespaces, the name of an actuator begins with the namespace, as in "left/arm". A call without
        names renews the present commands of the user to all robots.
        """
        if not self._has_namespaces:
            return self._first.commands.command_by_hand(mode, name, value)
        names, values, found = name or [], value or [], []
        for namespace, robot in self._robots.items():
            places = [place for place, each in enumerate(names) if str(each).rpartition("/")[0] == namespace]
            if places or not names:
                own = [names[k].rpartition("/")[2] for k in places]
                by_hand = robot.commands.command_by_hand(mode, own, [values[k] for k in places[: len(values)]])
                found += [joined(namespace, each) for each in by_hand]
        return found

    def _give_back(self) -> None:
        for robot in self._robots.values():
            robot.commands.give_back()

    def _take_over(self, node: Any = None, topic: Any = None) -> list[str]:
        """Allow a node outside of the plan to publish commands; return the actuators that it may command now."""
        commands = {robot.commands.topic: robot.commands for robot in self._robots.values()}
        if not isinstance(node, str) or not node or topic not in commands:
            raise ValueError(
                f"take_over: the arguments 'node' and 'topic' are {node!r} and {topic!r}; pass the name of the node "
                f"and the topic {' or '.join(map(repr, commands))}"
            )
        return commands[topic].grant(node)

    def _emergency_stop(self, reason: Any = "") -> str:
        """Put all actuators into their safe mode now, and refuse commands until the service `release` is called."""
        for robot in self._robots.values():
            robot.commands.stop(str(reason))
        return f"safe mode {self._safe_mode}"

    def _release(self) -> str:
        """End the emergency stop, so that commands are accepted again.

        Returns a text that states whether there was an emergency stop.
        """
        released = [robot.commands.release() for robot in self._robots.values()]
        return RELEASED if any(released) else NOTHING_STOPPED

    def _reset(self) -> None:
        for robot in self._robots.values():
            robot.reset()
        self._jumped("reset")

    def _restore(self, state: Any = None) -> None:
        states = state if self._has_namespaces else dict.fromkeys(self._robots, state)
        if not isinstance(states, dict) or set(states) != set(self._robots):
            raise ValueError(
                "restore: the argument 'state' must be a table with one snapshot for each namespace; pass a table with "
                f"the keys {', '.join(self._robots)}"
            )
        before = {name: robot.snapshot() for name, robot in self._robots.items()}
        try:
            for name, robot in self._robots.items():
                robot.restore(states[name])
        except ValueError:
            for name, robot in self._robots.items() if self._has_namespaces else ():
                robot.restore(before[name])
            raise
        self._jumped("restore")

    def _set(self, args: dict[str, Any]) -> dict[str, float]:
        """Set tunable parameters, and return all of them."""
        for key, value in args.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"set: the parameter {key} is {value!r}; it must be a finite number")
        if not self._has_namespaces:
            self._first.set_parameters(args)
            return self._first.simulation.parameters
        known = self._by_full_name(lambda robot: robot.simulation.parameters)
        for key in (key for key in args if key not in known):
            raise ValueError(
                f"set: there is no parameter {key!r}{did_you_mean(key, known)}; use one of {', '.join(known)}"
            )
        for namespace, robot in self._robots.items():
            own = {name: args[key] for name in robot.simulation.parameters if (key := joined(namespace, name)) in args}
            if own:
                robot.set_parameters(own)
        return self._by_full_name(lambda robot: robot.simulation.parameters)

    def _of_each(self, value: Callable[[RobotSimulation], Any]) -> Any:
        """The value of the only robot, or {namespace: value} in a plan with namespaces."""
        values = {namespace: value(robot) for namespace, robot in self._robots.items()}
        return values if self._has_namespaces else next(iter(values.values()))

    def _by_full_name(self, table: Callable[[RobotSimulation], Mapping[str, Any]]) -> dict[str, Any]:
        """{name with namespace: value} of the tables {name: value} of all robots."""
        return {
            joined(space, name): value for space, robot in self._robots.items() for name, value in table(robot).items()
        }


def known_names(args: Mapping[str, object], allowed: Sequence[str], service: str) -> None:
    """Raise ValueError if `args` has an argument that the service does not accept.

    The message lists the arguments that the service accepts.
    """
    for key in args:
        if key not in allowed:
            takes = f"its arguments are {', '.join(allowed)}" if allowed else "call the service without arguments"
            raise ValueError(f"{service}: the service has no argument {key!r}; {takes}")

"""Services of the simulation server, with the names of their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def known_names(args: Mapping[str, object], allowed: Sequence[str], service: str) -> None:
    """Raise ValueError if `args` has an argument that the service does not accept.

    The message lists the arguments that the service accepts.
    """
    for key in args:
        if key not in allowed:
            takes = f"its arguments are {', '.join(allowed)}" if allowed else "call the service without arguments"
            raise ValueError(f"{service}: the service has no argument {key!r}; {takes}")

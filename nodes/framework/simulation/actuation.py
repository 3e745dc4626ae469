"""Actuation: assigns actuators to commanding nodes, computes efforts from commands, records the actuators' loads."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nodes.framework.messages import JointCommand
from nodes.framework.simulation.monitoring.joint_limits import JointLimitMonitor
from nodes.framework.simulation.monitoring.watchdog import Watchdog
from sim_core.kernels.bound import BoundKernel
from sim_core.mechanism import Mechanism
from sim_core.servos.kernels import add_loads
from sim_core.servos.loops import Known, Servos
from sim_core.simulation import Simulation

HAND = "hand"  # commander of the actuators that a user commands by service calls
Joints = Callable[[], tuple[Any, Any]]  # positions and velocities of the joints


class Actuation:
    """The actuators of one simulation. Each actuator is commanded by at most one node at a time.

    planned       {actuator: node of the plan that commands it}; no other node may command it, also while this node is
                  silent or has left. All other actuators are free: the first node that commands one has it until it is
                  silent or leaves
    watchdog_s    longest permitted time without a command from a commanding node, s; None for no watchdog
    hold          whether the safe mode of the actuators holds positions; otherwise it sets efforts to zero
    servos        servo loops, which keep the latest command of each actuator
    changed       whether the efforts of the next time step may differ from the efforts of the last time step
    safe          names of actuators in their safe mode
    trips         number of times that a watchdog tripped
    commands      number of commands accepted
    commanded_at  lower bound (s) of the times at which the nodes with a watchdog sent their latest commands; infinite
                  if there are no watchdogs
    by_hand       names of actuators that a user commands; commands of nodes to these actuators have no effect
    joints        monitor of the range of each joint's motion
    cut           (node, message) for each node's first command of a position beyond a joint's limits
    """

    def __init__(
        self, simulation: Simulation, watchdog_s: float | None, hold: bool, planned: Mapping[str, str] | None = None
    ) -> None:
        mechanism, readings = simulation.system.mechanism, simulation.readings
        self._simulation = simulation
        self.servos = Servos(mechanism, simulation.step_s)
        self.robot = mechanism.name
        self.changed = False
        self.safe: set[str] = set()
        self.trips = 0
        self.commands = 0
        self._planned = planned or {}
        self._owners: dict[str, str] = {}
        self._gone: set[str] = set()
        self.by_hand: set[str] = set()
        self._displaced: dict[str, str] = {}  # {actuator: node that commanded it before a user did}
        self._granted: dict[str, tuple[str, list[str], Known]] = {}  # latest accepted command of each node
        self._watchdog_s, self._hold = watchdog_s, hold
        self._watchdogs: dict[str, Watchdog] = {}
        self.commanded_at = math.inf  # lower bound of the times of the watchdogs' latest commands
        self._accepted: dict[str, int] = {}
        self._refused: dict[str, tuple[int, str]] = {}
        self._loads = Loads(mechanism)
        self._turn: BoundKernel | None = None
        if (effort := simulation.driven) is not None:
            servos = self.servos.bind(*readings.joint_motion, effort)
            self._turn = BoundKernel.in_turn([readings.read_joints, servos, self._loads.bind(effort)])
        self.joints = JointLimitMonitor(mechanism, *readings.joint_motion)
        self.cut: deque[tuple[str, str]] = deque(maxlen=64)
        self._reported_cut: set[str] = set()

    @property
    def commanded_by(self) -> str | None:
        """Names of the nodes that command actuators, separated by commas; None if there are no such nodes."""
        return ", ".join(sorted(set(self._owners.values()) - self._gone)) or None

    def accept(self, source: str, command: JointCommand, joints: Joints, now: float, objection: str = "") -> str:
        """Accept a command for the next time step, or refuse it.

        Returns "" if the command is accepted, otherwise a one-line reason why it is refused.

        joints     function that returns positions and velocities of the joints
        now        time on the watchdogs' clock, s
        objection  reason of the caller to refuse the command; "" if the caller has none
        """
        if self.by_hand and source != HAND and not objection:
            command = self._without_hand_commands(command)
        granted = self._granted.get(source)
        if granted is not None and not objection and granted[0] == command.mode and granted[1] == command.name:
            self.servos.again(command.mode, granted[2], command.value)
        elif reason := objection or self._objection(source, command):
            count, _ = self._refused.get(source, (0, ""))
            self._refused[source] = count + 1, reason
            return reason
        else:
            self._grant(source, command, ((), None) if command.mode == "effort" else joints()[:2])
        if command.mode == "position" and source not in self._reported_cut:
            self._look_beyond(source, command)
        self.changed = True
        self.commands += 1
        self._accepted[source] = self._accepted.get(source, 0) + 1
        if self._watchdog_s is not None and source != HAND:
            watchdog = self._watchdogs.get(source)
            if watchdog is None:
                watchdog = self._watchdogs[source] = Watchdog(self._watchdog_s, now)
                self.commanded_at = min(self.commanded_at, now)
            watchdog.commanded_at = now
        return ""

    def command_by_hand(self, command: JointCommand, joints: Joints, now: float) -> list[str]:
        """Command actuators as a user: from now on, commands of nodes to these actuators have no effect.

        Returns the names of the actuators that the user did not command before. Raises ValueError with a one-line
        message if the servos refuse the command.
        """
        if reason := self.servos.objection(command.mode, command.name):
            raise ValueError(reason)
        added = [name for name in command.name if name not in self.by_hand]
        for name in added:
            if (owner := self._owners.get(name)) is not None:
                self._displaced[name] = owner
            self._owners[name] = HAND
        if added:
            self._granted.clear()
        self.by_hand.update(added)
        if reason := self.accept(HAND, command, joints, now):
            raise ValueError(reason)
        return added

    def give_back(self, joints: Joints) -> list[str]:
        """End all commands of the user, and return the names of the actuators that the user commanded.

        These actuators go to their safe mode until a node commands them. An actuator that a node commanded before
        belongs to this node again.
        """
        names = sorted(self.by_hand)
        if not names:
            return []
        self.by_hand.clear()
        self.servos.rest(names, joints()[0] if self._hold else None)
        for name in names:
            if (owner := self._displaced.pop(name, None)) is not None:
                self._owners[name] = owner
            else:
                del self._owners[name]
        self._granted.clear()
        self.changed = True
        return names

    def _without_hand_commands(self, command: JointCommand) -> JointCommand:
        """The command without the actuators that a user commands."""
        left = [(n, v) for n, v in zip(command.name, command.value, strict=True) if n not in self.by_hand]
        if len(left) == len(command.name):
            return command
        return JointCommand(mode=command.mode, name=[n for n, _ in left], value=[v for _, v in left])

    def _look_beyond(self, source: str, command: JointCommand) -> None:
        """If the command sets a position beyond a joint's limits, note this in `cut`, once per node."""
        line = self.servos.beyond(self._granted[source][2], command.name, command.value)
        if line:
            self._reported_cut.add(source)
            self.cut.append((source, f"{source!r} commands {line}"))

    def _grant(self, source: str, command: JointCommand, joint_motion: tuple[Any, Any]) -> None:
        known = self.servos.command(command.mode, command.name, command.value, *joint_motion)
        self._owners.update(dict.fromkeys(command.name, source))
        self._gone.discard(source)
        self.safe.difference_update(command.name)
        self._granted[source] = command.mode, command.name, known

    def _objection(self, source: str, command: JointCommand) -> str:
        if reason := self.servos.objection(command.mode, command.name):
            return reason
        for name in command.name if source != HAND else ():
            if (owner := self._owner_against(source, name)) is not None:
                has_all = self.commanded_by == owner or set(self._owners_against(source).values()) == {owner}
                return f"{source!r} commands, but {owner!r} has {'the actuators' if has_all else f'actuator {name!r}'}"
        return ""

    def _owners_against(self, source: str) -> dict[str, str | None]:
        """{actuator: result of `_owner_against`} of all actuators."""
        names = [actuator.name for actuator in self._simulation.system.mechanism.actuators]
        return {name: self._owner_against(source, name) for name in names}

    def _owner_against(self, source: str, name: str) -> str | None:
        """Node for which an actuator is reserved against commands of `source`; None if `source` may command it."""
        if (planned := self._planned.get(name)) is not None:
            return planned if planned != source else None
        owner = self._owners.get(name, source)
        return owner if owner != source and owner not in self._gone else None

    def free_actuators(self, source: str) -> list[str]:
        """Names of the actuators that a node outside of the plan may command now.

        Raises ValueError, which names a commanding node, if there are none.
        """
        owners = self._owners_against(source)
        free = [name for name, owner in owners.items() if owner is None]
        if owners and not free:
            name, owner = next(iter(owners.items()))
            has = "the actuators" if len(set(owners.values())) == 1 else f"actuator {name!r}"
            raise ValueError(f"{source!r} commands, but {owner!r} has {has}")
        return free

    def forget(self, source: str) -> None:
        """Release the actuators of a node that left, for other nodes to command."""
        self._gone.add(source)
        self._granted.clear()

    def watch(self, joints: Joints, now: float) -> list[str]:
        """Put actuators into their safe mode if the node that commands them has sent no command for too long.

        Returns the names of the nodes whose actuators entered their safe mode.
        """
        found: list[str] = []
        silent = [source for source, watchdog in self._watchdogs.items() if watchdog.trips(now)]
        for source in silent:
            del self._watchdogs[source]
            self.forget(source)
            if names := [name for name, owner in self._owners.items() if owner == source]:
                self.servos.rest(names, joints()[0] if self._hold else None)
                self.safe.update(names)
                self.trips += 1
                self.changed = True
                found.append(source)
        self.commanded_at = min((watchdog.commanded_at for watchdog in self._watchdogs.values()), default=math.inf)
        return found

    def make_safe(self, joints: Joints) -> None:
        """Put all actuators into their safe mode now. Each actuator stays assigned to the node that commands it."""
        names = [actuator.name for actuator in self._simulation.system.mechanism.actuators if actuator.joint]
        self.servos.rest(names, joints()[0] if self._hold else None)
        self.safe.update(self._owners.keys() & set(names))
        self._granted.clear()
        self._watchdogs.clear()
        self.commanded_at = math.inf
        self.changed = True

    def drive(self, joints: Joints) -> None:
        """Set the simulation's efforts for the next time step. Call this method once per time step."""
        if self.servos.busy and self._turn is not None:
            self._loads.count()
            self._turn()  # one kernel: read joints, advance servos, add loads
            self.changed = False
        elif self.changed or self.servos.busy:
            efforts = self.servos.efforts(*joints()) if self.servos.busy else self.servos.commanded()
            self._loads.change(efforts)
            self._simulation.drive(efforts)
            self.changed = False
        self._loads.steps += 1

    def discard_commands(self, effort: np.ndarray, servos: dict[str, Any] | None = None) -> None:
        """Discard commands, watchdogs and loads, after the simulation was reset or restored.

        effort  efforts of the actuators in the new state, N m or N
        servos  state of the servos from a snapshot; None: the servos begin from `effort`
        """
        if servos is None:
            self.servos.reset(effort)
        else:
            self.servos.from_plain(servos)
        self._watchdogs.clear()
        self.commanded_at = math.inf
        self.safe.clear()
        self._granted.clear()
        for name in self.by_hand:
            self._owners.pop(name, None)
        self._owners.update(self._displaced)
        self.by_hand.clear()
        self._displaced.clear()
        self._loads.clear(effort)
        self.joints.clear()

    def to_plain(self) -> dict[str, Any]:
        """Servos, commanding node of each actuator, watchdogs and counts as plain data, for a snapshot.

        The loads are not included.
        """
        return {
            "servos": self.servos.to_plain(),
            "owners": dict(self._owners),
            "by_hand": sorted(self.by_hand),
            "displaced": dict(self._displaced),
            "gone": sorted(self._gone),
            "safe": sorted(self.safe),
            "watchdogs": {source: watchdog.commanded_at for source, watchdog in self._watchdogs.items()},
            "trips": self.trips,
            "commands": self.commands,
            "taken": dict(self._accepted),
            "refused": {source: list(refused) for source, refused in self._refused.items()},
            "told_cut": sorted(self._reported_cut),
        }

    def from_plain(self, plain: Mapping[str, Any]) -> None:
        """Continue from a result of `to_plain`. Call `discard_commands` before this method."""
        self._owners, self._gone, self.safe = dict(plain["owners"]), set(plain["gone"]), set(plain["safe"])
        if self._watchdog_s is not None:
            limit = self._watchdog_s
            self._watchdogs = {source: Watchdog(limit, at) for source, at in plain["watchdogs"].items()}
        self.commanded_at = min((watchdog.commanded_at for watchdog in self._watchdogs.values()), default=math.inf)
        self.by_hand, self._displaced = set(plain.get("by_hand", ())), dict(plain.get("displaced", {}))
        self.trips, self.commands, self._accepted = plain["trips"], plain["commands"], dict(plain["taken"])
        self._refused = {source: (int(count), str(why)) for source, (count, why) in plain["refused"].items()}
        self._reported_cut = set(plain["told_cut"])

    def status(self) -> dict[str, Any]:
        """Status of the actuation as plain data: a table with the following keys.

        watchdog_trips          number of times that a watchdog tripped
        commanded_by            names of the nodes that command actuators, separated by commas; None without such nodes
        by_hand                 names of the actuators that a user commands in place of the nodes
        commands_taken          {node: number of its accepted commands}
        commands_refused        {node: number of its refused commands, and the latest reason}
        loads                   loads of the actuators, see `Loads.to_plain`
        beyond_limits           joints that moved beyond their limits, see `JointLimitMonitor.to_plain`
        beyond_velocity_limits  joints that were too fast, see `JointLimitMonitor.too_fast`
        """
        return {
            "watchdog_trips": self.trips,
            "commanded_by": self.commanded_by,
            "by_hand": sorted(self.by_hand),
            "commands_taken": dict(self._accepted),
            "commands_refused": {name: {"count": n, "reason": why} for name, (n, why) in self._refused.items()},
            "loads": self._loads.to_plain(),
            "beyond_limits": self.joints.to_plain(),
            "beyond_velocity_limits": self.joints.too_fast(),
        }


class Loads:
    """Peak and root mean square of each actuator's effort over the time steps since the last reset or restore.

    steps  number of time steps since the last reset or restore; the caller increments it
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self._actuators = mechanism.actuators
        n = len(self._actuators)
        self._effort, self._largest_square, self._squares = np.zeros((3, n))
        self._given, self._since = np.array([n, 0.0]), 0
        self._add = self.bind(self._effort)
        self.clear(self._effort)

    def clear(self, effort: np.ndarray) -> None:
        """Begin new statistics, and set the actuators' efforts to `effort`."""
        self._effort[:], self._largest_square[:], self._squares[:] = effort, 0.0, 0.0
        self.steps = self._added = 0

    def change(self, effort: np.ndarray) -> None:
        """Set the actuators' efforts from the next time step on."""
        self._add_steps()
        self._effort[:] = effort

    def bind(self, effort: np.ndarray) -> BoundKernel:
        """A kernel without arguments that does the same as `change(effort)`.

        The kernel uses the values that the array `effort` has when the kernel is called. Call `count` before each call
        of the kernel.
        """
        sums = [self._largest_square, self._squares, self._effort]
        return BoundKernel(add_loads.address, [self._given, effort], sums)

    def count(self) -> None:
        """Tell the kernel of `bind` how many time steps were taken since the efforts last changed."""
        since, self._added = self.steps - self._added, self.steps
        if since != self._since:
            self._given[1] = self._since = since

    def _add_steps(self) -> None:
        """Update the statistics by the time steps that were taken since the efforts last changed."""
        if self.steps > self._added:
            self.count()
            self._add()

    def to_plain(self) -> dict[str, dict[str, Any]]:
        """{actuator: table with the peak, rms, limit and unit of its effort}, for the actuators that drive joints.

        The limit is None for an actuator without an effort limit.
        """
        self._add_steps()
        rms = np.sqrt(self._squares / max(self.steps, 1))
        return {
            actuator.name: {
                "peak": float(peak),
                "rms": float(mean),
                "limit": actuator.effort_limit,
                "unit": actuator.unit,
            }
            for actuator, peak, mean in zip(self._actuators, np.sqrt(self._largest_square), rms, strict=True)
            if actuator.joint
        }

"""Simulated robot that differs from its model: other masses, friction, backlash and gains. No sockets, no real time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from nodes.framework.plan.launch_plan import SimPlan
from nodes.hil.alignment.streams import Floats
from nodes.hil.emulation.imperfections import dry_friction, take_up
from nodes.hil.identification.model import with_open_mass
from robots.registry import build
from sim_core.mechanism import Actuator, Body, Joint, Mechanism, Tunable
from sim_core.mechanism.quantities import value_of
from sim_core.servos.loops import Servos
from sim_core.simulation import Simulation
from sim_core.state import State
from sim_core.system import System, assemble

LOAD, LOAD_MASS = "payload", "payload/mass"
EVERY = "*"  # name for every body, joint or actuator that is not named explicitly


class PlantPerturbation(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Deviations of the robot from its model, by default none.

    The tables have names of bodies, joints or actuators as keys. The key "*" stands for all names not in the table.
    """

    parameters: dict[str, float | str] = {}  # parameters of the robot that replace those of the launch file
    mass: dict[str, float] = {}  # by body, relative deviation of mass and inertia: 0.05 is 5 % more
    gain: dict[str, float] = {}  # by actuator, relative deviation of its effort: 0.05 is 5 % more
    friction: dict[str, float] = {}  # by joint, additional viscous friction, N m s/rad or N s/m
    dry_friction: dict[str, float] = {}  # by joint, dry friction, N m or N
    backlash: dict[str, float] = {}  # by joint, backlash of its actuator's gear, rad or m
    take_up_rate: float = 1.0  # rate at which a drive crosses the backlash, rad/s or m/s
    payload_body: str = ""  # body that carries a load; "": none
    payload_mass: float = 0.0  # kg, a point
    payload_point: tuple[float, float, float] = (0.0, 0.0, 0.0)  # m: place of the load in the body's frame
    payload_from_s: float = 0.0  # s after the robot's start: time from which on it carries the load

    def __post_init__(self) -> None:
        for field in ("friction", "dry_friction", "backlash"):
            require_least(field, getattr(self, field), 0.0)
        for field in ("mass", "gain"):
            require_least(field, getattr(self, field), -1.0, exclusive=True)
        if not 0.0 < self.take_up_rate < float("inf"):
            raise ValueError(f"take_up_rate is {self.take_up_rate}; it must be a number above 0")
        for field in ("payload_mass", "payload_from_s"):
            if not 0.0 <= getattr(self, field) < float("inf"):
                raise ValueError(f"{field} is {getattr(self, field)}; it must be a number of at least 0")
        if not np.isfinite(self.payload_point).all():
            raise ValueError(f"payload_point is {self.payload_point}; it must be three finite numbers")


def require_least(field: str, values: Mapping[str, float], least: float, exclusive: bool = False) -> None:
    """Raise ValueError with a one-line message if one of `values` is not finite or is below `least`.

    field      name of the quantity, for the message
    values     {name of a body, joint or actuator: its value}
    exclusive  whether a value equal to `least` is refused, too
    """
    for name, value in values.items():
        if not np.isfinite(value) or value < least or (exclusive and value == least):
            raise ValueError(f"{field} of {name!r} is {value}; it must be a number {_least(least, exclusive)}")


def _least(least: float, exclusive: bool) -> str:
    if least == -np.inf:
        return "that is finite"
    return f"{'above' if exclusive else 'of at least'} {least:g}"


def spread(field: str, values: Mapping[str, float], names: Sequence[str], kind: str, default: float = 0.0) -> Floats:
    """Array (n,) of the values of `names`, taken from the table `values`.

    A name that is not in the table gets the value of "*", or `default` if the table has no "*". Raises ValueError with
    a one-line message for a name in the table that is not in `names`.

    field  name of the quantity, for the message
    kind   "body", "joint" or "actuator", for the message
    """
    for name in values:
        if name != EVERY and name not in names:
            raise ValueError(f"{field}: there is no {kind} {name!r}; choose from {', '.join(names)}")
    return np.array([values.get(name, values.get(EVERY, default)) for name in names], dtype=float)


def mechanism_of(sim: SimPlan, differences: PlantPerturbation) -> Mechanism:
    """Mechanism of a robot that differs from the model in `sim` by `differences`.

    Masses and frictions of the robot are tunables, so that robots with different masses and frictions share compiled
    kernels. After the model's actuators, the mechanism has one more actuator for each joint with dry friction, which
    applies this friction. Raises ValueError with a one-line message for unknown names and impossible values.
    """
    mechanism = build(sim.robot, **{**sim.parameters, **differences.parameters})
    bodies = [body.name for body in mechanism.bodies]
    joints = [joint.name for joint in mechanism.moving_joints]
    heavier = dict(zip(bodies, spread("mass", differences.mass, bodies, "body"), strict=True))
    braked = dict(zip(joints, spread("friction", differences.friction, joints, "joint"), strict=True))
    rubbing = np.flatnonzero(spread("dry_friction", differences.dry_friction, joints, "joint"))
    if len(rubbing) and (not mechanism.has_joint_coordinates or not mechanism.has_single_coordinates):
        raise ValueError(
            f"dry_friction requires joint coordinates with one coordinate per joint, which robot {sim.robot!r} does "
            'not have; remove dry_friction or try the robot parameters { coordinates = "joint" }'
        )
    different = dataclasses.replace(
        mechanism,
        bodies=tuple(
            with_open_mass(body, 1.0 + heavier[body.name]) if heavier[body.name] else body for body in mechanism.bodies
        ),
        joints=tuple(
            dataclasses.replace(joint, damping=Tunable(f"{joint.name}/friction", value_of(joint.damping) + more))
            if (more := braked.get(joint.name, 0.0))
            else joint
            for joint in mechanism.joints
        ),
        actuators=(
            *(dataclasses.replace(actuator, effort_limit=None) for actuator in mechanism.actuators),
            *(Actuator(name=f"{joints[index]}/dry_friction", joint=joints[index]) for index in rubbing),
        ),
    )
    return with_load(different, differences) if differences.payload_body else different


def with_load(mechanism: Mechanism, differences: PlantPerturbation) -> Mechanism:
    """A copy with a body `LOAD` of the tunable mass LOAD_MASS, at first 0, at the point of the load."""
    body = differences.payload_body
    if body not in (names := [each.name for each in mechanism.bodies]):
        raise ValueError(f"payload_body: there is no body {body!r}; choose from {', '.join(names)}")
    if not mechanism.has_joint_coordinates:
        raise ValueError(f"payload_body requires joint coordinates, which robot {mechanism.name!r} does not have")
    load = Body(name=LOAD, mass=Tunable(LOAD_MASS, 0.0, least=0.0, unit="kg"), inertia=(0.0,) * 6)
    joint = Joint(name=LOAD, kind="fixed", parent=body, child=LOAD, parent_point=differences.payload_point)
    return dataclasses.replace(mechanism, bodies=(*mechanism.bodies, load), joints=(*mechanism.joints, joint))


class Plant:
    """The perturbed robot and its actuators, simulated in the time steps of the model: commands are the input, joint
    states the output.

    names   names of the n joints
    step_s  the model's time step (s)
    gain    (n_actuators,) actual effort per commanded effort; 1 for on/off actuators, which drive no joint
    effort  (n,) efforts along the joints in the last time step, as the actuators' own sensors report them
    """

    def __init__(self, sim: SimPlan, differences: PlantPerturbation) -> None:
        mechanism = mechanism_of(sim, differences)
        model = build(sim.robot, **{**sim.parameters, **differences.parameters})
        self.step_s = sim.step_s
        self.system = assemble(mechanism)
        self.simulation = Simulation(
            self.system, step_s=sim.step_s, stepper=sim.make_stepper(), stabilizer=sim.make_stabilizer()
        )
        self.simulation.warm_up()
        self.names = list(self.system.joint_names)
        self.servos = Servos(model, sim.step_s)
        actuators = [actuator.name for actuator in model.actuators]
        joints = [self.names.index(actuator.joint) if actuator.joint else -1 for actuator in model.actuators]
        self._joint, self._drives = (
            np.array(joints, dtype=int),
            np.array(joints, dtype=int) >= 0,
        )  # a switch drives no joint
        self.gain = 1.0 + spread("gain", differences.gain, actuators, "actuator") * self._drives
        self._shown = np.array([1.0 / actuator.gain for actuator in model.actuators])
        self._limit = spread("dry_friction", differences.dry_friction, self.names, "joint")
        self._rubbing = np.flatnonzero(self._limit)
        self._play = spread("backlash", differences.backlash, self.names, "joint")[self._joint] * self._drives
        self._rate = differences.take_up_rate
        self._dynamics = _Dynamics(self.system)
        self._load = differences.payload_mass if differences.payload_body else 0.0
        self._load_from = round(differences.payload_from_s / sim.step_s)  # time steps
        self.reset()

    def reset(self) -> None:
        """Return to the start state, with all actuators at rest."""
        self.simulation.reset()
        if self._load:
            self.simulation.set_parameters({LOAD_MASS: 0.0})
        self.servos.reset()
        self._joints = self.simulation.joints()
        self._commanded = np.zeros(len(self._joint))
        self._place = np.zeros(len(self._joint))

    def snapshot(self) -> dict[str, Any]:
        """State of the robot and its actuators, for `restore`."""
        return {
            "simulation": self.simulation.snapshot(),
            "servos": self.servos.to_plain(),
            "told": self._commanded,
            "place": self._place,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        self.simulation.restore(state["simulation"])
        self.servos.from_plain(state["servos"])
        self._commanded, self._place = state["told"], state["place"]
        self._joints = self.simulation.joints()

    @property
    def tick(self) -> int:
        """Number of time steps since the start."""
        return self.simulation.tick

    @property
    def position(self) -> Floats:
        """Positions of the joints (n,) in rad or m."""
        return self._joints[0]

    @property
    def velocity(self) -> Floats:
        """Velocities of the joints (n,) in rad/s or m/s."""
        return self._joints[1]

    @property
    def effort(self) -> Floats:
        """Efforts (n,) along the joints (N m or N) in the last time step, as the actuators' own sensors report them."""
        effort = np.zeros(len(self.names))
        np.add.at(effort, self._joint[self._drives], (self._shown * self._commanded)[self._drives])
        return effort

    def command(self, mode: str, names: Sequence[str], values: Sequence[float]) -> str:
        """Accept a command that acts from the next time step on.

        Returns "" if the command was accepted, otherwise one line that says why it was rejected.
        """
        if reason := self.servos.objection(mode, names):
            return reason
        self.servos.command(mode, names, values, self.position, self.velocity)
        return ""

    def step(self) -> None:
        """Advance by one time step."""
        if self._load and self.tick == self._load_from:
            self.simulation.set_parameters({LOAD_MASS: self._load})
        position, velocity, _ = self._joints
        self._commanded = self.servos.efforts(position, velocity)
        effort = self.gain * self._commanded
        if self._play.any():
            self._place, effort = take_up(self._place, effort, self._rate, self._play, self.step_s)
        if len(self._rubbing):
            effort = np.concatenate([effort, self._dry_friction(velocity, effort)])
        if len(effort):
            self.simulation.set_effort(effort)
        self.simulation.step()
        self._joints = self.simulation.joints()

    def _dry_friction(self, velocity: Floats, effort: Floats) -> Floats:
        """Dry-friction efforts of the joints that have dry friction."""
        rubbing, state = self._rubbing, self.simulation.snapshot()
        dynamics = self._dynamics
        dynamics.at(self.simulation.time, state, np.concatenate([effort, np.zeros(len(rubbing))]))
        free = dynamics.accelerations()[rubbing]
        per_effort = dynamics.per_effort(range(len(effort), len(effort) + len(rubbing)))[np.ix_(rubbing, rubbing)]
        return dry_friction(velocity[rubbing], free, per_effort, self._limit[rubbing], self.step_s)


class _Dynamics:
    """Computes the accelerations of all joints (n,) from a state and the efforts of the actuators."""

    def __init__(self, system: System) -> None:
        n, rows = system.n_q, system.max_rows
        self._t, self._q, self._v, self._u = np.zeros(1), np.zeros(n), np.zeros(n), np.zeros(system.n_u)
        self._p, self._U = system.default_parameters(), np.zeros(rows)
        self._a, self._M, self._rows = np.zeros(n), np.zeros((n, n), order="F"), rows
        state = [self._t, self._q, self._v, self._u, self._p]
        out = [self._a, np.zeros(rows), np.zeros(system.max_factor)]
        self._accelerate = system.bind("acceleration", [*state, self._U], out)
        J = np.zeros((rows, n), order="F")
        self._weigh = system.bind("terms", state, [self._M, np.zeros(n), J, np.zeros(rows)])
        driven = enumerate(system.mechanism.actuators)
        self._joints = {k: system.joint_names.index(actuator.joint) for k, actuator in driven if actuator.joint}

    def at(self, t: float, state: State, u: Floats) -> None:
        """Set the time t (s), the state, and the efforts (n_u,) of the actuators."""
        self._t[0] = t
        self._q[:], self._v[:], self._u[:] = state.q, state.v, u
        self._p[:], self._U[:] = state.p, state.U

    def accelerations(self) -> Floats:
        """Accelerations (n,) of all joints (rad/s^2 or m/s^2) at the state and efforts set by `at`."""
        self._accelerate()
        return self._a.copy()

    def per_effort(self, actuators: Iterable[int]) -> Floats:
        """Matrix (n, n) of accelerations: entry (i, j) is the acceleration of joint i per unit effort on joint j.

        Only the columns of joints driven by one of `actuators` are valid.
        """
        if not self._rows:
            self._weigh()
            return np.asarray(np.linalg.inv(self._M))
        free, found = self.accelerations(), np.zeros((len(self._a), len(self._a)))
        for actuator in actuators:
            self._u[actuator] += 1.0
            found[:, self._joints[actuator]] = self.accelerations() - free
            self._u[actuator] -= 1.0
        return found

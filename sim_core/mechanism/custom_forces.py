"""User-defined forces: laws written as CasADi expressions, with parameters and first-order states."""

from __future__ import annotations

import hashlib
import math
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sim_core.errors import InvalidMechanism, InvalidRequest, UnknownKey
from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import Number, Vector3


@dataclass(frozen=True, kw_only=True)
class ForcePoint(Frozen):
    """A body-fixed point that a custom force reads or acts on."""

    name: str
    body: str
    point: Vector3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class CustomForce(Frozen):
    """A user-defined force: a law that computes efforts and forces from time, motion, inputs, parameters and states.

    law         function that takes a LawInputs and returns {name: CasADi expression}. Under the name of a joint, the
                expression is the effort on the joint, N m or N; under the name of one of `points`, the world force (3,)
                on the point, N; under the name of one of `states`, the rate dz/dt of the state
    parameters  {name: number}; a Tunable can be set during a run
    points      body-fixed points whose position and velocity the law reads, or on which its forces act
    states      {name: value at the start} of the law's first-order states; in the mechanism, each is a coordinate with
                the name FORCE.STATE
    The energy balance of a simulation counts the power of the force as work of applied forces; the force stores no
    energy.
    """

    name: str
    law: Callable[[Any], Mapping[str, Any]]
    parameters: tuple[tuple[str, Number], ...] = ()
    points: tuple[ForcePoint, ...] = ()
    states: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        for name in ("parameters", "states"):
            if isinstance(value := getattr(self, name), dict):
                object.__setattr__(self, name, tuple(value.items()))
        super().__post_init__()


class Named(Mapping[str, Any]):
    """Read-only mapping {name: expression}. An unknown name raises UnknownKey, which suggests a similar name."""

    def __init__(self, owner: str, kind: str, values: Mapping[str, Any]) -> None:
        self._owner, self._kind, self._values = owner, kind, values

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise UnknownKey(self._owner, self._kind, name, self._values)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True)
class LawInputs:
    """Inputs of a custom force's law: the time t, s, and mappings {name: CasADi expression}.

    position        joint positions, rad or m
    velocity        joint velocities, rad/s or m/s
    input           commands of the actuators
    parameter       parameters of the force
    state           first-order states of the force
    point           world positions (3,) of the force's points, m
    point_velocity  world velocities (3,) of the force's points, m/s
    """

    t: Any
    position: Mapping[str, Any]
    velocity: Mapping[str, Any]
    input: Mapping[str, Any]
    parameter: Mapping[str, Any]
    state: Mapping[str, Any]
    point: Mapping[str, Any] = field(default_factory=dict)
    point_velocity: Mapping[str, Any] = field(default_factory=dict)


def results_of(force: CustomForce, inputs: LawInputs, owner: str, joints: Collection[str]) -> dict[str, Any]:
    """{name: expression} that a force's law returns for `inputs`.

    Raises InvalidMechanism with a one-line message for an error in the law, an unknown name, a wrong size, an
    expression that is not a number, or a state without a rate.
    owner   label of the mechanism, which begins the error message
    joints  names of the joints on which the law may exert an effort
    """
    import casadi as ca  # only derivations need it

    where = f"{owner}: force {force.name!r}"
    try:
        found = force.law(inputs)
    except InvalidRequest:  # an unknown name, which is explained already
        raise
    except Exception as error:
        raise InvalidMechanism(f"{where}: {explained(error, 'law')}") from error
    if not isinstance(found, Mapping):
        raise InvalidMechanism(f"{where}: the law returned a {type(found).__name__}; it must return a dict")
    points, states = [point.name for point in force.points], [name for name, _ in force.states]
    results = {}
    for name, value in found.items():
        if not any(name in known for known in (joints, points, states)):
            raise UnknownKey(where, "joint, point or state entry", name, [*joints, *points, *states])
        size = 3 if name in points else 1
        try:
            results[name] = ca.SX(value)
        except NotImplementedError:  # of CasADi, for a value that is no expression
            raise InvalidMechanism(
                f"{where}: the law returned a {type(value).__name__} for {name}; it must return a CasADi expression"
            ) from None
        if results[name].numel() != size:
            raise InvalidMechanism(
                f"{where}: the law returned {results[name].numel()} entries for {name}; it must return {size}"
            )
        if has_nan(results[name]):
            raise InvalidMechanism(
                f"{where}: the expression that the law returned for {name} contains NaN, which the functions of "
                "Python's module math return for an expression; use those of CasADi, such as casadi.sin"
            )
    if missing := [name for name in states if name not in results]:
        raise InvalidMechanism(f"{where}: the law returned no rate for the state {missing[0]!r}; return a rate")
    return results


def explained(error: Exception, what: str) -> str:
    """One line about an error in a user's function, with the line of its file.

    what  noun for the function, such as "law"
    """
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first one is that of the call
    lines = [frame for frame in frames if frame.filename == frames[0].filename]
    at = f" in {lines[-1].filename}, line {lines[-1].lineno}" if lines else ""
    if "truth value" in str(error):
        remedy = "write casadi.if_else(CONDITION, A, B) instead of if, and, or, not"
        return f"the {what} decides by an expression{at}; {remedy}"
    return f"the {what} fails{at}: {type(error).__name__}: {' '.join(str(error).split())}"


def has_nan(value: Any) -> bool:
    """Whether a CasADi expression contains the constant NaN."""
    import casadi as ca  # only derivations need it

    function = ca.Function("law", ca.symvar(value), [ca.densify(value)])
    return any(
        math.isnan(function.instruction_constant(k))
        for k in range(function.n_instructions())
        if function.instruction_id(k) == ca.OP_CONST
    )


class Symbols(Mapping[str, Any]):
    """Mapping {name: CasADi symbol} that makes a symbol when it is read.

    places  {name: index of the symbol in the mapping}
    made    {index among all inputs of the law: symbol} of the symbols made so far
    size    number of entries of each symbol
    first   index of the mapping's first symbol among all inputs of the law
    """

    def __init__(self, places: Mapping[str, int], made: dict[int, Any], size: int, first: int) -> None:
        self._places, self._made, self._size, self._first = places, made, size, first

    def __getitem__(self, name: str) -> Any:
        import casadi as ca  # only derivations need it

        place = self._first + self._places[name]
        if place not in self._made:
            self._made[place] = ca.SX.sym(name, self._size)
        return self._made[place]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def law_key(force: CustomForce, where: str, joints: Mapping[str, int], actuators: Mapping[str, int]) -> str:
    """Hash that identifies the law of a force: equal for laws that return the same expressions of their inputs.

    where              label of the mechanism, which begins the error message
    joints, actuators  {name: index} of the joints and actuators that the law may read
    Raises InvalidMechanism if the law fails, or depends on anything but its inputs.
    """
    import casadi as ca  # only derivations need it

    owner = f"{where}: force {force.name!r}"
    parameters, states, points = (
        {name: index for index, name in enumerate(names)}
        for names in (dict(force.parameters), dict(force.states), [point.name for point in force.points])
    )
    symbols, first, named = {0: ca.SX.sym("t")}, 1, list[Named]()
    for kind, places, size in (
        ("joint", joints, 1),
        ("joint", joints, 1),
        ("actuator", actuators, 1),
        ("parameter", parameters, 1),
        ("state", states, 1),
        ("point", points, 3),
        ("point", points, 3),
    ):
        named.append(Named(owner, kind, Symbols(places, symbols, size, first)))
        first += len(places)
    results = results_of(force, LawInputs(symbols[0], *named), where, joints)
    for name, value in results.items():
        probe = ca.Function("probe", [*symbols.values()], [value], {"allow_free": True})
        if free := probe.get_free():
            raise InvalidMechanism(
                f"{owner}: {name} depends on {free[0]!r}, which is none of the law's inputs; use only the inputs"
            )
    return expression_key(dict(sorted(symbols.items())), results)


def motion_key(motion: Callable[[Any], Any]) -> str:
    """Hash that identifies a prescribed motion: equal for functions that return the same expression of the time t."""
    import casadi as ca  # only derivations need it

    t = ca.SX.sym("t")
    return expression_key({0: t}, {"motion": ca.SX(motion(t))})


def expression_key(symbols: Mapping[int, Any], results: Mapping[str, Any]) -> str:
    """Hash of the CasADi expressions in `results`, as functions of `symbols`.

    The same operations give the same hash in every process.
    symbols  {index among all inputs: symbol} of the inputs on which the expressions may depend
    """
    import casadi as ca  # only derivations need it

    function = ca.Function("law", [*symbols.values()], [ca.densify(value) for value in results.values()])
    places = [*symbols]

    def read(k: int) -> list[int]:
        found: list[int] = function.instruction_input(k)
        return [places[found[0]], *found[1:]] if function.instruction_id(k) == ca.OP_INPUT else found

    steps = [
        (
            function.instruction_id(k),
            read(k),
            function.instruction_output(k),
            float(function.instruction_constant(k)).hex() if function.instruction_id(k) == ca.OP_CONST else "",
        )
        for k in range(function.n_instructions())
    ]
    return hashlib.sha256(repr((list(results), steps)).encode()).hexdigest()

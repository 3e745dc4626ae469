"""Descriptions that are wrong in one way, drawn from the vocabulary: refused, warned of, or simulated right.

Each valid mechanism is walked by the annotations of its dataclasses. One field is broken at a time, and what comes out
is assembled, simulated, launched in one process and shown on the command line.
"""

from __future__ import annotations

import dataclasses
import math
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.cli.application import run
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import PlanError
from nodes.framework.simulation.compose import Composition
from nodes.framework.simulation.description import describe
from robots import registry
from sim_core.errors import InvalidRequest, SimulationDiverged, SimulationWarning
from sim_core.mechanism import (
    ORIGIN,
    Actuator,
    Anchored,
    Body,
    CapturedParameter,
    Coincidence,
    ConstraintMode,
    Distance,
    ForceArrow,
    Joint,
    JointOutput,
    Mechanism,
    Perpendicular,
    PointOutput,
    Rolling,
    Servo,
    Shape,
    Slider,
    SlipOutput,
    SpinRelation,
    Spring,
    Touching,
    Tunable,
    Vector3,
    X,
    Y,
    Z,
)
from sim_core.mechanism.beams import Beam, ContactForceOutput, DeflectionOutput
from sim_core.mechanism.constraints import BeamContact
from sim_core.mechanism.guards import Aim, Beyond, Commanded, Crossing, Guard, Pushed, Sinking, Window
from sim_core.mechanism.outputs import ForceOutput, HoldingOutput, VelocityOutput
from sim_core.simulation import Simulation
from sim_core.system import assemble

BALL = (0.02, 0.02, 0.02, 0.0, 0.0, 0.0)
STEP_S, STEPS = 1e-3, 10


# -- valid mechanisms -------------------------------------------------------------------------------------------------


def swinger() -> Mechanism:
    """A cart on a rail with a pole that can grip a wall: joint coordinates, guards of every kind."""
    box = Shape(kind="box", size=(0.2, 0.1, 0.1), position=(0.0, 0.0, 0.1), color="#808080")
    return Mechanism(
        name="swinger",
        coordinates="joint",
        bodies=(
            Body(name="cart", mass=1.0, inertia=BALL, shapes=(box, Shape(kind="sphere", size=(0.1,)))),
            Body(
                name="pole",
                mass=Tunable("pole_mass", 0.3, 0.1, 1.0, unit="kg"),
                inertia=(0.03, 0.04, 0.02, 0.001, 0.0, 0.0),
                center_of_mass=(0.1, 0.02, -0.3),
                shapes=(Shape(kind="line", points=(0.0, 0.0, 0.0, 0.0, 0.0, -0.6)),),
            ),
            Body(name="tool", mass=0.1, inertia=BALL),
        ),
        joints=(
            Joint(name="rail", kind="prismatic", child="cart", axis=X, damping=0.2, lower=-2.0, upper=2.0),
            Joint(name="hinge", parent="cart", child="pole", axis=Y, load=0.3, damping=Tunable("drag", 0.1)),
            Joint(name="flange", kind="fixed", parent="pole", child="tool", parent_point=(0.0, 0.1, -0.6)),
        ),
        constraints=(
            Anchored(name="grip", body="tool", point=(0.05, 0.0, 0.0), axis=X, at=CapturedParameter("grip_x", 0.4)),
            Anchored(name="hold", body="tool", point=(0.05, 0.0, 0.0), axis=Z, at=CapturedParameter("grip_z", -0.5)),
        ),
        springs=(
            Spring(
                name="coil",
                body_a="ground",
                point_a=(0.0, 0.0, 0.5),
                body_b="pole",
                point_b=(0.0, 0.0, -0.3),
                stiffness=5.0,
                rest_length=0.2,
                damping=0.1,
                pretension=0.5,
            ),
        ),
        actuators=(
            Actuator(
                name="motor",
                joint="rail",
                start=0.5,
                effort_limit=5.0,
                unit="N",
                velocity_limit=2.0,
                servo=Servo(stiffness=40.0, damping=4.0),
            ),
            Actuator(name="switch", start=0.0),
        ),
        outputs=(
            PointOutput(name="tip", body="pole", point=(0.0, 0.0, -0.6)),
            VelocityOutput(name="speed", body="tool", axes="xz"),
            JointOutput(name="angle", joint="hinge"),
            ForceOutput(name="force", constraints=("grip", "hold")),
            HoldingOutput(name="holding", constraint="grip"),
        ),
        constraint_modes=(ConstraintMode(name="free", constraints=()), ConstraintMode(name="held")),
        start="free",
        guards=(
            Crossing(name="wall", source="free", target="free", body="tool", axis=X, level=1.5, direction=1),
            Guard(
                name="take",
                source="free",
                target="held",
                conditions=(
                    Commanded(actuator="switch", above=0.5),
                    Window(aims=(Aim(constraint="grip", at=0.3, spacing=0.1, count=2),), gap=0.1, speed=1.0),
                    Beyond(body="tool", axis=X, level=-3.0),
                    Sinking(constraint="hold"),
                ),
                captures=("grip", "hold"),
                impact="inelastic",
            ),
            Guard(
                name="leave",
                source="held",
                target="free",
                conditions=(Commanded(actuator="switch", upto=0.5), Pushed(constraints=("hold",), axis=Z, force=-1e3)),
            ),
        ),
        initial_q=(0.1, 0.4),
        initial_v=(0.3, -0.2),
        parameters={"reach": 0.6},
        ground=(Shape(kind="cylinder", size=(0.01, 4.0)),),
        arrows=(ForceArrow(name="pull", body="tool", outputs=("force_x", "force_z"), axes=(X, Z)),),
    )


def four_bar() -> Mechanism:
    """A parallelogram with a spring, in absolute planar coordinates; a slide and a gear beside it."""
    plain = registry.build("parallelogram_four_bar")
    wheel = Body(
        name="wheel", mass=1.0, inertia=(0.1, 0.1, 0.2, 0.0, 0.0, 0.0), free=("theta",), placement=(3.0, 0.0, 0.0)
    )
    block = Body(name="block", mass=1.0, inertia=(0.1, 0.1, 0.2, 0.0, 0.0, 0.0))
    return dataclasses.replace(
        plain,
        name="four_bar",
        bodies=(*plain.bodies, wheel, block),
        joints=(*plain.joints, Joint(name="slide", kind="prismatic", child="block", axis=X, damping=0.3, load=0.2)),
        springs=(
            Spring(
                name="coil",
                body_a="rocker",
                point_a=ORIGIN,
                body_b="ground",
                point_b=(2.0, 1.0, 0.0),
                stiffness=Tunable("stiffness", 20.0, 0.0, 100.0),
                rest_length=0.3,
            ),
        ),
        constraints=(SpinRelation(name="mesh", terms=(("crank", Z, 2.0), ("wheel", Z, 1.0))),),
        actuators=(Actuator(name="motor", joint="crank", effort_limit=3.0, start=1.0),),
        outputs=(*plain.outputs, JointOutput(name="turn", joint="crank")),
        initial_q=(*plain.initial_q, 0.0, -1.0, 0.0, 0.0),
        initial_v=(*plain.initial_v, -12.0, 0.3, 0.0, 0.0),
    )


def hung() -> Mechanism:
    """Two spatial bodies, one in ZXZ angles, one in Euler parameters, on explicit constraints."""
    return Mechanism(
        name="hung",
        coordinates="absolute",
        bodies=(
            Body(name="top", mass=1.0, inertia=(0.02, 0.03, 0.04, 0.001, 0.0, 0.002), orientation="zxz"),
            Body(
                name="bob",
                mass=Tunable("bob_mass", 0.5, 0.1, 2.0),
                inertia=BALL,
                orientation="euler_parameters",
                center_of_mass=(0.01, 0.0, -0.05),
            ),
        ),
        joints=(Joint(name="hook", child="top", child_point=(0.0, 0.3, 0.0), axis=X),),
        constraints=(
            Distance(name="rod", body_a="top", point_a=(0.0, -0.3, 0.0), body_b="bob", point_b=ORIGIN, length=0.5),
            Slider(name="rail", body_a="ground", point_a=ORIGIN, axis_a=X, body_b="bob", point_b=ORIGIN),
            Perpendicular(name="level", body_a="bob", axis_a=X, body_b="ground", axis_b=Y),
            Coincidence(
                name="line",
                body_a="bob",
                point_a=ORIGIN,
                body_b="ground",
                point_b=(0.0, 0.0, 0.0),
                directions=(Y,),
            ),
        ),
        formulation="augmented",
        outputs=(PointOutput(name="bob", body="bob"),),
        initial_q=(0.0, 0.0, -0.3, 0.0, math.pi / 2, 0.0, 0.0, 0.0, -1.1, 1.0, 0.0, 0.0, 0.0),
        initial_v=(0.0,) * 13,
    )


def strung() -> Mechanism:
    """A mass that slides along a beam."""
    return Mechanism(
        name="strung",
        coordinates="joint",
        bodies=(Body(name="trolley", mass=0.1, inertia=BALL), Body(name="hook", mass=0.5, inertia=BALL)),
        joints=(
            Joint(name="slide", kind="prismatic", child="trolley", axis=X),
            Joint(name="drop", kind="prismatic", parent="trolley", child="hook", axis=(0.0, 0.0, -1.0)),
        ),
        constraints=(BeamContact(name="contact", beam="beam", body="hook", dependent="drop", width=0.1),),
        beams=(
            Beam(
                name="beam",
                length=2.0,
                elements=6,
                mass_per_length=0.5,
                bending_stiffness=30.0,
                tension=Tunable("tension", 100.0, 10.0, 1e3),
                supports="simple",
                modes=2,
                mass_damping=0.1,
                damping_ratio=0.01,
            ),
        ),
        outputs=(
            DeflectionOutput(name="middle", beam="beam", x=1.0),
            ContactForceOutput(name="press", contact="contact"),
        ),
        formulation="schur",
        initial_q=(0.7, 0.0, 0.0, 0.0),
        initial_v=(0.2, 0.0, 0.0, 0.0),
    )


def rolled() -> Mechanism:
    """A ball that slides and rolls on the floor, and a cart with a blade and a wheel with rollers."""
    at: dict[str, Any] = {"body": "ball", "radius": 0.1}
    return Mechanism(
        name="rolled",
        coordinates="joint",
        bodies=(
            Body(name="ball", mass=2.0, inertia=(0.008, 0.008, 0.008, 0.0, 0.0, 0.0)),
            Body(name="cart", mass=4.0, inertia=(0.2, 0.2, 0.3, 0.0, 0.0, 0.0)),
            Body(name="wheel", mass=1.0, inertia=(0.01, 0.02, 0.01, 0.0, 0.0, 0.0)),
        ),
        joints=(
            Joint(name="free", kind="free", child="ball"),
            Joint(name="base", kind="planar", child="cart"),
            Joint(name="axle", parent="cart", child="wheel", parent_point=(0.2, 0.0, 0.1), axis=Y, load=0.3),
        ),
        constraints=(
            Touching(name="floor", **at),
            Rolling(name="grip", friction=0.2, **at),
            Rolling(name="rim", body="wheel", axis=Y, radius=0.1, rollers=math.pi / 4, friction=0.4, load=50.0),
            Rolling(name="blade", body="cart", axis=Y, rollers=math.pi / 2, other_point=(1.0, 0.0, 0.0)),
        ),
        outputs=(
            SlipOutput(name="slip", constraint="grip"),
            ContactForceOutput(name="load", contact="floor"),
            HoldingOutput(name="rolls", constraint="rim"),
        ),
        initial_q=(0.0, 2.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        initial_v=(3.0, 0.5, 0.0, 0.1, 0.2, 0.3, 0.5, 0.0, 0.0, 5.0),
    )


CASES: dict[str, Callable[[], Mechanism]] = {
    "swinger": swinger,
    "four_bar": four_bar,
    "hung": hung,
    "strung": strung,
    "rolled": rolled,
    "rotary_pendulum": lambda: registry.build("rotary_pendulum", coordinates="joint"),
    "triple_pendulum": lambda: registry.build("triple_pendulum", links=2),
}


# -- what can be wrong with a field -----------------------------------------------------------------------------------

LIMITS = {"effort_limit", "velocity_limit", "lower", "upper", "least", "most"}  # may be as large as wished
AXES = {"axis", "axis_a", "axis_b", "direction"}
FREE_TEXT = {"unit", "color", "kind", "part", "name", "start", "dependent", "joint"}  # may be any text somewhere
# What acts on nothing at the start, or on the motion only in other states, or is for people.
WITHOUT_EFFECT = {
    *("Body.free", "Body.orientation", "Body.placement", "Body.center_of_mass", "Body.inertia", "Body.shapes"),
    *("Shape.color", "Shape.points", "Tunable.unit", "Tunable.name", "Captured.name", "Captured.value"),
    *("Mechanism.reference_q", "Mechanism.formulation", "Mechanism.start", "Mechanism.name", "Mechanism.open_start"),
    *("Joint.name", "Joint.rotation", "Joint.axis", "Crossing.direction", "Crossing.impact", "Crossing.source"),
    *("Crossing.target", "Crossing.kind", "Crossing.part", "Crossing.captures", "Crossing.name", "Configuration.name"),
    *("Guard.name", "Guard.source", "Guard.target", "Guard.kind", "Guard.part", "Guard.impact", "Guard.captures"),
    *("Guard.conditions", "Aim.at", "Aim.count", "Aim.spacing", "Window.aims", "Window.gap", "Window.speed"),
    *("Window.margin", "Commanded.above", "Commanded.upto", "Pushed.force", "Pushed.axis", "Pushed.constraints"),
    *("Beyond.level", "Beyond.axis", "Beyond.body", "Beyond.point", "Sinking.constraint", "Configuration.constraints"),
    *("Coincidence.name", "Perpendicular.name", "Slider.name", "Distance.name", "Anchored.name", "SpinRelation.name"),
    *("Anchored.axis", "Anchored.point", "Anchored.body", "Spring.name", "Beam.name", "BeamContact.name"),
    *("BeamContact.dependent", "BeamContact.offset", "BeamContact.width", "Beam.supports", "Beam.elements"),
    *("Joint.parent_point", "Joint.child_point", "Coincidence.point_a", "Coincidence.point_b", "Slider.point_a"),
    *("Slider.point_b", "Perpendicular.axis_a", "Perpendicular.axis_b", "Slider.axis_a", "Coincidence.directions"),
    *("Actuator.start", "Body.name", "Beam.stiffness_damping", "Aim.constraint", "Mechanism.constraint_modes"),
    *("Rolling.name", "Rolling.normal", "Rolling.other_point", "Touching.name", "Touching.other_point"),
    *("Mechanism.guards", "Joint.kind", "PointOutput.point", "VelocityOutput.point", "HoldingOutput.constraint"),
}


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of an item somewhere in a description."""

    path: tuple[str | int, ...]
    owner: str
    field: str
    hint: Any
    value: Any
    siblings: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Wrong:
    """A broken field. `surely`: it cannot be meant, whatever else the description holds."""

    case: str
    field_of: Field
    label: str
    value: Any
    surely: bool

    def __repr__(self) -> str:
        return f"{self.case}: {'.'.join(map(str, self.field_of.path))} {self.label}: {self.value!r:.80}"

    def mechanism(self) -> Mechanism:
        """The description with this field."""
        return _replaced(CASES[self.case](), self.field_of.path, self.value)


def _replaced(item: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return tuple(_replaced(each, rest, value) if k == step else each for k, each in enumerate(item))
    return dataclasses.replace(item, **{step: _replaced(getattr(item, step), rest, value)})


def _sites(item: Any, path: tuple[str | int, ...] = (), siblings: tuple[str, ...] = ()) -> Iterator[Field]:
    hints = get_type_hints(type(item))
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        here = (*path, field.name)
        yield Field(here, type(item).__name__, field.name, hints[field.name], value, siblings)
        if dataclasses.is_dataclass(value):
            yield from _sites(value, here)
        elif isinstance(value, tuple):
            for index, each in enumerate(value):
                if dataclasses.is_dataclass(each):
                    names = tuple(getattr(other, "name", "") for other in value if other is not each)
                    yield from _sites(each, (*here, index), tuple(name for name in names if name))


def _breaks(field_of: Field) -> Iterator[tuple[str, Any, bool]]:
    """(what is wrong, the value, whether it surely is)."""
    hint, value, name = field_of.hint, field_of.value, field_of.field
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    optional = types.NoneType in kinds
    kind = next(one for one in kinds if one is not types.NoneType)
    yield "an object", object(), True
    if not optional and name != "reference_q":
        yield "None", None, True
    if float in kinds or kind is int:
        yield from _wrong_numbers(field_of, int if kind is int else float)
    elif hint == Vector3:
        yield from _wrong_vectors(value, name)
    elif name == "rotation":
        yield "twice as large", tuple(tuple(2.0 * c for c in row) for row in value), True
        yield "a reflection", (*value[:2], tuple(-c for c in value[2])), True
        yield "zeros", ((0.0,) * 3,) * 3, True
        yield "two rows", value[:2], True
        yield "numpy", np.array(value) * np.nan, True
    elif name == "inertia":
        numbers = [getattr(each, "value", each) for each in value]
        large = 10.0 * max(numbers)
        yield "indefinite", (*value[:3], large, 0.0, 0.0), True
        yield "negative", (-1.0, *value[1:]), True
        yield "beyond the triangle", (0.01, 0.01, 5.0, 0.0, 0.0, 0.0), True
        yield "five numbers", value[:5], True
        yield "nothing", (0.0,) * 6, False
        yield "nan", (*value[:5], math.nan), True
    elif name == "quaternion":
        yield "zeros", (0.0,) * 4, True
        yield "twice as large", tuple(2.0 * c for c in value), True
        yield "three numbers", value[:3], True
    elif kind is str:
        yield "a number", 3, True
        yield "no such", "no_such", name not in FREE_TEXT and name != "axes"
        yield "empty", "", name == "name"
        yield "two lines", "two\nlines", name == "name"
        unique = name == "name" and not field_of.owner.endswith("Output")
        yield from ((f"as {other}", other, unique) for other in field_of.siblings[:1])
        yield "the ground", "ground", False
    elif get_origin(kind) is Literal:
        yield "no such", "no_such", True
        yield "a number", 3, True
        yield from ((f"{word}", word, False) for word in get_args(kind) if word != value)
    elif kind is bool:
        yield "text", "yes", True
        yield "a number", 1, True
    elif get_origin(kind) is dict:
        yield "a list", [1.0], True
        yield "nan", {"number": math.nan}, True
        yield "text", {"number": "1"}, True
    elif get_origin(kind) is tuple:
        yield from _wrong_tuples(field_of, get_args(kind))
    elif dataclasses.is_dataclass(kind):
        yield "text", "text", True


def _wrong_numbers(field_of: Field, kind: type) -> Iterator[tuple[str, Any, bool]]:
    value, name = getattr(field_of.value, "value", field_of.value), field_of.field
    bound = name in ("least", "most")
    yield "nan", math.nan, True
    yield "numpy nan", np.float64(math.nan), True
    yield "inf", math.inf, name != "most"
    yield "text", "1", True
    yield "True", True, True
    yield "huge", 1e300, name not in LIMITS or name == "least"
    yield "a huge integer", 10**400, name not in LIMITS
    if kind is int:
        yield "a fraction", 1.5, True
    yield "less than nothing", kind(-abs(value or 0.0) - 1), False
    if value != 0 and not bound:
        yield "zero", kind(0), False
    yield "tuned out of bounds", Tunable("sought", 5.0, 0.0, 1.0), True
    yield "a vector", (1.0, 2.0, 3.0), True


def _wrong_vectors(value: Vector3, name: str) -> Iterator[tuple[str, Any, bool]]:
    axis = name in AXES
    yield "two numbers", value[:2], True
    yield "four numbers", (*value, 0.0), True
    yield "text", "xyz", True
    yield "nan", (math.nan, *value[1:]), True
    yield "a matrix", np.eye(3), True
    yield "huge", (1e300, *value[1:]), True
    yield "zeros", ORIGIN, axis
    yield "not of length 1", tuple(2.0 * c for c in value), axis
    yield "turned", (value[2], value[0], value[1]), False
    yield "out of the plane", (*value[:2], value[2] + 0.5), axis
    yield "reversed", tuple(-c for c in value), False


def _wrong_tuples(field_of: Field, kinds: tuple[Any, ...]) -> Iterator[tuple[str, Any, bool]]:
    value = field_of.value or ()
    yield "a number", 3.0, True
    yield "text", "text", True
    numbers = kinds[0] is float
    lists = ("initial_q", "initial_v", "placement", "points", "size")
    if numbers:
        if value:
            yield "nan", (math.nan, *value[1:]), True
            yield "text inside", ("1", *value[1:]), True
            yield "one too few", value[:-1], field_of.field != "reference_q"
            yield "far off", (value[0] + 7.0, *value[1:]), False
        yield "one too many", (*value, 0.5), bool(value) and field_of.field in lists
        return
    if kinds[0] is str:
        yield "no such", ("no_such",), True
        yield "numbers", (1.0,), True
        yield "twice", (*value, *value), False
        return
    yield "text inside", (*value, "text"), True
    if value:
        yield "twice", (*value, value[0]), hasattr(value[0], "name") and field_of.field != "outputs"
        yield "without the first", value[1:], False
        yield "empty", (), False
        if isinstance(value[0], tuple) and isinstance(value[0][0], float):
            yield "zeros", ((0.0,) * 3, *value[1:]), True
            yield "not of length 1", (tuple(2.0 * c for c in value[0]), *value[1:]), True


def _vocabulary() -> dict[str, list[Wrong]]:
    """Everything that can be wrong, by class, field and what is wrong with it."""
    found: dict[str, list[Wrong]] = {}
    for case, made in CASES.items():
        for field_of in _sites(made()):
            for label, value, surely in _breaks(field_of):
                if not isinstance(value, np.ndarray) and value == field_of.value:
                    continue
                key = f"{field_of.owner}.{field_of.field} {'as another' if label.startswith('as ') else label}"
                found.setdefault(key, []).append(Wrong(case, field_of, label, value, surely))
    return found


VOCABULARY = _vocabulary()
WRONG = st.sampled_from(sorted(VOCABULARY)).flatmap(lambda key: st.sampled_from(VOCABULARY[key]))


# -- what comes out ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Outcome:
    """refused: the line; said: warnings; sim: the simulation where it ran."""

    refused: str
    said: tuple[str, ...]
    sim: Simulation | None


def attempted(mechanism: Mechanism) -> Outcome:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sim = None
        try:
            sim = Simulation(assemble(mechanism), step_s=STEP_S)
            sim.step(STEPS)
            refused = ""
        except (InvalidRequest, SimulationDiverged) as error:
            refused = str(error)
            assert refused, "the line is empty"
            assert "\n" not in refused, f"more than one line: {refused}"
    said = tuple(str(each.message) for each in caught if issubclass(each.category, SimulationWarning))
    return Outcome(refused, said, None if refused else sim)


def fingerprint(mechanism: Mechanism) -> list[Any]:
    """What can be seen of a mechanism at its start: equations, energy, outputs, poses, guards, its description."""
    system = assemble(mechanism)
    sim = Simulation(system)
    q, v = sim.state.q + 0.01, sim.state.v + 0.02
    p, u = sim.state.p, sim.state.u
    numbers = [*system.terms(0.0, q, v, u, p), *system.energy(0.0, q, v, p), *system.poses(0.0, q, v, p)]
    numbers += [*system.joints(0.0, q, v, p), *system.residual(0.0, q, v, p), p, u, sim.state.q, sim.state.v]
    guards = np.zeros(len(system.mechanism.guards))
    system.bind("guards", [np.zeros(1), q, v, u, p, np.zeros(system.max_rows)], [guards])()
    told = describe(mechanism, STEP_S, list(system.outputs(0.0, q, v, p)), "")
    bounds = [(one.name, one.least, one.most) for one in mechanism.tunables]
    return [
        *(np.asarray(each).tolist() for each in numbers),
        guards.tolist(),
        system.outputs(0.0, q, v, p),
        told,
        bounds,
    ]


def check(wrong: Wrong, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Put one wrong description through assembly, a launch in one process and `robot show`; how it ended."""
    mechanism = wrong.mechanism()
    outcome = attempted(mechanism)
    if outcome.sim is not None:
        state = outcome.sim.state
        assert np.all(np.isfinite([*state.q, *state.v])), "a state that is not finite"
        if not outcome.said:
            assert not wrong.surely, f"runs in silence: {wrong}"
            before = fingerprint(CASES[wrong.case]())
            field = f"{wrong.field_of.owner}.{wrong.field_of.field}"
            assert fingerprint(mechanism) != before or field in WITHOUT_EFFECT, f"without effect, in silence: {wrong}"
            phi, _ = outcome.sim.violation()
            assert phi <= 1e-3, f"constraints open by {phi}: {wrong}"
    monkeypatch.setitem(registry.BUILTIN, "broken", lambda: mechanism)
    _check_launch(wrong, outcome, folder)
    capsys.readouterr()
    code = run(["robot", "show", "broken"])
    printed = capsys.readouterr()
    assert code in (0, 2), f"exit code {code}: {wrong}"
    assert "Traceback" not in printed.err
    if outcome.refused and "diverged" not in outcome.refused:
        assert code == 2, f"shown as if it were right: {wrong}: {outcome.refused}"
    if outcome.said and code == 0:
        assert "warning: " in printed.err, f"shown without the warning: {wrong}: {outcome.said}"
    return "refused" if outcome.refused else "warned of" if outcome.said else "simulated"


def _check_launch(wrong: Wrong, outcome: Outcome, folder: Path) -> None:
    """The same robot in a launch file: refused by the plan or the server, or run."""
    file = folder / "broken.toml"
    file.write_text('duration_s = 0.01\n[sim]\nrobot = "broken"\nmode = "lockstep"\n')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulationWarning)
        try:
            with Composition(load_plan(file)) as run_of_it:
                run_of_it.step(STEPS)
            line = ""
        except (PlanError, InvalidRequest, SimulationDiverged) as error:
            line = str(error)
    assert bool(line) == bool(outcome.refused), f"{wrong}: launched: {line!r}, simulated: {outcome.refused!r}"
    assert "\n" not in line


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_the_descriptions_are_right_before_they_are_broken(case: str) -> None:
    outcome = attempted(CASES[case]())
    assert (outcome.refused, outcome.said) == ("", ())


def test_a_contact_that_starts_before_its_beam_is_refused_in_one_line() -> None:
    mechanism = strung()
    beams = (dataclasses.replace(mechanism.beams[0], axis=(-1.0, 0.0, 0.0)),)
    assert "it must start between the beam's ends" in attempted(dataclasses.replace(mechanism, beams=beams)).refused


@pytest.mark.parametrize("parts", ["joints", "contacts", "forces"])
def test_a_description_without_a_tuple_of_its_parts_is_refused_in_one_line(parts: str) -> None:
    assert f"{parts} is None; it must be a tuple" in attempted(dataclasses.replace(swinger(), **{parts: None})).refused


def examine(count: int, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(WRONG)
    def examined(wrong: Wrong) -> None:
        check(wrong, place, monkeypatch, capsys)

    examined()


def test_a_description_wrong_in_one_way_neither_runs_in_silence_nor_ends_in_a_traceback(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examine(12, place, monkeypatch, capsys)


@pytest.mark.soak
def test_two_hundred_descriptions_wrong_in_one_way_neither_run_in_silence_nor_end_in_a_traceback(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examine(200, place, monkeypatch, capsys)

"""A description that makes no sense is refused in one line that names the part and what it should be."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args, get_type_hints

import pytest

import sim_core.mechanism
from robots.registry import build, names
from sim_core.errors import InvalidRequest
from sim_core.mechanism import (
    ORIGIN,
    Actuator,
    Body,
    Coincidence,
    Crossing,
    Joint,
    Mechanism,
    PointOutput,
    SpinRelation,
    Spring,
    Tunable,
    validation,
)
from sim_core.mechanism.validation import validate
from sim_core.simulation import Simulation
from sim_core.system import assemble

SPRING = {"name": "coil", "point_a": ORIGIN, "point_b": (1.0, 0.0, 0.0), "stiffness": 1.0}
INERTIA = (0.1, 0.1, 0.1, 0.0, 0.0, 0.0)


def cart(**changes: Any) -> Mechanism:
    parts = {
        "bodies": (Body(name="cart", mass=1.0, inertia=INERTIA), Body(name="pole", mass=0.1, inertia=INERTIA)),
        "joints": (
            Joint(name="rail", kind="prismatic", child="cart", axis=(1.0, 0.0, 0.0)),
            Joint(name="hinge", parent="cart", child="pole"),
        ),
        "initial_q": (0.0, 0.0),
        "initial_v": (0.0, 0.0),
    }
    return Mechanism(name="cart", **{"coordinates": "joint", **parts, **changes})


def with_body(**changes: Any) -> dict[str, Any]:
    cart_body, pole = cart().bodies
    return {"bodies": (cart_body, dataclasses.replace(pole, **changes))}


def with_joint(**changes: Any) -> dict[str, Any]:
    rail, hinge = cart().joints
    return {"joints": (rail, dataclasses.replace(hinge, **changes))}


def with_spring(**changes: Any) -> dict[str, Any]:
    ends = {"body_a": "cart", "point_a": (0, 0, 0), "body_b": "pole", "point_b": (1, 0, 0)}
    return {"springs": (Spring(name="coil", **{"stiffness": 1.0, **ends, **changes}),)}


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        (("x", "y"), "body 'bob': mass is 0, and coordinate 'x' moves no other mass; give the body a mass"),
        (
            ("theta",),
            "body 'bob': inertia is 0, and coordinate 'theta' turns no other inertia; give the body an inertia",
        ),
    ],
)
def test_a_coordinate_that_moves_no_mass_is_refused_with_its_body(kept: tuple[str, ...], says: str) -> None:
    bob = Body(name="bob", mass=0.0, inertia=(0, 0, 0, 0, 0, 0), free=kept, placement=(0.0, 0.0, 0.0))
    start = {"initial_q": (0.0,) * len(kept), "initial_v": (0.0,) * len(kept), "gravity": (0.0, -9.81, 0.0)}
    bobbing = Mechanism(name="bob", coordinates="absolute", bodies=(bob,), **start)
    with pytest.raises(InvalidRequest, match=says):
        validate(bobbing)
    heavy = dataclasses.replace(bob, mass=1.0, center_of_mass=(0.1, 0.0, 0.0))  # a lever is an inertia, too
    validate(dataclasses.replace(bobbing, bodies=(heavy,)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"coordinates": "polar"}, "coordinates is 'polar'; it must be one of absolute, joint"),
        (with_body(mass=-0.1), "body 'pole': mass is -0.1 kg; it must not be negative"),
        (with_body(mass=float("nan")), "body 'pole': mass holds nan"),
        (with_body(inertia=(0.1, 0.1, 0.1)), "body 'pole': inertia has 3 numbers; it must have Ixx"),
        (with_body(inertia=(-0.1, *INERTIA[1:])), "body 'pole': the moments of inertia are .*; none may be negative"),
        (with_body(orientation="xyz"), "body 'pole': orientation is 'xyz'; it must be one of planar, zxz"),
        (with_body(name="cart"), "two body entries are named 'cart'"),
        (with_body(name="ground"), "no body can be named 'ground'"),
        (with_body(free=("phi",)), "body 'pole' has no coordinate 'phi'; its coordinates are x, y, theta"),
        (with_body(placement=(1.0,)), "placement has 1 numbers; give x, y, theta"),
        (with_joint(kind="revolut"), "joint 'hinge': kind is 'revolut'; it must be one of revolute, prismatic"),
        (with_joint(parent="cort"), "joint 'hinge' has no body 'cort'; its bodies are cart, pole"),
        (with_joint(parent="pole"), "parent and child are both 'pole'"),
        (with_joint(lower=2.5, upper=2.05), "lower is 2.5 and upper is 2.05; lower must not be above upper"),
        (with_joint(axis=(0.0, 0.0, 2.0)), r"axis is \(0.0, 0.0, 2.0\); it must have length 1"),
        (with_body(mass="0.1"), "body 'pole': mass is '0.1'; it must be a number"),
        (with_body(inertia=(0.1, 0.1, "0.1", 0.0, 0.0, 0.0)), "body 'pole': inertia is '0.1'; it must be a number"),
        (
            with_body(center_of_mass=(0.1, 0.0)),
            r"body 'pole': center_of_mass is \(0.1, 0.0\); it must be three numbers",
        ),
        (with_body(mass=0.0, inertia=(0.0,) * 6), "body 'pole': inertia is 0, and joint 'hinge', with all that hangs"),
        (with_joint(kind="prismatic") | with_body(mass=0.0), "body 'pole': mass is 0, and joint 'hinge'"),
        (with_joint(child_point=(0.1, 0.0)), "joint 'hinge': child_point is .*; it must be three numbers"),
        (with_joint(parent_point="abc"), "joint 'hinge': parent_point is 'abc'; it must be three numbers"),
        (with_spring(stiffness=-1.0), "spring 'coil': stiffness is -1; it must not be negative"),
        (with_spring(rest_length="1"), "spring 'coil': rest_length is '1'; it must be a number"),
        ({"initial_q": ("0", 0.0)}, "initial_q is '0'; it must be a number"),
        (with_joint(damping=-0.1), "joint 'hinge': damping is -0.1 N m s; it must not be negative"),
        (with_joint(damping=Tunable("drag", -0.1)), r"joint 'hinge': damping \(drag\) is -0.1 N m s; it must not"),
        (
            {"springs": (Spring(body_a="cart", body_b="pole", damping=-2.0, **SPRING),)},
            "spring 'coil': damping is -2 N s/m; it must not be negative",
        ),
        ({"initial_q": (0.0,)}, "initial_q has 1 numbers; the mechanism has 2 coordinates"),
        ({"initial_v": (0.0, float("inf"))}, "initial_v"),
        (
            {"actuators": (Actuator(name="motor", joint="rial"),)},
            "has no moving joint 'rial'; its moving joints are rail",
        ),
        ({"outputs": (PointOutput(name="tip", body="poll"),)}, "output 'tip' has no body 'poll'"),
        (
            {
                "constraints": (
                    Coincidence(name="pin", body_a="cart", point_a=(0, 0, 0), body_b="x", point_b=(0, 0, 0)),
                )
            },
            "constraint 'pin' has no body 'x'",
        ),
        (
            {"constraints": (SpinRelation(name="rim", terms=(("y", (0, 0, 1), 1.0),)),)},
            "constraint 'rim' has no body 'y'",
        ),
        ({"guards": (Crossing(name="g", source="default", target="off", body="pole"),)}, "no constraint mode 'off'"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as caught:
        validate(cart(**changes))
    assert "\n" not in str(caught.value)
    assert "mechanism 'cart'" in str(caught.value)


@pytest.mark.parametrize("name", names())
def test_every_robot_is_valid_and_its_coordinates_are_counted_right(name: str) -> None:
    mechanism = build(name)
    assert mechanism.coordinate_count == assemble(mechanism).n_q


def test_a_description_is_checked_once_on_the_way_to_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Mechanism] = []
    monkeypatch.setattr(validation, "CHECKS", (*validation.CHECKS, lambda mechanism, owner: checked.append(mechanism)))
    mechanism = build("rotary_pendulum", pushable="*")
    Simulation(assemble(mechanism)).step()
    assert len(checked) == 1
    assert not dataclasses.replace(mechanism, name="another").is_valid


def test_a_tunable_is_refused_while_running_as_in_a_description_and_keeps_its_value() -> None:
    sim = Simulation(assemble(build("rotary_pendulum", coordinates="joint")))
    sim.set_parameters({"arm_damping": 0.25})
    with pytest.raises(
        InvalidRequest, match=r"joint 'pendulum': damping \(pendulum_damping\) is -1 N m s; it must not"
    ):
        sim.set_parameters({"arm_damping": 0.5, "pendulum_damping": -1.0})
    assert sim.parameters == {"arm_damping": 0.25, "pendulum_damping": 0.0}
    assert sim.snapshot().p.tolist() == [0.25, 0.0]


def test_an_actuator_without_a_unit_has_that_of_an_effort_along_its_joint() -> None:
    drives = [
        Actuator(name=name, joint=joint, unit=unit)
        for name, joint, unit in (("a", "rail", ""), ("b", "hinge", ""), ("c", "hinge", "V"))
    ]
    assert [each.unit for each in cart(actuators=tuple(drives)).actuators] == ["N", "N m", "V"]


def test_every_kind_of_part_that_a_description_has_can_be_imported_from_its_module() -> None:
    kinds: set[Any] = set()

    def walk(hint: Any) -> None:
        for inner in get_args(hint):
            walk(inner)
        if dataclasses.is_dataclass(hint) and hint not in kinds:
            kinds.add(hint)
            for each in get_type_hints(hint).values():
                walk(each)

    walk(Mechanism)
    assert len(kinds) > 50
    assert [kind.__name__ for kind in kinds if getattr(sim_core.mechanism, kind.__name__, None) is not kind] == []

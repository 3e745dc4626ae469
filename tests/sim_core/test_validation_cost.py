"""The checks of a description cost as much per part in a large mechanism as in a small one, counted in instructions."""

from __future__ import annotations

import dataclasses
import functools
import gc
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sim_core.mechanism import (
    AccelerometerOutput,
    Actuator,
    Anchored,
    Body,
    CapturedParameter,
    Coincidence,
    Crossing,
    CustomForce,
    ForcePoint,
    ForceTorqueOutput,
    Joint,
    JointOutput,
    JointRelation,
    LawInputs,
    Mechanism,
    PointOutput,
    PrescribedMotion,
    ReactionOutput,
    SphereContact,
    Spring,
    SurfaceForceOutput,
    Tunable,
)
from sim_core.mechanism.guards import Commanded, Guard, Pushed
from sim_core.mechanism.outputs import ForceOutput, HoldingOutput
from sim_core.mechanism.validation import CHECKS, validate

INERTIA = (0.1, 0.1, 0.1, 0.0, 0.0, 0.0)
COPIES = 4  # of the parts in the smallest mechanism
ONCE = 200  # instructions that a call may execute at its first time, such as those of caches
SHARE = 0.02  # by which the cost of the same number of further parts may differ


class Name(str):
    """A name whose comparison with another name executes instructions, which are counted."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True)
class Pull:
    """Law of a force on a joint and a point."""

    joint: str

    def __call__(self, given: LawInputs) -> Mapping[str, Any]:
        import casadi as ca

        return {self.joint: -given.position[self.joint], "tip": ca.vertcat(0, 0, given.velocity[self.joint])}


def parts(k: int) -> dict[str, tuple[Any, ...]]:
    """Parts of every kind in joint coordinates: three bodies, and all that is attached to them."""
    base, arm, ball, hinge, rail, socket, motor = (
        Name(f"{word}{k}") for word in ("base", "arm", "ball", "hinge", "rail", "socket", "motor")
    )
    follow, grip, touch = (Name(f"{word}{k}") for word in ("follow", "grip", "touch"))
    line = {"body_a": base, "point_a": (0.0, 0.0, 0.1), "body_b": arm, "point_b": (0.1, 0.0, 0.0)}
    captured = CapturedParameter(name=Name(f"place{k}"), value=0.0)
    return {
        "bodies": tuple(Body(name=name, mass=1.0, inertia=INERTIA) for name in (base, arm, ball)),
        "joints": (
            Joint(name=rail, kind="prismatic", child=base, damping=Tunable(name=Name(f"d{k}"), value=0.1)),
            Joint(name=hinge, parent=base, child=arm),
            Joint(name=socket, kind="spherical", parent=arm, child=ball),
        ),
        "constraints": (
            JointRelation(name=follow, terms=((rail, 1.0), (hinge, 1.0))),
            PrescribedMotion(name=Name(f"lead{k}"), joint=hinge, motion=lambda t: t),
            Anchored(name=grip, body=arm, point=(0.1, 0.0, 0.0), axis=(1.0, 0.0, 0.0), at=captured),
        ),
        "springs": (Spring(name=Name(f"coil{k}"), stiffness=1.0, **line),),
        "contacts": (SphereContact(name=touch, body=arm, other=base, radius=0.1, other_radius=0.1, stiffness=1.0),),
        "forces": (CustomForce(name=Name(f"law{k}"), law=Pull(hinge), points=(ForcePoint(name="tip", body=ball),)),),
        "actuators": (Actuator(name=motor, joint=hinge),),
        "outputs": (
            PointOutput(name=Name(f"tip{k}"), body=ball),
            JointOutput(name=Name(f"angle{k}"), joint=hinge),
            ForceTorqueOutput(name=Name(f"load{k}"), joint=socket),
            ReactionOutput(name=Name(f"reaction{k}"), constraint=follow),
            HoldingOutput(name=Name(f"holds{k}"), constraint=grip),
            ForceOutput(name=Name(f"pull{k}"), constraints=(grip,)),
            SurfaceForceOutput(name=Name(f"push{k}"), contact=touch),
            AccelerometerOutput(name=Name(f"acc{k}"), body=arm),
        ),
        "guards": (
            Crossing(name=Name(f"closes{k}"), body=arm, engages=(grip,), captures=(grip,)),
            Guard(
                name=Name(f"opens{k}"),
                conditions=(
                    Commanded(actuator=motor, above=0.5),
                    Pushed(constraints=(grip,), axis=(0.0, 1.0, 0.0)),
                ),
                releases=(grip,),
            ),
        ),
        "pushable": (arm,),
    }


def large(count: int) -> Mechanism:
    """A mechanism with so many copies of the parts, in joint coordinates."""
    groups: dict[str, tuple[Any, ...]] = {}
    for k in range(count):
        for group, items in parts(k).items():
            groups[group] = (*groups.get(group, ()), *items)
    still = (0.0,) * 5 * count
    return Mechanism(name="large", coordinates="joint", initial_q=still, initial_v=still, **groups)


def bodies(count: int) -> Mechanism:
    """A mechanism with so many pairs of bodies in absolute coordinates, in the shape of a loop."""
    made, joints, loops = list[Body](), list[Joint](), list[Any]()
    for k in range(count):
        a, b = Name(f"a{k}"), Name(f"b{k}")
        made += [Body(name=a, mass=1.0, inertia=INERTIA, orientation="zxz")]
        made += [Body(name=b, mass=1.0, inertia=INERTIA, orientation="euler_parameters")]
        joints += [Joint(name=Name(f"ja{k}"), child=a), Joint(name=Name(f"jb{k}"), parent=a, child=b)]
        loops += [Coincidence(name=Name(f"c{k}"), body_a=a, point_a=(0, 0, 0), body_b=b, point_b=(0, 0, 0))]
    q = (0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0) * count
    return Mechanism(
        name="bodies",
        coordinates="absolute",
        bodies=tuple(made),
        joints=tuple(joints),
        constraints=tuple(loops),
        initial_q=q,
        initial_v=(0.0,) * len(q),
    )


def instructions(call: Callable[[], None]) -> int:
    """Number of instructions of Python that a call executes, without those of the garbage collector's callbacks."""
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.collect()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("made", [large, bodies])
def test_the_cost_of_a_check_grows_with_the_number_of_parts_and_no_faster(
    made: Callable[[int], Mechanism], check: Callable[[Mechanism, str], None]
) -> None:
    validate(made(COPIES))
    mechanisms = [made(k * COPIES) for k in (1, 2, 3)]
    few, more, most = [instructions(functools.partial(check, each, "mechanism")) for each in mechanisms]
    assert most - more <= (1.0 + SHARE) * (more - few) + ONCE

"""CHARMIE's closed loops: linear actuators and balancing bars as bodies with mass, springs, and loop constraints.

The model has eight joints more than the open tree, and eight constraint rows. The joints lift and tilt are passive; the
actuators drive the rods. [GoncalvesEtAl2024, secs. 3.1, 4.3]
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from robots.charmie.auxiliary import HALVES, mirrored
from robots.charmie.geometry import (
    Motion,
    PlanarMotion,
    balance_motion,
    length_of_lift,
    length_of_tilt,
    lift_actuator,
    tilt_actuator,
)
from robots.charmie.links import actuator, box_inertia
from robots.charmie.parameters import LinearActuator, Parameters, Point
from robots.charmie.shapes import STEEL
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Actuator, Body, Joint, Shape, Slider, Spring, Vector3, X, Y, Z

DRIVEN = {"lift": ("4d", "link_3", "link_4"), "tilt": ("5d", "link_4", "link_5")}
SIDES = {"l": "left", "r": "right"}
WAY = 1001  # positions along a joint's range at which its actuator is checked for dead centres
LOOP_JOINTS = (
    "lift_cylinder",
    "lift_rod",
    "tilt_cylinder",
    "tilt_rod",
    "left_bar",
    "left_slider",
    "right_bar",
    "right_slider",
)


def own_masses(p: Parameters) -> Parameters:
    """Return the parameters, with the masses of the loop bodies subtracted from the masses of links 3 to 5.

    In the parameter file, the masses of these links include the loop bodies, so that the robot weighs the same with
    open and closed loops. Raises InvalidRequest if a link would have no mass left.
    """
    part = p.auxiliary
    on_link = {
        "base": (part.cylinder_mass, part.bar_mass, part.bar_mass),
        "lower_body": (part.rod_mass, part.cylinder_mass, part.slider_mass, part.slider_mass),
        "upper_body": (part.rod_mass,),
    }
    lighter = {}
    for section, parts in on_link.items():
        table = getattr(p, section)
        own = math.fsum([table.mass, *(-mass for mass in parts)])
        if own <= 0.0:
            raise InvalidRequest(
                f"robot 'charmie': {section}.mass is {table.mass:g} kg; it must be above {sum(parts):g} kg, because it "
                "includes the loop bodies, and their masses in [auxiliary] have this sum"
            )
        lighter[section] = msgspec.structs.replace(table, mass=own)
    return msgspec.structs.replace(p, **lighter)


def loop_bodies(p: Parameters) -> tuple[Body, ...]:
    """Bodies of the loops: cylinder and rod of the actuators 4d and 5d, bar and slider of both balancing halves.

    The bodies are uniform. Their masses are in the table [auxiliary] of the parameter file.
    """
    found: list[Body] = []
    wide = p.auxiliary.width
    for name, (link, _, _) in DRIVEN.items():
        reach = barrel_length(actuator_parameters(p, name))
        found += [
            _round(f"link_{link}_cylinder", p.auxiliary.cylinder_mass, wide / 2, reach, reach / 2),
            _round(f"link_{link}_rod", p.auxiliary.rod_mass, wide / 4, reach, -reach / 2),
        ]
    b, c = p.balance.bar_length, p.balance.slider_length
    for half, side in HALVES.items():
        found += [
            _beam(f"link_4s{half}a", p.auxiliary.bar_mass, (b, wide / 2, wide / 2), (side * b / 2, 0.0, 0.0)),
            _beam(f"link_4s{half}c", p.auxiliary.slider_mass, (wide, wide, c + wide), (0.0, 0.0, -c / 2)),
        ]
    return tuple(found)


def loop_joints(p: Parameters) -> tuple[Joint, ...]:
    """Tree joints of the loop bodies, in the order of LOOP_JOINTS.

    The joint positions are: for a cylinder, its angle about x from upright (rad); for a rod, the length of the actuator
    (m); for a bar, its elevation above the horizontal (rad); for a slider, its distance from the middle (m).
    """
    found: list[Joint] = []
    for name, (link, carrier, _) in DRIVEN.items():
        cylinder = f"link_{link}_cylinder"
        found += [
            Joint(
                name=f"{name}_cylinder",
                parent=carrier,
                child=cylinder,
                parent_point=actuator_parameters(p, name).base_point,
                axis=X,
            ),
            Joint(
                name=f"{name}_rod",
                kind="prismatic",
                parent=cylinder,
                child=f"link_{link}_rod",
                axis=Z,
                lower=rod_limits(p, name)[0],
                upper=rod_limits(p, name)[1],
            ),
        ]
    track: Point = (0.0, p.balance.pivot[1], p.balance.slide_height)
    for half, side in HALVES.items():
        raising: Vector3 = (0.0, -side, 0.0)
        outward: Vector3 = (side, 0.0, 0.0)
        found += [
            Joint(
                name=f"{SIDES[half]}_bar",
                parent="link_3",
                child=f"link_4s{half}a",
                parent_point=mirrored(p.balance.pivot, side),
                axis=raising,
            ),
            Joint(
                name=f"{SIDES[half]}_slider",
                kind="prismatic",
                parent="link_4",
                child=f"link_4s{half}c",
                parent_point=track,
                axis=outward,
            ),
        ]
    return tuple(found)


def closures(p: Parameters) -> tuple[Slider, ...]:
    """The eight constraint rows that close the loops, two for each of the four loops.

    For each actuator, the tip of the rod must coincide with a point of the driven link in the y and z directions of
    this link. For each balancing bar, the end of the bar must coincide with a point of its slider in the x and z
    directions of this slider.
    """
    found: list[Slider] = []
    for name, (link, _, driven) in DRIVEN.items():
        found += [
            _closure(f"{name}_rod", driven, actuator_parameters(p, name).body_point, axis, f"link_{link}_rod")
            for axis in "yz"
        ]
    hinge, b = (0.0, 0.0, -p.balance.slider_length), p.balance.bar_length
    for half, side in HALVES.items():
        bar, slider = f"link_4s{half}a", f"link_4s{half}c"
        found += [_closure(f"{SIDES[half]}_bar", slider, hinge, axis, bar, (side * b, 0.0, 0.0)) for axis in "xz"]
    return tuple(found)


def springs(p: Parameters) -> tuple[Spring, ...]:
    """The tilt spring 5s, and the balancing springs 4slb and 4srb between the bars and link 3.

    All springs have the force law of `loads.tension`.
    """
    tilt = p.tilt_spring
    found = [
        Spring(
            name="tilt_spring",
            body_a="link_4",
            point_a=tilt.base_point,
            body_b="link_5",
            point_b=tilt.body_point,
            stiffness=tilt.stiffness,
            rest_length=tilt.free_length,
            pretension=tilt.pretension,
        )
    ]
    for half, side in HALVES.items():
        found.append(
            Spring(
                name=f"balance_{SIDES[half]}",
                body_a=f"link_4s{half}a",
                point_a=(side * p.balance.spring_at, 0.0, 0.0),
                body_b="link_3",
                point_b=mirrored(p.balance.spring_anchor, side),
                stiffness=p.balance.spring.stiffness,
                rest_length=p.balance.spring.free_length,
                pretension=p.balance.spring.pretension,
            )
        )
    return tuple(found)


def rod_actuators(p: Parameters) -> dict[str, Actuator]:
    """Return {"lift": linear actuator, "tilt": linear actuator}.

    These actuators replace the joint actuators of the open tree. Positive effort lengthens a linear actuator.
    """
    return {
        name: actuator(f"{name}_rod", of.effort_limit, of.rod_velocity_limit, of.rod_servo, "N")
        for name in DRIVEN
        for of in [actuator_parameters(p, name)]
    }


@lru_cache(maxsize=8)  # a launch builds the robot for each part that checks itself against it
def rod_limits(p: Parameters, name: str) -> tuple[float, float]:
    """Shortest and longest length (m) of the linear actuator that moves the joint `name`, within the joint's limits.

    Raises InvalidRequest if the joint passes a dead centre, where the actuator cannot move the joint.
    """
    length, of = (length_of_lift, lift_actuator) if name == "lift" else (length_of_tilt, tilt_actuator)
    lower, upper = actuator_parameters(p, name).lower, actuator_parameters(p, name).upper
    way = np.linspace(lower, upper, WAY)
    rates = [of(p, Motion(float(x), 1.0)).length.v for x in way]
    turned = next((x for x, rate in zip(way, rates, strict=True) if rate * rates[0] <= 0.0), None)
    if turned is not None:
        raise InvalidRequest(
            f"robot 'charmie': joint {name} goes from {lower:g} to {upper:g}, but its actuator is at a dead centre at "
            f"about {turned:.2f}; choose {name}.lower and {name}.upper on the same side of the dead centre"
        )
    ends = length(p, lower), length(p, upper)
    return min(ends), max(ends)


def loop_motion(p: Parameters, lift: Motion, tilt: Motion) -> list[Motion]:
    """Motions of the joints LOOP_JOINTS with which the loops stay closed, for given motions of lift and tilt."""
    lines: list[PlanarMotion] = [lift_actuator(p, lift), tilt_actuator(p, tilt)]
    bar, slider = balance_motion(p, lift)
    return [part for line in lines for part in (line.turn, line.length)] + [bar, slider, bar, slider]


def closed_motion(
    p: Parameters, joint_names: tuple[str, ...], q: Any, v: Any, a: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return q, v, a (29,) of the robot with closed loops, from q, v, a (21,) of the open tree.

    joint_names  names of the 29 joints; the joints of the open tree come first
    """
    tree = [Motion(*(float(x[i]) for x in (q, v, a))) for i in range(len(joint_names) - len(LOOP_JOINTS))]
    parts = [*tree, *loop_motion(p, tree[joint_names.index("lift")], tree[joint_names.index("tilt")])]
    x, rate, change = np.array(parts).T
    return x, rate, change


def actuator_parameters(p: Parameters, name: str) -> LinearActuator:
    """Parameters of the linear actuator that moves the joint `name` ("lift" or "tilt")."""
    return p.lift if name == "lift" else p.tilt


def barrel_length(actuator: LinearActuator) -> float:
    """Length (m) of an actuator's cylinder, which is also the length of its rod.

    It is 0.6 times the length of the actuator at the start.
    """
    return 0.6 * actuator.start_length


def _closure(
    name: str, body_a: str, point_a: Point, axis: str, body_b: str, point_b: Point = (0.0, 0.0, 0.0)
) -> Slider:
    along = {"x": X, "y": Y, "z": Z}[axis]
    return Slider(
        name=f"{name}_end_{axis}", body_a=body_a, point_a=point_a, axis_a=along, body_b=body_b, point_b=point_b
    )


def _round(name: str, mass: float, radius: float, length: float, center: float) -> Body:
    """A body with the shape of a cylinder along z, and with the inertia of the bounding box of this cylinder."""
    at = (0.0, 0.0, center)
    return Body(
        name=name,
        mass=mass,
        inertia=box_inertia(mass, (2 * radius, 2 * radius, length)),
        center_of_mass=at,
        shapes=(Shape(kind="cylinder", size=(radius, length), position=at, color=STEEL),),
    )


def _beam(name: str, mass: float, size: Point, at: Point) -> Body:
    return Body(
        name=name,
        mass=mass,
        inertia=box_inertia(mass, size),
        center_of_mass=at,
        shapes=(Shape(kind="box", size=size, position=at, color=STEEL),),
    )

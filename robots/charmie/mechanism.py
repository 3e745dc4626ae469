"""CHARMIE as a mechanism: the open tree of the main chains, or this tree with closed loops. [GoncalvesEtAl2024]

The numbers are in charmie.toml; SOURCES.md lists their sources.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from robots.charmie import closed, links, wheels
from robots.charmie.geometry import Motion, balance_motion, lift_of_length, tilt_of_length
from robots.charmie.links import actuator
from robots.charmie.parameters import Parameters, numbers_of, read_parameters
from robots.parameters import ParameterInfo, require_choice
from robots.stops import with_stops
from sim_core.mechanism import Actuator, Mechanism, PointOutput


def charmie(
    loops: Annotated[
        Literal["open", "closed"], ParameterInfo("open tree, or closed loops with rods, bars and springs")
    ] = "open",
    file: Annotated[str, ParameterInfo("a parameter file", none="robots/charmie/charmie.toml")] = "",
    limits: Annotated[
        Literal["compliant", "none"],
        ParameterInfo("stops at the joint limits: compliant ones, or none"),
    ] = "compliant",
    base: Annotated[
        Literal["planar", "wheels"], ParameterInfo("base driven by three fictitious actuators, or by its omni wheels")
    ] = "planar",
) -> Mechanism:
    """CHARMIE, 21 joints: base x, y, yaw; lift; tilt; two arms of six joints and a claw; neck pan and tilt.

    loops   "open": the tree of the paper's recursive algorithm. The joints lift and tilt have actuators. Springs and
            loop bodies are left out; robots.charmie.loads computes their forces afterwards. "closed": linear actuators
            and balancing bars are bodies, springs act, and constraints close the loops. This model has eight more
            joints. Its joints lift and tilt are passive, and the actuators `lift_rod` and `tilt_rod` drive the rods
    file    parameter file like robots/charmie/charmie.toml; "" means that file itself
    limits  "compliant": compliant stops at the joint limits of the tree, see robots.stops; "none": the joints have no
            stops
    base    "planar": actuators base_x, base_y and base_yaw move the base; "wheels": actuators wheel_1 to wheel_4 turn
            the wheels, which roll without slip, see robots.charmie.wheels
    """
    require_choice("charmie", "loops", loops, ("open", "closed"))
    require_choice("charmie", "limits", limits, ("compliant", "none"))
    require_choice("charmie", "base", base, ("planar", "wheels"))
    p = read_parameters(file)
    mounts = {branch: links.mount(p, branch) for branch in "abc"}
    bodies = [*links.trunk_bodies(p)]
    joints = [*links.trunk_joints(p)]
    for branch, (body, joint) in mounts.items():
        bodies.append(body)
        joints.append(joint)
        if branch == "c":
            bodies += links.head_bodies(p.head)
            joints += links.head_joints(p.head)
        else:
            bodies += links.arm_bodies(p.arm, branch)
            joints += links.arm_joints(p.arm, branch, body.name, links.arm_joint_names(branch))
    moving = [joint.name for joint in joints if not joint.is_fixed]
    start = {"lift": lift_of_length(p, p.lift.start_length), "tilt": tilt_of_length(p, p.tilt.start_length)}
    tree = Mechanism(
        name="charmie",
        coordinates="joint",
        bodies=tuple(bodies),
        joints=tuple(joints),
        actuators=actuators(p),
        outputs=tuple(
            PointOutput(name=f"{side}_claw", body=f"link_12{branch}", point=p.arm.claw.center)
            for branch, side in links.SIDES.items()
        ),
        gravity=(0.0, 0.0, -p.gravity),
        initial_q=tuple(start.get(name, 0.0) for name in moving),
        initial_v=(0.0,) * len(moving),
        parameters=numbers_of(p),
    )
    tree = with_stops(tree) if limits == "compliant" else tree
    tree = tree if loops == "open" else with_loops(tree, p)
    return tree if base == "planar" else wheels.with_wheels(tree, p)


def with_loops(tree: Mechanism, p: Parameters) -> Mechanism:
    """Add the bodies, springs and constraints of the loops to the open tree, at rest with the loops closed.

    The masses of the loop bodies are subtracted from the masses of links 3 to 5, so the total mass stays the same.
    """
    for end in (p.lift.lower, p.lift.upper):
        balance_motion(p, Motion(end))  # raises if a bar is too short
    trunk = {body.name: body for body in links.trunk_bodies(closed.own_masses(p))}
    at = dict(zip((joint.name for joint in tree.moving_joints), tree.initial_q, strict=True))
    loop_q = [motion.x for motion in closed.loop_motion(p, Motion(at["lift"]), Motion(at["tilt"]))]
    rods = closed.rod_actuators(p)
    return dataclasses.replace(
        tree,
        bodies=(*(trunk.get(body.name, body) for body in tree.bodies), *closed.loop_bodies(p)),
        joints=(*tree.joints, *closed.loop_joints(p)),
        constraints=closed.closures(p),
        springs=closed.springs(p),
        actuators=tuple(rods.get(actuator.name, actuator) for actuator in tree.actuators),
        initial_q=(*tree.initial_q, *loop_q),
        initial_v=(*tree.initial_v, *[0.0] * len(loop_q)),
    )


def actuators(p: Parameters) -> tuple[Actuator, ...]:
    """The actuators of the open tree: one per moving joint, with the joint's name."""
    base, lift, tilt, head, claw = p.base, p.lift, p.tilt, p.head, p.arm.claw
    found = [
        actuator("base_x", base.effort_limit, base.speed_limit, base.slide_servo, "N"),
        actuator("base_y", base.effort_limit, base.speed_limit, base.slide_servo, "N"),
        actuator("base_yaw", base.torque_limit, base.turn_limit, base.turn_servo),
        actuator("lift", lift.joint_effort_limit, lift.velocity_limit, lift.servo, "N"),
        actuator("tilt", tilt.joint_effort_limit, tilt.velocity_limit, tilt.servo),
    ]
    for branch in links.SIDES:
        *names, last = links.arm_joint_names(branch)
        for name, link in zip(names, p.arm.links, strict=True):
            found.append(actuator(name, link.effort_limit, p.arm.velocity_limit, link.servo))
        found.append(actuator(last, claw.effort_limit, p.arm.velocity_limit, claw.servo))
    for name, part in (("neck_pan", head.pan), ("neck_tilt", head.tilt)):
        found.append(actuator(name, head.effort_limit, head.velocity_limit, part.servo))
    return tuple(found)

"""Links of CHARMIE's main chains, numbered as in the paper: 1 to 5, arms 6a to 13a and 6b to 13b, head 6c to 8c.

The axes are x to the right, y forward, z up. [GoncalvesEtAl2024, secs. 3.1, 3.2]
"""

from __future__ import annotations

import dataclasses
import math

from robots.charmie import shapes
from robots.charmie.parameters import Arm, Head, HeadLink, Parameters, Point, ServoGains
from sim_core.mechanism import ORIGIN, Actuator, Body, Joint, Matrix3, Servo, Shape, X, Y, Z
from sim_core.spatial import rotation_zxz

AXES = {"x": X, "y": Y, "z": Z}
SIDES = {"a": "left", "b": "right"}
# ZXZ angles of the fixed joints at link 5, eqs. 2 to 4 (rad)
FIXED_ZXZ = {
    "a": (math.pi / 2, -math.pi / 2, math.pi),
    "b": (math.pi / 2, math.pi / 2, 0.0),
    "c": (0.0, 0.0, 0.0),
}


def fixed_rotation(branch: str) -> Matrix3:
    """Rotation matrix R_56 from the axes of link 6, on which an arm or the head is mounted, to the axes of link 5.

    Its entries are 0 and +-1.

    branch  "a" (left arm), "b" (right arm) or "c" (head)
    """
    rows = rotation_zxz(*FIXED_ZXZ[branch]).round().tolist()
    return tuple(tuple(value + 0.0 for value in row) for row in rows)  # type: ignore[return-value]


def box_inertia(mass: float, size: Point) -> tuple[float, float, float, float, float, float]:
    """Inertia (Ixx, Iyy, Izz, Ixy, Ixz, Iyz) of a uniform box about its centre (kg m2), from mass (kg) and size (m)."""
    x, y, z = (length * length for length in size)
    return (mass * (y + z) / 12, mass * (x + z) / 12, mass * (x + y) / 12, 0.0, 0.0, 0.0)


def box(name: str, mass: float, size: Point, center: Point, drawn: tuple[Shape, ...]) -> Body:
    """A body with the mass and inertia of a uniform box around `center`.

    drawn  shapes of the body
    """
    return Body(name=name, mass=mass, inertia=box_inertia(mass, size), center_of_mass=center, shapes=drawn)


def trunk_bodies(p: Parameters) -> tuple[Body, ...]:
    """Links 1 to 5. Links 1 and 2 only represent translations of the base and have no mass."""
    wheels = p.base.wheels.count * p.base.wheels.mass
    nothing = (0.0,) * 6
    height = p.base.floor_gap + p.base.size[2] / 2
    drawn = shapes.trunk(p)
    return (
        Body(name="link_1", mass=0.0, inertia=nothing, shapes=drawn["link_1"]),
        Body(name="link_2", mass=0.0, inertia=nothing, shapes=drawn["link_2"]),
        box("link_3", p.base.mass + wheels, p.base.size, (0.0, 0.0, height), drawn["link_3"]),
        box("link_4", p.lower_body.mass, p.lower_body.size, p.lower_body.center_of_mass, drawn["link_4"]),
        box("link_5", p.upper_body.mass, p.upper_body.size, p.upper_body.center_of_mass, drawn["link_5"]),
    )


def trunk_joints(p: Parameters) -> tuple[Joint, ...]:
    """Joints base_x, base_y, base_yaw, lift (height of link 4's origin O4 above link 3's point B3) and tilt (about x;
    forward is negative).
    """
    return (
        Joint(name="base_x", kind="prismatic", child="link_1", axis=X),
        Joint(name="base_y", kind="prismatic", parent="link_1", child="link_2", axis=Y),
        Joint(name="base_yaw", parent="link_2", child="link_3", axis=Z),
        Joint(
            name="lift",
            kind="prismatic",
            parent="link_3",
            child="link_4",
            parent_point=p.base.lift_joint,
            axis=Z,
            lower=p.lift.lower,
            upper=p.lift.upper,
        ),
        Joint(
            name="tilt",
            parent="link_4",
            child="link_5",
            parent_point=p.lower_body.tilt_joint,
            axis=X,
            lower=p.tilt.lower,
            upper=p.tilt.upper,
        ),
    )


def arm_bodies(arm: Arm, branch: str) -> tuple[Body, ...]:
    """Links 7 to 13 of one arm."""
    bodies = []
    for number, link in enumerate(arm.links, start=7):
        drawn = shapes.arm_link(link)
        size, center = (link.width, link.width, link.length), (0.0, 0.0, link.length / 2)
        bodies.append(box(f"link_{number}{branch}", link.mass, size, center, drawn))
    bodies[-1] = dataclasses.replace(bodies[-1], shapes=(*bodies[-1].shapes, *shapes.hand(arm)))
    claw = arm.claw
    size, center = (claw.width, claw.width, claw.length), (0.0, 0.0, claw.length / 2)
    finger = (shapes.brick(size, center, shapes.BLUE),)
    return (*bodies, box(f"link_13{branch}", claw.mass, size, center, finger))


def arm_joints(arm: Arm, branch: str, parent: str, names: list[str]) -> tuple[Joint, ...]:
    """The six joints of one arm and the joint of its claw. The first joint is at the origin of the parent body.

    names  names of the joints, in the order of the joints
    """
    joints = []
    point: Point = ORIGIN
    for number, (link, name) in enumerate(zip(arm.links, names[:6], strict=True), start=7):
        child = f"link_{number}{branch}"
        joints.append(
            Joint(
                name=name,
                parent=parent,
                child=child,
                parent_point=point,
                axis=AXES[link.axis],
                lower=link.lower,
                upper=link.upper,
            )
        )
        parent, point = child, (0.0, 0.0, link.length)
    claw = arm.claw
    child = f"link_13{branch}"
    return (
        *joints,
        Joint(
            name=names[6],
            parent=parent,
            child=child,
            parent_point=claw.hinge,
            axis=AXES[claw.axis],
            lower=claw.lower,
            upper=claw.upper,
        ),
    )


def arm_joint_names(branch: str) -> list[str]:
    """Names of an arm's joints: left_arm_1 to left_arm_6 and left_claw; for the right arm, with right_ for left_."""
    side = SIDES[branch]
    return [*[f"{side}_arm_{number}" for number in range(1, 7)], f"{side}_claw"]


def mount(p: Parameters, branch: str) -> tuple[Body, Joint]:
    """Link 6, on which an arm or the head is mounted, and the joint that fixes this link to link 5.

    branch  "a" (left arm), "b" (right arm) or "c" (head)
    """
    points = {"a": p.upper_body.left_shoulder, "b": p.upper_body.right_shoulder, "c": p.upper_body.neck}
    mass, size = (p.head.mount_mass, p.head.mount_size) if branch == "c" else (p.arm.mount_mass, p.arm.mount_size)
    body = box(f"link_6{branch}", mass, size, ORIGIN, (shapes.brick(size, ORIGIN, shapes.DARK),))
    joint = Joint(
        name=f"mount_{branch}",
        kind="fixed",
        parent="link_5",
        child=body.name,
        parent_point=points[branch],
        rotation=fixed_rotation(branch),
    )
    return body, joint


def head_bodies(head: Head) -> tuple[Body, ...]:
    """Links 7c and 8c of the head."""
    drawn = shapes.head(head)
    return tuple(
        box(name, link.mass, link.size, link.center_of_mass, drawn[name])
        for name, link in (("link_7c", head.pan), ("link_8c", head.tilt))
    )


def head_joints(head: Head) -> tuple[Joint, ...]:
    """Joints of the head: pan about z and tilt about x."""

    def joint(name: str, link: HeadLink, axis: Point, parent: str, child: str) -> Joint:
        return Joint(
            name=name,
            parent=parent,
            child=child,
            parent_point=link.joint,
            axis=axis,
            lower=link.lower,
            upper=link.upper,
        )

    return (
        joint("neck_pan", head.pan, Z, "link_6c", "link_7c"),
        joint("neck_tilt", head.tilt, X, "link_7c", "link_8c"),
    )


def actuator(joint: str, effort: float, velocity: float, gains: ServoGains, unit: str = "N m") -> Actuator:
    """An actuator for a joint. It has the name of the joint, and the given limits and servo gains."""
    servo = Servo(stiffness=gains.stiffness, damping=gains.damping)
    return Actuator(name=joint, joint=joint, effort_limit=effort, velocity_limit=velocity, servo=servo, unit=unit)

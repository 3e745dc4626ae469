"""An arm read from a URDF file, a block on the floor in front of it, and a stop behind the block."""

from math import acos, atan2, hypot, pi
from pathlib import Path

from armswing import build
from armswing.mechanism import (
    Body,
    ForceTorqueOutput,
    Joint,
    Mechanism,
    Shape,
    SphereContact,
    SurfaceForceOutput,
    box_contacts,
    dissipation_for,
)

UPPER_ARM, FOREARM, SHOULDER = 0.35, 0.33, 0.4  # m: lengths to the tool's centre, height of the shoulder
TOOL, HALF = 0.03, 0.05  # m: radius of the tool, half the edge of the block
BLOCK, STOP, START = 0.42, 0.62, (0.28, 0.10)  # m: x of the block, x of the stop, x and z of the tool
TOUCH = {"stiffness": 2e5, "dissipation": dissipation_for(0.3, speed=0.5), "slip_velocity": 0.02}


def lift_and_elbow(x, z):
    """Joint angles, rad, that place the tool at x, z in the plane of the arm, with the elbow up."""
    away, up = hypot(x, z - SHOULDER), atan2(z - SHOULDER, x)
    lift = up + acos((UPPER_ARM**2 + away**2 - FOREARM**2) / (2 * UPPER_ARM * away))
    elbow = acos((UPPER_ARM**2 + FOREARM**2 - away**2) / (2 * UPPER_ARM * FOREARM)) - pi
    return lift, elbow


def push(mass=1.0, friction=0.4) -> Mechanism:
    """The arm with its tool behind a block of this mass, kg, which slides on the floor with this friction."""
    arm = build(str(Path(__file__).with_name("bench_arm.urdf")))
    side = mass * HALF**2 * 2 / 3
    block = Body(
        name="block",
        mass=mass,
        inertia=(side, side, side, 0, 0, 0),
        shapes=(Shape(kind="box", size=(2 * HALF,) * 3, color="#4c9f70"),),
    )
    half = (HALF, HALF, HALF)
    on_floor = box_contacts("floor", body="block", half_sizes=half, friction=friction, **TOUCH)
    wall = {"other_point": (STOP, 0, 0), "normal": (-1, 0, 0)}
    at_stop = box_contacts("stop", body="block", half_sizes=half, friction=0.2, **wall, **TOUCH)
    tool = SphereContact(
        name="tool", body="tool", radius=TOOL, other="block", other_half_sizes=half, friction=0.2, **TOUCH
    )
    sink = (mass * 9.81 / 4 / TOUCH["stiffness"]) ** (2 / 3)
    lift, elbow = lift_and_elbow(*START)
    return Mechanism(
        name="push",
        coordinates="joint",
        bodies=(*arm.bodies, block),
        joints=(*arm.joints, Joint(name="block", kind="free", child="block")),
        contacts=(tool, *on_floor, *at_stop[:4]),
        actuators=arm.actuators,
        outputs=(
            SurfaceForceOutput(name="tool", contact="tool"),
            *[SurfaceForceOutput(name=each.name, contact=each.name, axes="x") for each in at_stop[:4]],
            ForceTorqueOutput(name="flange", joint="flange"),
        ),
        initial_q=(0, lift, elbow, BLOCK, 0, HALF - sink, 0, 0, 0),
        initial_v=(0,) * 9,
        ground=(
            Shape(kind="box", size=(1.0, 0.5, 0.01), position=(0.35, 0, -0.005), color="#d8d8d8"),
            Shape(kind="box", size=(0.02, 0.3, 0.16), position=(STOP + 0.01, 0, 0.08), color="#a03030"),
        ),
    )

"""A small robot without a fixed base falls on the floor: a trunk on four sprung legs, and a tail on a ball joint."""

from math import cos, pi, sin

from armswing.mechanism import Body, Joint, JointSpring, Mechanism, Shape, SphereContact, Y, dissipation_for

TRUNK = (0.24, 0.16, 0.06)  # m
LEG, FOOT, TAIL = 0.12, 0.015, 0.14  # m: length and radius of the foot, length of the tail
TOUCH = {"stiffness": 8e3, "dissipation": dissipation_for(0.3, speed=2.0), "friction": 0.6, "slip_velocity": 0.05}


def tumbler(height=0.6, tilt_deg=35.0, spin=4.0) -> Mechanism:
    """The robot at a height, m, tilted about x and spinning about z, rad/s."""
    x, y, z = (side / 2 for side in TRUNK)
    trunk = Body(
        name="trunk",
        mass=1.2,
        inertia=(1.2 * (y * y + z * z) / 3, 1.2 * (x * x + z * z) / 3, 1.2 * (x * x + y * y) / 3, 0, 0, 0),
        shapes=(Shape(kind="box", size=TRUNK, color="#3b6ea5"),),
    )
    tilt = pi * tilt_deg / 360
    bodies = [trunk]
    joints = [Joint(name="base", kind="free", child="trunk", quaternion=(cos(tilt), sin(tilt), 0, 0))]
    contacts = []
    for name, side, end in (("front_left", 1, 1), ("front_right", -1, 1), ("rear_left", 1, -1), ("rear_right", -1, -1)):
        leg = Body(
            name=name,
            mass=0.15,
            inertia=(2e-4, 2e-4, 2e-5, 0, 0, 0),
            center_of_mass=(0, 0, -LEG / 2),
            shapes=(
                Shape(kind="cylinder", size=(0.008, LEG), position=(0, 0, -LEG / 2), color="#555555"),
                Shape(kind="sphere", size=(FOOT,), position=(0, 0, -LEG), color="#d9731a"),
            ),
        )
        hip = Joint(
            name=f"{name}_hip",
            parent="trunk",
            child=name,
            parent_point=(end * 0.8 * x, side * y, 0),
            axis=Y,
            damping=0.05,
            spring=JointSpring(stiffness=6.0, rest=-0.4 * end),
        )
        bodies.append(leg)
        joints.append(hip)
        contacts.append(SphereContact(name=f"{name}_foot", body=name, center=(0, 0, -LEG), radius=FOOT, **TOUCH))
        for part, level in (("top", z), ("bottom", -z)):
            corner = (end * x, side * y, level)
            contacts.append(SphereContact(name=f"{name}_{part}", body="trunk", center=corner, **TOUCH))
    tail = Body(
        name="tail",
        mass=0.1,
        inertia=(2e-4, 2e-4, 2e-5, 0, 0, 0),
        center_of_mass=(0, 0, TAIL),
        shapes=(
            Shape(kind="cylinder", size=(0.004, TAIL), position=(0, 0, TAIL / 2), color="#555555"),
            Shape(kind="sphere", size=(0.018,), position=(0, 0, TAIL), color="#4c9f70"),
        ),
    )
    contacts.append(SphereContact(name="tail_tip", body="tail", center=(0, 0, TAIL), radius=0.018, **TOUCH))
    ball = Joint(
        name="tail_ball", kind="spherical", parent="trunk", child="tail", parent_point=(-x, 0, z), damping=2e-3
    )
    floor = Shape(kind="box", size=(1.6, 1.6, 0.01), position=(0, 0, -0.005), color="#d8d8d8")
    return Mechanism(
        name="tumbler",
        coordinates="joint",
        bodies=(*bodies, tail),
        joints=(*joints, ball),
        contacts=tuple(contacts),
        initial_q=(0, 0, height, 0, 0, 0, *[-0.4 * end for end in (1, 1, -1, -1)], 0, 0, 0),
        initial_v=(0.3, 0, 0, 0, 0, spin, *[0] * 4, 0, 0, 0),
        ground=(floor,),
    )

"""A cart on a rail along x, and a pole hinged on it: angle 0 is upright, gravity along -y."""

import math

from armswing.mechanism import Actuator, Body, Joint, Mechanism, Shape, X, Z


def cart_pole(cart_mass=1.0, pole_mass=0.1, pole_length=0.5, start_deg=10.0) -> Mechanism:
    half, inertia = pole_length / 2, pole_mass * pole_length**2 / 12
    cart = Body(
        name="cart",
        mass=cart_mass,
        inertia=(0, 0, 0.01, 0, 0, 0),
        shapes=(Shape(kind="box", size=(0.2, 0.1, 0.1)),),
    )
    pole = Body(
        name="pole",
        mass=pole_mass,
        inertia=(inertia, 0, inertia, 0, 0, 0),
        center_of_mass=(0, half, 0),
        shapes=(Shape(kind="line", points=(0, 0, 0, 0, pole_length, 0)),),
    )
    return Mechanism(
        name="cart_pole",
        coordinates="joint",
        bodies=(cart, pole),
        joints=(
            Joint(name="rail", kind="prismatic", child="cart", axis=X),
            Joint(name="hinge", kind="revolute", parent="cart", child="pole", axis=Z),
        ),
        actuators=(Actuator(name="rail", joint="rail", effort_limit=20.0),),
        gravity=(0, -9.81, 0),
        initial_q=(0, math.radians(start_deg)),
        initial_v=(0, 0),
        parameters={"cart_mass": cart_mass, "pole_mass": pole_mass, "pole_length": pole_length},
    )

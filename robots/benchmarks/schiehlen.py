"""Single and double pendulum from Schiehlen's paper on stability measures: point masses on massless rods.

Source: [Schiehlen1993]. SOURCES.md lists the sources of the numbers.
"""

from __future__ import annotations

from typing import Annotated, Literal

from robots.parameters import ParameterInfo, require_choice, require_positive
from sim_core.mechanism import Body, Joint, Mechanism, PointOutput, Shape

MASSLESS = (0.0,) * 6


def single_pendulum(
    length: Annotated[float, ParameterInfo("length of the rod", "m")] = 1.0,
    mass: Annotated[float, ParameterInfo("mass", "kg")] = 1.0,
    gravity: Annotated[float, ParameterInfo("gravity", "m/s2")] = 1.0,
) -> Mechanism:
    """A point mass on a massless rod, hanging at rest; gravity along -y. The angle is zero when the rod hangs.

    With the defaults the equation of motion is phi'' + sin(phi) = 0. [Schiehlen1993, eq. 51]
    """
    name = "single_pendulum"
    require_positive(name, length=length, mass=mass, gravity=gravity)
    return Mechanism(
        name=name,
        coordinates="joint",
        bodies=(_arm("arm", length, mass),),
        joints=(Joint(name="pivot", child="arm"),),
        outputs=(PointOutput(name="tip", body="arm", point=(0.0, -length, 0.0), axes="xy"),),
        gravity=(0.0, -gravity, 0.0),
        initial_q=(0.0,),
        initial_v=(0.0,),
        parameters={"length": length, "mass": mass, "gravity": gravity},
    )


def double_pendulum(
    coordinates: Annotated[
        Literal["absolute_angle", "joint"], ParameterInfo("angles of the rods relative to the ground, or joint angles")
    ] = "absolute_angle",
    length_1: Annotated[float, ParameterInfo("length of the upper rod", "m")] = 1.0,
    length_2: Annotated[float, ParameterInfo("length of the lower rod", "m")] = 1.0,
    mass_1: Annotated[float, ParameterInfo("mass at the end of the upper rod", "kg")] = 1.0,
    mass_2: Annotated[float, ParameterInfo("mass at the end of the lower rod", "kg")] = 1.0,
    gravity: Annotated[float, ParameterInfo("gravity", "m/s2")] = 1.0,
) -> Mechanism:
    """Two point masses on massless rods, hanging at rest; gravity along -y. All angles are zero when the rods hang.

    With gravity = length_2, the equations of motion are [Schiehlen1993, eq. 57] for lambda1 = mass_1 / mass_2 and
    lambda2 = length_1 / length_2. The first row of the printed eq. 57 lacks a sign and exponents.
    """
    name = "double_pendulum"
    require_choice(name, "coordinates", coordinates, ("absolute_angle", "joint"))
    require_positive(name, length_1=length_1, length_2=length_2, mass_1=mass_1, mass_2=mass_2, gravity=gravity)
    return Mechanism(
        name=name,
        coordinates=coordinates,
        bodies=(_arm("upper", length_1, mass_1), _arm("lower", length_2, mass_2)),
        joints=(
            Joint(name="shoulder", child="upper"),
            Joint(name="elbow", parent="upper", child="lower", parent_point=(0.0, -length_1, 0.0)),
        ),
        outputs=(PointOutput(name="tip", body="lower", point=(0.0, -length_2, 0.0), axes="xy"),),
        gravity=(0.0, -gravity, 0.0),
        initial_q=(0.0, 0.0),
        initial_v=(0.0, 0.0),
        parameters={
            "length_1": length_1,
            "length_2": length_2,
            "mass_1": mass_1,
            "mass_2": mass_2,
            "gravity": gravity,
        },
    )


def _arm(name: str, length: float, mass: float) -> Body:
    """A body with its origin at the joint, and with a point mass at (0, -length, 0)."""
    rod = Shape(kind="line", points=(0.0, 0.0, 0.0, 0.0, -length, 0.0))
    ball = Shape(kind="sphere", size=(0.05 * length,), position=(0.0, -length, 0.0))
    return Body(name=name, mass=mass, inertia=MASSLESS, center_of_mass=(0.0, -length, 0.0), shapes=(rod, ball))

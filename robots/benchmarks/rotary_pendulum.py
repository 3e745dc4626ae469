"""Spatial rotary pendulum: an arm driven about the vertical, and a pendulum about the arm. [NadaBayoumi2024, sec. 4]

SOURCES.md lists the sources of the numbers.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from robots.parameters import ParameterInfo, require_choice, require_not_negative, require_positive
from sim_core.mechanism import Actuator, Body, Joint, Matrix3, Mechanism, PointOutput, Shape, Tunable

# The arm's axes in the world at joint position 0, as columns: x1 = y0, y1 = z0 (up), z1 = x0 (along the arm). These are
# the ZXZ angles (pi/2, pi/2, 0). The pendulum's axes are the arm's: z2 along the arm, the rod along -y2.
ARM_AT_ZERO: Matrix3 = ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))


def rotary_pendulum(
    variant: Annotated[
        Literal["qube", "qnet"], ParameterInfo("uniform rods, or masses and inertias of the paper's hardware")
    ] = "qube",
    coordinates: Annotated[Literal["absolute", "joint"], ParameterInfo("coordinates of the description")] = "absolute",
    start_deg: Annotated[float, ParameterInfo("angle of the pendulum at the start; 0: hanging", "deg")] = 170.0,
    arm_mass: Annotated[float, ParameterInfo("mass of qube's arm", "kg")] = 0.095,
    arm_length: Annotated[float, ParameterInfo("length of qube's arm", "m")] = 0.085,
    pendulum_mass: Annotated[float, ParameterInfo("mass of qube's pendulum", "kg")] = 0.024,
    pendulum_length: Annotated[float, ParameterInfo("length of qube's pendulum", "m")] = 0.129,
    arm_damping: Annotated[float, ParameterInfo("damping of the arm's joint", "N m s")] = 0.0,
    pendulum_damping: Annotated[float, ParameterInfo("damping of the pendulum's joint", "N m s")] = 0.0,
    torque_limit: Annotated[float | None, ParameterInfo("torque limit of the arm's motor", "N m", "no limit")] = None,
) -> Mechanism:
    """Arm (joint "arm", about the vertical) and pendulum (joint "pendulum", 0 hangs, 180 degrees is upright).

    variant           "qube": two uniform rods with the given masses and lengths; "qnet": the masses and inertias of the
                      paper's hardware
    coordinates       "absolute": 12 coordinates with ZXZ angles, whose nutation stays at 90 degrees, away from the
                      singularity; "joint": 2 coordinates
    start_deg         angle of the pendulum at the start (degrees); all velocities are zero
    arm_damping       damping of the arm's joint (N m s); tunable during a run
    pendulum_damping  damping of the pendulum's joint (N m s); tunable during a run
    torque_limit      torque limit of the arm's motor (N m); None means no limit
    """
    name = "rotary_pendulum"
    require_choice(name, "variant", variant, ("qube", "qnet"))
    require_choice(name, "coordinates", coordinates, ("absolute", "joint"))
    require_positive(name, arm_mass=arm_mass, arm_length=arm_length)
    require_positive(name, pendulum_mass=pendulum_mass, pendulum_length=pendulum_length)
    require_not_negative(name, arm_damping=arm_damping, pendulum_damping=pendulum_damping)
    if torque_limit is not None:
        require_positive(name, torque_limit=torque_limit)
    if variant == "qube":
        reach, length, masses = arm_length, pendulum_length, (arm_mass, pendulum_mass)
        arm, pendulum = _uniform_rods(masses, reach, length)
    else:
        reach, length, masses = 0.0826, 0.191, (0.028, 0.027)
        arm, pendulum = _qnet(masses, reach, length)
    angle = math.radians(start_deg)
    # Start in absolute coordinates: ZXZ angles phi, theta, psi of both bodies; psi turns the pendulum about z2.
    phi, theta, psi = math.pi / 2, math.pi / 2, 0.0
    start = (0.0, 0.0, 0.0, phi, theta, psi, reach, 0.0, 0.0, phi, theta, psi + angle)
    n = 12 if coordinates == "absolute" else 2
    return Mechanism(
        name=name,
        coordinates=coordinates,
        bodies=(arm, pendulum),
        joints=(
            Joint(
                name="arm",
                parent="ground",
                child="arm",
                rotation=ARM_AT_ZERO,
                damping=Tunable("arm_damping", arm_damping, unit="N m s"),
            ),
            Joint(
                name="pendulum",
                parent="arm",
                child="pendulum",
                parent_point=(0.0, 0.0, reach),
                damping=Tunable("pendulum_damping", pendulum_damping, unit="N m s"),
            ),
        ),
        actuators=(Actuator(name="arm", joint="arm", effort_limit=torque_limit),),
        outputs=(PointOutput(name="tip", body="pendulum", point=(0.0, -length, 0.0)),),
        initial_q=start if coordinates == "absolute" else (0.0, angle),
        initial_v=(0.0,) * n,
        parameters={
            "arm_mass": masses[0],
            "arm_length": reach,
            "pendulum_mass": masses[1],
            "pendulum_length": length,
        },
    )


def _uniform_rods(masses: tuple[float, float], reach: float, length: float) -> tuple[Body, Body]:
    """Arm and pendulum as uniform rods.

    The inertias about the rods' own long axes, 1e-5 and 5e-6 kg m2, are assumed.
    """
    across = masses[0] * reach**2 / 12, masses[1] * length**2 / 12
    return (
        _arm(masses[0], (across[0], across[0], 1e-5), reach),
        _pendulum(masses[1], (across[1], 5e-6, across[1]), length / 2, length),
    )


def _qnet(masses: tuple[float, float], reach: float, length: float) -> tuple[Body, Body]:
    """Arm and pendulum of a QNET-class rotary pendulum, with the pendulum's centre of mass 0.153 m from its pivot.

    The inertias about the pivots are 1.23e-4 kg m2 (arm) and 6.98e-4 kg m2 (pendulum); both are unconfirmed.
    """
    center = 0.153
    arm = 1.23e-4 - masses[0] * (reach / 2) ** 2
    pendulum = 6.98e-4 - masses[1] * center**2
    return (
        _arm(masses[0], (arm, arm, 1e-5), reach),
        _pendulum(masses[1], (pendulum, 5e-6, pendulum), center, length),
    )


def _arm(mass: float, inertia: tuple[float, float, float], length: float) -> Body:
    return Body(
        name="arm",
        mass=mass,
        inertia=(*inertia, 0.0, 0.0, 0.0),
        center_of_mass=(0.0, 0.0, length / 2),
        orientation="zxz",
        shapes=(Shape(kind="line", points=(0.0, 0.0, 0.0, 0.0, 0.0, length)),),
    )


def _pendulum(mass: float, inertia: tuple[float, float, float], center: float, length: float) -> Body:
    return Body(
        name="pendulum",
        mass=mass,
        inertia=(*inertia, 0.0, 0.0, 0.0),
        center_of_mass=(0.0, -center, 0.0),
        orientation="zxz",
        shapes=(Shape(kind="line", points=(0.0, 0.0, 0.0, 0.0, -length, 0.0)),),
    )

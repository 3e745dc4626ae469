"""Double pendulum that slides without friction on a beam of finite elements. [Lipinski2023]

The world's x axis runs along the beam, and its z axis points up. The paper's z points down, so the joint `drop` and the
deflection are positive downwards. The paper's joint coordinates q1 ... q4 are the joints `slide`, `drop`, `upper` and
`lower`. SOURCES.md lists the sources of the numbers.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from robots.parameters import ParameterInfo, require_choice, require_finite_number, require_positive, require_whole
from sim_core.errors import InvalidRequest
from sim_core.flexible.elements import beam_model
from sim_core.mechanism import Body, Joint, JointOutput, Mechanism, Shape, X, Y
from sim_core.mechanism.beams import Beam, ContactForceOutput, DeflectionOutput
from sim_core.mechanism.checks.beams import check_beams
from sim_core.mechanism.checks.types import check_fields
from sim_core.mechanism.constraints import BeamContact

UPPER_LENGTH, LOWER_LENGTH = 1.5, 1.0
ARM_MASS, ARM_INERTIA = 20.0, 2.0
BEAM_LENGTH, AREA, AREA_MOMENT = 5.0, 1.5e-4, 2.81e-9
DENSITY, YOUNG = 7.86e3, 2.1e11
FORMULATIONS = ("partitioned", "schur", "augmented", "partitioned_as_printed")
Formulation = Literal["partitioned", "schur", "augmented", "partitioned_as_printed"]
SUPPORTS = ("clamped", "simple")
DOWN = (0.0, 0.0, -1.0)


def lipinski_pendulum(
    gravity: Annotated[float, ParameterInfo("downward acceleration of gravity", "m/s2")] = 10.0,
    preload_torque: Annotated[float, ParameterInfo("torque between the arms, released at the start", "N m")] = 100.0,
    supports: Annotated[Literal["clamped", "simple"], ParameterInfo("supports of both ends of the beam")] = "clamped",
    elements: Annotated[int, ParameterInfo("number of finite elements of the beam")] = 50,
    modes: Annotated[int, ParameterInfo("number of modes of the beam; 0: displacement and slope of every node")] = 20,
    formulation: Annotated[Formulation, ParameterInfo("formulation of the constrained equations")] = "partitioned",
    tension: Annotated[float, ParameterInfo("tension of the beam", "N")] = 0.0,
    damping_ratio: Annotated[float, ParameterInfo("damping ratio of the beam's modes")] = 0.0,
) -> Mechanism:
    """Double pendulum that slides along an elastic beam of 5 m; arms 1.5 m and 1 m, 20 kg each. [Lipinski2023, sec. 5]

    The start is the equilibrium at mid-span under the torque `preload_torque` (N m) between the arms. This torque is
    removed when the motion starts. Outputs: midspan (deflection in m, positive down), contact_position (m),
    contact_force (N). With 20 modes, RK4 needs a step size of at most 0.5 ms; implicit_midpoint and generalized_alpha
    work at 1 ms.

    modes    number of modes of the beam; with 0, the coordinates are displacement and slope of every node
    gravity  downward acceleration of gravity (m/s2)
    tension  tension of the beam (N)
    """
    name = "lipinski_pendulum"
    require_positive(name, gravity=gravity)
    require_whole(name, 1, elements=elements)
    require_whole(name, 0, modes=modes)
    require_finite_number(name, preload_torque=preload_torque)
    require_choice(name, "supports", supports, SUPPORTS)
    require_choice(name, "formulation", formulation, FORMULATIONS)
    beam = Beam(
        name="beam",
        length=BEAM_LENGTH,
        elements=elements,
        mass_per_length=DENSITY * AREA,
        bending_stiffness=YOUNG * AREA_MOMENT,
        tension=tension,
        supports=supports,
        modes=modes,
        damping_ratio=damping_ratio,
    )
    angles = preloaded_angles(gravity, preload_torque)
    described: dict[str, Any] = {
        "name": name,
        "coordinates": "joint",
        "bodies": _bodies(),
        "joints": _joints(),
        "constraints": (BeamContact(name="contact", beam="beam", body="hook", dependent="drop"),),
        "beams": (beam,),
        "outputs": (
            DeflectionOutput(name="midspan", beam="beam", x=BEAM_LENGTH / 2),
            JointOutput(name="contact_position", joint="slide"),
            ContactForceOutput(name="contact_force", contact="contact"),
        ),
        "gravity": (0.0, 0.0, -gravity),
        "formulation": formulation,
        "parameters": {
            "gravity": gravity,
            "preload_torque": preload_torque,
            "elements": elements,
            "modes": modes,
            "tension": tension,
            "damping_ratio": damping_ratio,
        },
    }
    given = Mechanism(**{**described, "formulation": "schur"})
    check_fields(given, f"robot {name!r}")
    check_beams(given, f"robot {name!r}")
    q = _start(beam, gravity, angles, formulation not in ("schur", "augmented"))
    return Mechanism(**described, initial_q=q, initial_v=(0.0,) * len(q))


def preloaded_angles(gravity: float, torque: float) -> tuple[float, float]:
    """Angles (rad) of the joints `upper` and `lower` in equilibrium under a torque (N m) between the arms.

    Raises InvalidRequest, with the largest permitted torque, if there is no equilibrium.
    """
    lower = gravity * ARM_MASS * LOWER_LENGTH / 2
    upper = gravity * ARM_MASS * (UPPER_LENGTH / 2 + UPPER_LENGTH)
    most = min(lower, upper)
    if abs(torque) > most * (1 + 1e-12):
        raise InvalidRequest(
            f"robot 'lipinski_pendulum': preload_torque is {torque} N m; at gravity {gravity} m/s2 it must be at "
            f"most {most:.6g} N m for the arms to be in equilibrium"
        )
    q3 = -math.asin(max(-1.0, min(1.0, torque / upper)))
    return q3, math.asin(max(-1.0, min(1.0, torque / lower))) - q3


def _start(beam: Beam, gravity: float, angles: tuple[float, float], partitioned: bool) -> tuple[float, ...]:
    model, middle = beam_model(beam), beam.length / 2
    q = model.equilibrium(beam.mass_per_length * gravity, [(middle, 2 * ARM_MASS * gravity)])
    drop = float(model.shape(middle) @ q)
    rigid = (middle, *angles) if partitioned else (middle, drop, *angles)
    return (*rigid, *q.tolist())


def _bodies() -> tuple[Body, ...]:

    def massless(name: str, *shapes: Shape) -> Body:
        return Body(name=name, mass=0.0, inertia=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0), shapes=shapes)

    def arm(name: str, length: float) -> Body:
        return Body(
            name=name,
            mass=ARM_MASS,
            inertia=(ARM_INERTIA, ARM_INERTIA, 0.0, 0.0, 0.0, 0.0),
            center_of_mass=(0.0, 0.0, -length / 2),
            shapes=(Shape(kind="line", points=(0.0, 0.0, 0.0, 0.0, 0.0, -length)),),
        )

    return (
        massless("trolley"),
        massless("hook", Shape(kind="sphere", size=(0.03,))),
        arm("upper_arm", UPPER_LENGTH),
        arm("lower_arm", LOWER_LENGTH),
    )


def _joints() -> tuple[Joint, ...]:
    return (
        Joint(name="slide", kind="prismatic", child="trolley", axis=X),
        Joint(name="drop", kind="prismatic", parent="trolley", child="hook", axis=DOWN),
        Joint(name="upper", parent="hook", child="upper_arm", axis=Y),
        Joint(name="lower", parent="upper_arm", child="lower_arm", axis=Y, parent_point=(0.0, 0.0, -UPPER_LENGTH)),
    )

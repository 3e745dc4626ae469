"""Man's planar crank-slider in five coordinates. [Man2025, example 2; L2 in its equations is half the rod]"""

from __future__ import annotations

import math
from typing import Literal

from robots.parameters import require_choice
from sim_core.mechanism import Body, Joint, Mechanism, PointOutput, Shape, X

CRANK, ROD = 0.2, 0.35


def crank_slider(start: Literal["consistent", "printed"] = "consistent") -> Mechanism:
    """Crank 0.2 m (J 45 kg m2), rod 0.35 m (3.5 kg, J 3.5), slider 2.5 kg along x; crank at 0 turning at pi/3 rad/s.

    start  "consistent" velocities, or "printed": the paper's, which leave row 2 open by 0.2094 m/s
    """
    require_choice("crank_slider", "start", start, ("consistent", "printed"))
    half, rate = ROD / 2, math.pi / 3
    # At crank angle 0 rod and slider lie along x: y2' and theta2' follow from the pin's speed.
    pin = CRANK * rate
    velocity = (rate, 0.0, pin / 2, -pin / ROD, 0.0) if start == "consistent" else (rate, 0.0, 0.0, 0.0, 0.0)
    return Mechanism(
        name="crank_slider",
        coordinates="absolute",
        bodies=(
            Body(
                name="crank",
                mass=20.0,
                inertia=(0.0, 0.0, 45.0, 0.0, 0.0, 0.0),
                free=("theta",),
                shapes=(Shape(kind="line", points=(0.0, 0.0, 0.0, CRANK, 0.0, 0.0)),),
            ),
            Body(
                name="rod",
                mass=3.5,
                inertia=(0.0, 0.0, 3.5, 0.0, 0.0, 0.0),
                shapes=(Shape(kind="line", points=(-half, 0.0, 0.0, half, 0.0, 0.0)),),
            ),
            Body(
                name="slider",
                mass=2.5,
                inertia=(0.0, 0.0, 0.02, 0.0, 0.0, 0.0),
                free=("x",),
                shapes=(Shape(kind="box", size=(0.06, 0.04, 0.04)),),
            ),
        ),
        joints=(
            Joint(name="crank", child="crank"),
            Joint(
                name="crank_pin",
                parent="crank",
                child="rod",
                parent_point=(CRANK, 0.0, 0.0),
                child_point=(-half, 0.0, 0.0),
            ),
            Joint(name="slider_pin", parent="rod", child="slider", parent_point=(half, 0.0, 0.0)),
            Joint(name="slider", kind="prismatic", child="slider", axis=X),
        ),
        outputs=(PointOutput(name="slider", body="slider", axes="x"),),
        gravity=(0.0, -9.81, 0.0),
        initial_q=(0.0, CRANK + half, 0.0, 0.0, CRANK + ROD),
        initial_v=velocity,
        parameters={"crank_length": CRANK, "rod_length": ROD},
    )

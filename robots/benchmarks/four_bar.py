"""Parallelogram four-bar, which passes positions with all bars collinear.

At these positions the mechanism may cease to be a parallelogram: coupler and ground may cross afterwards. SOURCES.md
lists the sources of the numbers.
"""

from __future__ import annotations

import math

from sim_core.mechanism import Body, Joint, Mechanism, PointOutput, Shape

CRANK, COUPLER = 0.5, 1.0
START, RATE = 1.0, 6.0  # rad, rad/s


def parallelogram_four_bar() -> Mechanism:
    """Four-bar with crank and rocker 0.5 m, coupler and ground 1 m; crank at 1 rad, rotating at 6 rad/s.

    Each bar is uniform with 1 kg. The model has absolute coordinates, four revolute joints and eight constraint rows;
    gravity acts along -y. The coupler translates while the mechanism is a parallelogram.
    """
    c, s = math.cos(START), math.sin(START)
    half = CRANK / 2
    pin = (-CRANK * s * RATE, CRANK * c * RATE)  # velocity of both upper pins
    return Mechanism(
        name="parallelogram_four_bar",
        coordinates="absolute",
        bodies=(_bar("crank", CRANK), _bar("coupler", COUPLER), _bar("rocker", CRANK)),
        joints=(
            Joint(name="crank", child="crank", child_point=(-half, 0.0, 0.0)),
            Joint(
                name="left_pin",
                parent="crank",
                child="coupler",
                parent_point=(half, 0.0, 0.0),
                child_point=(-COUPLER / 2, 0.0, 0.0),
            ),
            Joint(
                name="right_pin",
                parent="coupler",
                child="rocker",
                parent_point=(COUPLER / 2, 0.0, 0.0),
                child_point=(half, 0.0, 0.0),
            ),
            Joint(name="rocker", child="rocker", parent_point=(COUPLER, 0.0, 0.0), child_point=(-half, 0.0, 0.0)),
        ),
        outputs=(PointOutput(name="coupler", body="coupler", axes="xy"),),
        gravity=(0.0, -9.81, 0.0),
        initial_q=(
            *(half * c, half * s, START),
            *(CRANK * c + COUPLER / 2, CRANK * s, 0.0),
            *(COUPLER + half * c, half * s, START),
        ),
        initial_v=(
            *(pin[0] / 2, pin[1] / 2, RATE),
            *(*pin, 0.0),
            *(pin[0] / 2, pin[1] / 2, RATE),
        ),
        parameters={"crank_length": CRANK, "coupler_length": COUPLER, "mass": 1.0},
    )


def _bar(name: str, length: float) -> Body:
    return Body(
        name=name,
        mass=1.0,
        inertia=(0.0, 0.0, length**2 / 12, 0.0, 0.0, 0.0),
        shapes=(Shape(kind="line", points=(-length / 2, 0.0, 0.0, length / 2, 0.0, 0.0)),),
    )

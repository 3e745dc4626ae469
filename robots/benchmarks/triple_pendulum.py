"""Planar triple pendulum from two papers on stabilization. [NadaBayoumi2024, sec. 3.3] [Man2025, example 1]

SOURCES.md lists the sources of the numbers.
"""

from __future__ import annotations

from typing import Annotated, Literal

from robots.parameters import ParameterInfo, require_choice, require_positive
from sim_core.errors import InvalidRequest
from sim_core.mechanism import ORIGIN, Body, Joint, Mechanism, PointOutput, Shape


def triple_pendulum(
    variant: Annotated[
        Literal["nada", "man"], ParameterInfo("bars of Nada (0.3 m, 0.25 kg) or of Man (2 m, 1 kg)")
    ] = "nada",
    coordinates: Annotated[Literal["absolute", "joint"], ParameterInfo("coordinates of the description")] = "absolute",
    shift: Annotated[float, ParameterInfo("displacement of the last body along x at the start (absolute)", "m")] = 0.0,
    links: Annotated[int, ParameterInfo("number of bars")] = 3,
) -> Mechanism:
    """Triple pendulum of equal bars in a row, horizontal along +x and at rest, gravity along -y.

    variant  "nada": bars of length l = 0.3 m, mass m = 0.25 kg, inertia m l^2 / 12; "man": bars of length 2 m, mass 1
             kg, inertia 0.001 kg m2
    shift    displacement of the last bar along x at the start (m), which violates the constraints; only with absolute
             coordinates
    links    number of bars
    """
    name = "triple_pendulum"
    require_choice(name, "variant", variant, ("nada", "man"))
    require_choice(name, "coordinates", coordinates, ("absolute", "joint"))
    require_positive(name, links=links)
    if shift and coordinates == "joint":
        raise InvalidRequest(
            f"robot {name!r}: shift is {shift}, but joint coordinates cannot violate the constraints; "
            "use coordinates='absolute'"
        )
    length, mass = (0.3, 0.25) if variant == "nada" else (2.0, 1.0)
    J = mass * length**2 / 12 if variant == "nada" else 0.001
    half = length / 2
    bar = Shape(kind="line", points=(-half, 0.0, 0.0, half, 0.0, 0.0))
    bodies = tuple(
        Body(name=f"bar_{i + 1}", mass=mass, inertia=(0.0, 0.0, J, 0.0, 0.0, 0.0), shapes=(bar,)) for i in range(links)
    )
    joints = tuple(
        Joint(
            name=f"joint_{i + 1}",
            parent="ground" if i == 0 else f"bar_{i}",
            child=f"bar_{i + 1}",
            parent_point=ORIGIN if i == 0 else (half, 0.0, 0.0),
            child_point=(-half, 0.0, 0.0),
        )
        for i in range(links)
    )
    placed = [c for i in range(links) for c in (half + i * length, 0.0, 0.0)]
    placed[-3] += shift
    n = len(placed) if coordinates == "absolute" else links
    return Mechanism(
        name=name,
        coordinates=coordinates,
        bodies=bodies,
        joints=joints,
        outputs=(PointOutput(name="tip", body=f"bar_{links}", point=(half, 0.0, 0.0), axes="xy"),),
        gravity=(0.0, -9.81, 0.0),
        initial_q=tuple(placed) if coordinates == "absolute" else (0.0,) * n,
        initial_v=(0.0,) * n,
        open_start=shift != 0.0,
        parameters={"length": length, "mass": mass, "inertia": J},
    )

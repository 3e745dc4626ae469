"""A four-bar linkage driven by a slider, described by where its bars start and end, and run under every stabilizer."""

from math import atan2, dist

import rich

from armswing import assemble, comparison
from armswing.mechanism import GROUND, Actuator, Body, Joint, Mechanism, Spring, X

BASE = 0.6  # m between the axes of crank and rocker, both of which start upright
BARS = {
    "rod": ((-0.15, 0.0), (0.0, 0.2)),
    "crank": ((0.0, 0.0), (0.0, 0.2)),
    "coupler": ((0.0, 0.2), (0.6, 0.45)),
    "rocker": ((BASE, 0.0), (0.6, 0.45)),
}
PINS = (  # name, then the two bodies, each with how far along its length
    ("slider_pin", "slider", 0, "rod", 0),
    ("crank_pin", "rod", 1, "crank", 1),
    ("coupler_pin", "crank", 1, "coupler", 0),
    ("rocker_pin", "coupler", 1, "rocker", 1),
    ("crank", GROUND, 0, "crank", 0),
    ("rocker", GROUND, 1, "rocker", 0),
)


def my_linkage(speed=1.0, mass_per_length=2.0) -> Mechanism:
    lengths = {GROUND: BASE, "slider": 0.0} | {name: dist(*ends) for name, ends in BARS.items()}
    bodies = [Body(name="slider", mass=0.5, inertia=(0, 0, 1e-3, 0, 0, 0), free=("x",))]
    q, v = [BARS["rod"][0][0]], [speed]
    for name, (start, end) in BARS.items():
        length, mass = lengths[name], lengths[name] * mass_per_length
        inertia, center = (0, 0, mass * length**2 / 12, 0, 0, 0), (length / 2, 0, 0)
        bodies.append(Body(name=name, mass=mass, inertia=inertia, center_of_mass=center))
        q += [*start, atan2(end[1] - start[1], end[0] - start[0])]
        v += [0, 0, -speed / length] if name in ("crank", "rocker") else [speed, 0, 0]
    joints = [Joint(name="rail", kind="prismatic", child="slider", axis=X)]
    for name, parent, along, child, far in PINS:
        points = {"parent_point": (along * lengths[parent], 0, 0), "child_point": (far * lengths[child], 0, 0)}
        joints.append(Joint(name=name, parent=parent, child=child, **points))
    pull = Spring(name="pull", body_a=GROUND, point_a=(0, 0, 0), body_b="rod", point_b=(0, 0, 0), stiffness=20.0)
    drive = Actuator(name="rail", joint="rail")
    parts = {"bodies": tuple(bodies), "joints": tuple(joints), "springs": (pull,), "actuators": (drive,)}
    start = {"initial_q": tuple(q), "initial_v": tuple(v)}
    return Mechanism(name="my_linkage", coordinates="absolute", gravity=(0, -9.81, 0), **parts, **start)


if __name__ == "__main__":
    rows = comparison.compare(assemble(my_linkage()), seconds=10.0, step_s=1e-3)
    rich.print(comparison.table(rows, "10 s at 1 ms"))

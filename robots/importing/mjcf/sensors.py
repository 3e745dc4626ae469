"""Sensors of an MJCF file as outputs: accelerometers, gyroscopes, and positions and velocities of points."""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np

from robots.importing.mjcf.compiled import Compiled
from robots.importing.mjcf.geoms import quaternion_of
from robots.importing.rotations import Array, vector
from sim_core.mechanism import GROUND, AccelerometerOutput, GyroscopeOutput, Output, PointOutput
from sim_core.mechanism.outputs import VelocityOutput

KINDS = {int(kind): name.removeprefix("mjSENS_").lower() for name, kind in mujoco.mjtSensor.__members__.items()}
OBJECTS = {int(kind): name.removeprefix("mjOBJ_").lower() for name, kind in mujoco.mjtObj.__members__.items()}
STATES = ("jointpos", "jointvel", "ballquat", "ballangvel", "clock")  # of every recording


def sensors_of(compiled: Compiled) -> Iterator[Output]:
    """Yield the sensors of a file as outputs of the mechanism; those that are not read get a note."""
    model, taken = compiled.model, set[str]()
    for index in range(model.nsensor):
        kind, element = KINDS[int(model.sensor_type[index])], compiled.element("sensor", index)
        name = compiled.name("sensor", index) or f"{kind}{index + 1}"
        place = _place(compiled, int(model.sensor_objtype[index]), int(model.sensor_objid[index]))
        relative = kind.startswith("frame") and model.sensor_refid[index] >= 0
        if place is None or relative or place[0] == GROUND or name in taken:
            if kind not in STATES:
                compiled.notes.add(element, f"a sensor of the kind {kind} is not read: the robot lacks this sensor")
            continue
        taken.add(name)
        body, p, quaternion = place
        point = vector(p)
        if kind == "accelerometer":
            yield AccelerometerOutput(name=name, body=body, point=point, quaternion=quaternion_of(quaternion))
        elif kind == "gyro":
            yield GyroscopeOutput(name=name, body=body, quaternion=quaternion_of(quaternion))
        elif kind == "framepos":
            yield PointOutput(name=name, body=body, point=point)
        elif kind == "framelinvel":
            yield VelocityOutput(name=name, body=body, point=point)
        elif kind not in STATES:
            compiled.notes.add(element, f"a sensor of the kind {kind} is not read: the robot lacks this sensor")


def _place(compiled: Compiled, kind: int, index: int) -> tuple[str, Array, Array] | None:
    """(body, point, quaternion in the body's frame) of a site, geom or body; None for other objects."""
    m = compiled.model
    if OBJECTS[kind] == "site":
        return compiled.bodies[m.site_bodyid[index]], m.site_pos[index], m.site_quat[index]
    if OBJECTS[kind] == "geom":
        return compiled.bodies[m.geom_bodyid[index]], m.geom_pos[index], m.geom_quat[index]
    if OBJECTS[kind] == "body":  # the frame of its principal axes of inertia
        return compiled.bodies[index], m.body_ipos[index], m.body_iquat[index]
    if OBJECTS[kind] == "xbody":
        return compiled.bodies[index], np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
    return None

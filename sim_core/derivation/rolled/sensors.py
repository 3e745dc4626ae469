"""Accelerometers and force-torque sensors of rolled kernels: from the motion of a link, and the wrench on it.

The motions are those under the accelerations that the kernel has solved for. The wrench on a link, summed over all
links that it carries, is what its joint exerts, because inertia minus all other forces is left for the joint. Fixed
joints with sensors have wrenches of their own, see load_cells.py.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from sim_core.derivation.rolled.tree.links import Links, Place
from sim_core.derivation.rolled.tree.sweeps import Slot, matrix
from sim_core.derivation.sensors import Sensors, axes_of
from sim_core.kernels.rolled import Records
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.outputs import AccelerometerOutput, ForceTorqueOutput, Sensor


class LinkSensors(Sensors):
    """Readings of sensors as expressions of records of links.

    inputs       slots of the records that the readings so far depend on, and where they are
    need_wrench  whether a reading depends on the array "wrench" (see `Links.records`)
    """

    def __init__(self, mechanism: Mechanism, links: Links, gyroscopes: Sensors) -> None:
        self._mechanism, self._links, self._gyroscopes = mechanism, links, gyroscopes
        self._symbols_of: dict[tuple[str, int], ca.SX] = {}

    @property
    def inputs(self) -> list[tuple[Slot, Records]]:
        """Slots of the records that the readings depend on, and the records."""
        return [(Slot(array, symbol), Records(array, symbol.numel(), [link]))
                for (array, link), symbol in self._symbols_of.items()]  # fmt: skip

    @property
    def need_wrench(self) -> bool:
        """Whether a reading depends on wrenches."""
        return any(array == "wrench" for array, _ in self._symbols_of)

    def reading(self, sensor: Sensor) -> ca.SX:
        """The numbers (3,) or (6,) that a sensor reads, in the sensor's axes."""
        if isinstance(sensor, AccelerometerOutput):
            place = self._links.places[sensor.body]
            motion = self._record("motion", place.link, 18)
            r = self._rotation(place) @ (place.p + place.R @ np.array(sensor.point))
            return self._axes(place, sensor).T @ (motion[6:9] + matrix(motion[9:]) @ r)
        if isinstance(sensor, ForceTorqueOutput):
            joint = self._mechanism.joint(sensor.joint)
            place = self._links.places[joint.child]
            point = joint.child_point if sensor.point is None else sensor.point
            wrench = self._record("wrench", self._links.records[joint.child], 6)
            axes = self._axes(place, sensor)
            r = self._rotation(place) @ (place.p + place.R @ np.array(point))
            F = wrench[3:]
            return ca.vertcat(axes.T @ F, axes.T @ (wrench[:3] - ca.cross(r, F)))
        return self._gyroscopes.reading(sensor)

    def _axes(self, place: Place, sensor: AccelerometerOutput | ForceTorqueOutput) -> ca.SX:
        return self._rotation(place) @ place.R @ axes_of(sensor.quaternion)

    def _rotation(self, place: Place) -> ca.SX:
        return matrix(self._record("R", place.link, 9))

    def _record(self, array: str, link: int, width: int) -> ca.SX:
        key = array, self._links.count if link < 0 else link
        if key not in self._symbols_of:
            self._symbols_of[key] = ca.SX.sym(f"{array}_{key[1]}", width)
        return self._symbols_of[key]

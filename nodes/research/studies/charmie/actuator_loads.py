"""Loads of every actuator in a motion: effort over time, power, and peak and RMS effort relative to the effort limit.

CHARMIE's paper computes the forces in the closed kinematic loops mainly to choose actuators. [GoncalvesEtAl2024,
secs. 1 and 7]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robots.charmie.closed import rod_actuators
from robots.charmie.geometry import Motion, lift_actuator, tilt_actuator
from robots.charmie.loads import CharmieLoads, loads_of_motion
from robots.charmie.motions import JointMotion
from robots.charmie.parameters import Parameters
from sim_core.joint_loads import BodyMotion, efforts, motions, postures
from sim_core.mechanism import Actuator, Mechanism

Times = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class ActuatorLoad:
    """Loads of one actuator over a motion.

    limit                  effort limit, N m or N; inf without a limit
    peak, rms              peak and RMS effort, N m or N
    peak_share, rms_share  peak and RMS effort as fractions of the limit
    peak_power             largest power that the actuator delivers, W
    most_braking           largest power that the actuator absorbs, W, as a number >= 0
    """

    name: str
    unit: str
    limit: float
    peak: float
    rms: float
    peak_share: float
    rms_share: float
    peak_power: float
    most_braking: float


@dataclass(frozen=True)
class Efforts:
    """Efforts and speeds of all 21 actuators, and tensions of the springs, at the n instants `times`.

    effort, speed  (n, 21), with one column per actuator in the order of `actuators`
    tensions       {spring: tension (n,) in N}

    The actuators of the joints lift and tilt are linear: their effort is the force along the actuator, and their speed
    is the rate of its length. Every other actuator has the effort and the speed of its joint.
    """

    actuators: tuple[Actuator, ...]
    times: np.ndarray
    effort: np.ndarray
    speed: np.ndarray
    tensions: dict[str, np.ndarray]

    def of(self, name: str) -> np.ndarray:
        """Effort of the actuator `name` over time, (n,)."""
        return np.asarray(self.effort[:, [actuator.name for actuator in self.actuators].index(name)])


@dataclass(frozen=True)
class Posed:
    """State of a robot at one instant of a motion.

    q, v    joint positions and joint velocities
    moving  {name of a body: motion of this body}
    """

    q: np.ndarray
    v: np.ndarray
    moving: Mapping[str, BodyMotion]


def posed(mechanism: Mechanism, motion: JointMotion, times: Times) -> list[Posed]:
    """Joint positions, joint velocities and body motions of the open tree `mechanism` at given times of a motion."""
    found = []
    for t in times:
        q, v, a = motion(t)
        found.append(Posed(q, v, motions(mechanism, postures(mechanism, q), v, a)))
    return found


def efforts_over(p: Parameters, mechanism: Mechanism, instants: Sequence[Posed], times: Times) -> Efforts:
    """Efforts of every actuator at the instants of a motion; `mechanism` is the open tree built from the parameters
    `p`."""
    joints = [joint.name for joint in mechanism.moving_joints]
    rods = rod_actuators(p)
    actuators = tuple(rods.get(actuator.name, actuator) for actuator in mechanism.actuators)
    order = [joints.index(actuator.joint) for actuator in mechanism.actuators]
    effort, speed, pulls = [], [], []
    for instant in instants:
        loads = loads_of_motion(p, mechanism, instant.moving, instant.q)
        tau, rate = _at_actuators(p, joints, instant, loads)
        effort.append(tau[order])
        speed.append(rate[order])
        pulls.append(loads.springs)
    tensions = {name: np.array([each[name] for each in pulls]) for name in pulls[0]}
    return Efforts(actuators, np.array(times), np.array(effort), np.array(speed), tensions)


def _at_actuators(
    p: Parameters, joints: Sequence[str], instant: Posed, loads: CharmieLoads
) -> tuple[np.ndarray, np.ndarray]:
    """(efforts, speeds) of the actuators at one instant, in the order of `joints`.

    `loads` are the loads of the joints and of the linear actuators at this instant. For the joints lift and tilt, the
    effort is the force along the linear actuator, and the speed is the rate of the actuator's length.
    """
    tau, rate = np.array(efforts(instant.moving, loads.joints)), instant.v.copy()
    for name, line in (("lift", lift_actuator), ("tilt", tilt_actuator)):
        at = joints.index(name)
        tau[at] = loads.actuators[name]
        rate[at] = line(p, Motion(float(instant.q[at]), float(instant.v[at]))).length.v
    return tau, rate


def load_report(found: Efforts) -> list[ActuatorLoad]:
    """Load statistics of every actuator over the motion, one row per actuator."""
    rows = []
    for column, actuator in enumerate(found.actuators):
        effort = found.effort[:, column]
        power = effort * found.speed[:, column]
        limit = actuator.effort_limit if actuator.effort_limit is not None else np.inf
        peak, rms = float(np.abs(effort).max()), float(np.sqrt(np.mean(effort**2)))
        rows.append(
            ActuatorLoad(
                name=actuator.name,
                unit=actuator.unit,
                limit=limit,
                peak=peak,
                rms=rms,
                peak_share=peak / limit,
                rms_share=rms / limit,
                peak_power=max(float(power.max()), 0.0) + 0.0,
                most_braking=max(float(-power.min()), 0.0) + 0.0,
            )
        )
    return rows

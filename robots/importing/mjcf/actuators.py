"""Actuators of an MJCF file: motors of joints and tendons, and position actuators as servos."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import mujoco

from robots.importing.mjcf.compiled import Compiled
from robots.importing.mjcf.tendons import Tendons
from robots.importing.xml_reader import Element
from sim_core.mechanism import Actuator, Joint, Servo
from sim_core.mechanism.quantities import value_of

NOT_READ = "is not read: the robot lacks this actuator"
SMALL = 1e-9  # share of a limit by which two numbers of a file may differ and count as equal
TRANSMISSION, GAIN, BIAS, DYNAMICS = mujoco.mjtTrn, mujoco.mjtGain, mujoco.mjtBias, mujoco.mjtDyn
OF_JOINTS = (int(TRANSMISSION.mjTRN_JOINT), int(TRANSMISSION.mjTRN_JOINTINPARENT))
OF_TENDONS = int(TRANSMISSION.mjTRN_TENDON)
DELAYS = {int(DYNAMICS.mjDYN_FILTER), int(DYNAMICS.mjDYN_FILTEREXACT)}
GROUPS = 31  # groups of actuators that <option> can disable


@dataclass(frozen=True)
class Transmission:
    """How an actuator acts on its joint or tendon.

    Without a servo, the effort is gear * gain * control, where `control` is MuJoCo's control value. With a servo, the
    servo computes the effort, and `control` / gear is the position that it holds.

    servo  gains at the joint; None for an actuator without a servo
    """

    gear: float
    gain: float
    servo: Servo | None


class Actuators:
    """Reads the actuators of the joints and tendons in a file.

    The effort command of an actuator is the effort at its joint, or the pull of its tendon: for a motor, MuJoCo's
    control value times gear and gain. Actuators that cannot be read are left out with a note.
    """

    def __init__(self, compiled: Compiled, tendons: Tendons) -> None:
        self._of, self._model, self._tendons = compiled, compiled.model, tendons
        self._names = self._all_names()
        # {tendon: (name of an actuator, force per command) of each actuator that pulls it}
        self.pulling: dict[int, tuple[tuple[str, float], ...]] = {}

    def carried_by(self, joints: Sequence[Joint]) -> list[Joint]:
        """Add the armature and damping of actuators to the joints that they drive; returns all joints."""
        m, found = self._model, {joint.name: joint for joint in joints}
        for index in range(m.nactuator):
            armature, damping = float(m.actuator_armature[index]), float(m.actuator_damping[index])
            higher = m.actuator_dampingpoly[index].any()
            damping = 0.0 if self._of.is_disabled("damper") else damping
            if armature == damping == 0.0 and not higher:
                continue
            joint = found.get(self._joint(index))
            with self._of.errors.collected():
                if joint is None or joint.coordinates != (joint.name,) or higher:
                    self._element(index).fail(
                        "armature and damping are supported only of an actuator that drives a hinge or slide joint, "
                        "and only damping with one number; remove them"
                    )
                ratio = float(m.actuator_gear[index][0]) ** 2
                armature = value_of(joint.armature) + ratio * armature
                found[joint.name] = replace(joint, armature=armature, damping=value_of(joint.damping) + ratio * damping)
        return list(found.values())

    def read(self, joints: Sequence[Joint]) -> tuple[Actuator, ...]:
        """The actuators of the file, with their effort limits and servos.

        joints  all joints of the mechanism
        """
        known, found = {joint.name: joint for joint in joints}, dict[str, Actuator]()
        for index in range(self._model.nactuator):
            actuator = self._read(index, known)
            if actuator is not None:
                found[actuator.name] = actuator
        driving = Counter(actuator.joint for actuator in found.values())
        return tuple(self._within_range(actuator, driving[actuator.joint]) for actuator in found.values())

    def _all_names(self) -> list[str]:
        """Names of all actuators; one without a name has that of its joint, with a number if it is taken."""
        taken = {self._of.name("actuator", index) for index in range(self._model.nactuator)}
        found = []
        for index in range(self._model.nactuator):
            name, base = self._of.name("actuator", index), self._joint(index) or "actuator"
            if not name:
                numbered = itertools.chain([base], (f"{base}.{number}" for number in itertools.count(2)))
                name = next(each for each in numbered if each not in taken)
                taken.add(name)
            found.append(name)
        return found

    def _joint(self, index: int) -> str:
        """Name of the joint that an actuator drives; "" if it drives none."""
        of_joint = int(self._model.actuator_trntype[index]) in OF_JOINTS
        return self._of.joints[self._model.actuator_trnid[index][0]] if of_joint else ""

    def _element(self, index: int) -> Element:
        element = self._of.element("actuator", index)
        element.label = f"actuator {self._names[index]!r}"
        return element

    def _read(self, index: int, joints: dict[str, Joint]) -> Actuator | None:
        element, name = self._element(index), self._names[index]
        kind, target = int(self._model.actuator_trntype[index]), int(self._model.actuator_trnid[index][0])
        if self._is_disabled(index):
            self._of.notes.add(element, "the actuator is disabled in <option>, and is not read")
            return None
        pulls = kind == OF_TENDONS and self._tendons.can_pull(target)
        if kind not in OF_JOINTS and not pulls:
            self._of.notes.add(element, f"an actuator that drives neither a joint nor a tendon of sites {NOT_READ}")
            return None
        joint = joints[self._joint(index)] if kind in OF_JOINTS else None
        if joint is not None and joint.orientation_names:
            self._of.notes.add(element, f"an actuator of a {joint.kind} joint {NOT_READ}")
            return None
        does = self._transmission(index, element)
        if does is None:
            return None
        if does.servo is not None and joint is None:
            self._of.notes.add(element, f"an actuator that holds the length of a tendon {NOT_READ}")
            return None
        self._note_delays(index, element)
        if does.servo is not None and joint is not None:
            self._note_positions(index, element, does.gear, joint)
        elif abs(does.gear * does.gain) != 1.0:
            factor = "gear" if does.gain == 1.0 else "gear and gain (gainprm)"
            where = "at the joint" if joint is not None else "along the tendon"
            self._of.notes.add(element, f"commands are efforts {where}: {factor} times MuJoCo's control")
        if joint is None:
            self.pulling[target] = (*self.pulling.get(target, ()), (name, 1.0))
            unit = "N m" if self._tendons.turns(target) else "N"
        else:
            unit = ""
        limit = self._effort_limit(index, element, does)
        return Actuator(name=name, joint=joint.name if joint else "", unit=unit, effort_limit=limit, servo=does.servo)

    def _is_disabled(self, index: int) -> bool:
        """Whether <option> disables all actuators, or the group to which this actuator belongs."""
        group, disabled = int(self._model.actuator_group[index]), int(self._model.opt.disableactuator)
        return self._of.is_disabled("actuation") or (0 <= group < GROUPS and bool(disabled >> group & 1))

    def _note_delays(self, index: int, element: Element) -> None:
        given = ["timeconst (dynprm)"] if int(self._model.actuator_dyntype[index]) in DELAYS else []
        given += ["delay"] if self._model.actuator_delay[index] != 0.0 else []
        if given:
            self._of.notes.add(element, f"{' and '.join(given)} is not read: commands act without delay")

    def _transmission(self, index: int, element: Element) -> Transmission | None:
        """Gear, gain and servo of an actuator; None, with a note, if it is neither a motor nor a servo."""
        m = self._model
        gear, gain = float(m.actuator_gear[index][0]), float(m.actuator_gainprm[index][0])
        constant, of_position, of_velocity = m.actuator_biasprm[index][:3].tolist()
        biased = int(m.actuator_biastype[index])
        dynamic = int(m.actuator_dyntype[index]) not in (int(DYNAMICS.mjDYN_NONE), *DELAYS)
        plain = int(m.actuator_gaintype[index]) == int(GAIN.mjGAIN_FIXED) and not dynamic and gain * gear != 0.0
        affine = biased == int(BIAS.mjBIAS_AFFINE)
        unbiased = biased == int(BIAS.mjBIAS_NONE) or (affine and constant == of_position == of_velocity == 0.0)
        if plain and unbiased:
            return Transmission(gear, gain, None)
        if plain and gain > 0.0 and affine and constant == 0.0 and of_position == -gain and of_velocity <= 0.0:
            return Transmission(gear, gain, Servo(stiffness=gain * gear * gear, damping=-of_velocity * gear * gear))
        self._of.notes.add(
            element,
            "an actuator whose gain (gaintype, gainprm, gear), bias (biastype, biasprm) and state (dyntype) are "
            f"not those of a motor or servo {NOT_READ}",
        )
        return None

    def _effort_limit(self, index: int, element: Element, does: Transmission) -> float | None:
        """Largest effort at the joint, N m or N, that the ranges of control and force permit; None for no limit."""
        m, limits = self._model, []
        place = int(m.actuator_ctrladr[index])
        if does.servo is None and m.actuator_ctrllimited[place] and not self._of.is_disabled("clampctrl"):
            size = self._size(element, "ctrlrange", *m.actuator_ctrlrange[place].tolist())
            limits.append(abs(does.gear * does.gain) * size)
        place = int(m.actuator_outadr[index])
        if m.actuator_forcelimited[place]:
            limits.append(abs(does.gear) * self._size(element, "forcerange", *m.actuator_forcerange[place].tolist()))
        return min([limit for limit in limits if limit > 0.0], default=None)

    def _size(self, element: Element, name: str, lower: float, upper: float) -> float:
        """Largest absolute value in a range. Adds a note if the range is not symmetric, because effort limits are.

        name  attribute with the range, for the note
        """
        if abs(lower + upper) > SMALL * max(abs(lower), abs(upper)):
            self._of.notes.add(
                element, f"{name} is not symmetric; the larger of its bounds limits efforts on both sides"
            )
        return max(abs(lower), abs(upper))

    def _note_positions(self, index: int, element: Element, gear: float, joint: Joint) -> None:
        """Add notes where position commands differ from MuJoCo's control.

        They differ if `gear` is not 1, because a position command is a position of the joint. They also differ if the
        range of the control is not that of the joint's limits, because the latter limit position commands.
        """
        if gear != 1.0:
            self._of.notes.add(element, "position commands are those of the joint: MuJoCo's control divided by gear")
        place = int(self._model.actuator_ctrladr[index])
        if not self._model.actuator_ctrllimited[place]:
            return
        bounds = sorted(bound / gear for bound in self._model.actuator_ctrlrange[place].tolist())
        stops = [-math.inf if joint.lower is None else joint.lower, math.inf if joint.upper is None else joint.upper]
        if not all(math.isclose(bound, stop, rel_tol=SMALL) for bound, stop in zip(bounds, stops, strict=True)):
            self._of.notes.add(
                element,
                "the range of its control (ctrlrange, inheritrange) is not read: position commands are limited by the "
                "joint's limits alone",
            )

    def _within_range(self, actuator: Actuator, driving: int) -> Actuator:
        """The actuator with its effort limit reduced to the `actuatorfrcrange` of its joint, if the joint has one.

        MuJoCo limits the sum of the forces of all actuators of a joint by this range. If several actuators drive the
        joint, each of them gets the whole range as its limit, and a note is added.

        driving  number of actuators that drive the joint
        """
        if not actuator.joint:
            return actuator
        joint = self._of.joints.index(actuator.joint)
        if not self._model.jnt_actfrclimited[joint]:
            return actuator
        element = self._of.element("joint", joint)
        if driving > 1:
            self._of.notes.add(
                element, f"actuatorfrcrange limits each of the {driving} actuators of the joint, not their sum"
            )
        limit = self._size(element, "actuatorfrcrange", *self._model.jnt_actfrcrange[joint].tolist())
        return replace(actuator, effort_limit=min(actuator.effort_limit or math.inf, limit))

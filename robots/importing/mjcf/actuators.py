"""Actuators of an MJCF file: motors, and position actuators as servos."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from robots.importing.mjcf.document import Defaults
from robots.importing.mjcf.joints import not_negative
from robots.importing.mjcf.schema import CHILDREN
from robots.importing.mjcf.unread import is_disabled, note_attributes
from robots.importing.notes import Notes
from robots.importing.xml_reader import Element
from sim_core.mechanism import Actuator, Joint, Servo
from sim_core.mechanism.quantities import value_of

# names of gains, which an element also takes from a default of another kind of actuator
GAINS = ("kp", "kv", "gainprm", "biasprm", "gaintype", "biastype", "dyntype", "timeconst", "dampratio")
GAINS_OF: dict[str, tuple[str, ...]] = {
    "general": ("gainprm", "biasprm", "gaintype", "biastype", "dyntype"),
    "position": ("kp", "kv", "timeconst", "dampratio"),
}
NOT_READ = "is not read: the robot lacks this actuator"
SMALL = 1e-9  # share of a limit by which two numbers of a file may differ and count as equal


@dataclass(frozen=True)
class Transmission:
    """How an actuator acts on its joint.

    Without a servo, the effort at the joint is gear * gain * control, where `control` is MuJoCo's control value. With a
    servo, the servo computes the effort, and `control` / gear is the position that it holds.

    servo  gains at the joint; None for an actuator without a servo
    """

    gear: float
    gain: float
    servo: Servo | None


class Actuators:
    """Reads the actuators of the moving joints in an MJCF file.

    The effort command of an actuator is the effort at its joint: for a motor, MuJoCo's control value times gear and
    gain. Actuators that cannot be read are left out with a warning.

    joints  {joint: its XML element, with the attributes of its default class}
    """

    def __init__(
        self,
        root: Element,
        defaults: Defaults,
        compiler: Mapping[str, str],
        joints: Mapping[str, Element],
        notes: Notes,
    ) -> None:
        self._root, self._joints, self._notes = root, joints, notes
        self._automatic = compiler.get("autolimits", "true") == "true"
        self._elements: list[Element] = []
        taken = {child.attributes.get("name") for holder in root.all("actuator") for child in holder.children}
        for holder in root.all("actuator"):
            for child in holder.children:
                element = defaults.applied(child)
                if not element.attributes.get("name"):
                    element.attributes["name"] = _free_name(element, taken)
                taken.add(element.attributes["name"])
                element.label = f"actuator {element.attributes['name']!r}"
                self._elements.append(element)

    def carried_by(self, joints: Sequence[Joint]) -> list[Joint]:
        """Add the armature and damping of actuators to the joints that they drive; returns all joints.

        Raises InvalidMechanism for armature or damping of an actuator that does not drive a joint of one coordinate.
        """
        found = {joint.name: joint for joint in joints}
        for element in self._elements:
            armature, damping = not_negative(element, "armature"), not_negative(element, "damping")
            if armature == damping == 0.0:
                continue
            joint = found.get(element.attributes.get("joint", ""))
            if joint is None or joint.coordinates != (joint.name,):
                element.fail(
                    "armature and damping are supported only of an actuator that drives a hinge or slide joint; "
                    "remove them"
                )
            ratio = _gear(element) ** 2
            armature, damping = value_of(joint.armature) + ratio * armature, value_of(joint.damping) + ratio * damping
            found[joint.name] = replace(joint, armature=armature, damping=damping)
        return list(found.values())

    def read(self, joints: Sequence[Joint]) -> tuple[Actuator, ...]:
        """Return the actuators of the file, with their effort limits and servos.

        joints  all joints of the mechanism
        """
        known = {joint.name: joint for joint in joints if joint.kind != "fixed"}
        found: dict[str, Actuator] = {}
        for element in self._elements:
            for actuator in self._read(element, known):
                if actuator.name in found:
                    element.fail(f"two actuators are named {actuator.name!r}; names must be unique")
                found[actuator.name] = actuator
        driving = Counter(actuator.joint for actuator in found.values())
        return tuple(self._within_range(actuator, driving[actuator.joint]) for actuator in found.values())

    def _read(self, element: Element, joints: Mapping[str, Joint]) -> Iterator[Actuator]:
        target = element.attributes.get("joint")
        if element.tag not in CHILDREN["actuator"].split():
            element.fail("MuJoCo has no actuator with this tag; use motor or position")
        if self._is_disabled(element):
            self._notes.add(element, "the actuator is disabled in <option>, and is not read")
            return
        if target is not None and target not in joints:
            element.fail(f"the model has no joint {target!r}; its joints are {', '.join(joints)}")
        if target is None:
            self._notes.add(element, f"an actuator that does not drive a joint {NOT_READ}")
            return
        joint = joints[target]
        if joint.orientation_names:
            self._notes.add(element, f"an actuator of a {joint.kind} joint {NOT_READ}")
            return
        does = self._transmission(element)
        if does is None:
            return
        note_attributes(element, "actuator", self._notes)
        if does.servo is None and abs(does.gear * does.gain) != 1.0:
            factor = "gear" if does.gain == 1.0 else "gear and gain"
            self._notes.add(element, f"commands are efforts at the joint: {factor} times MuJoCo's control")
        if does.servo is not None:
            self._note_positions(element, does.gear, joint)
        yield Actuator(
            name=element.attributes["name"],
            joint=target,
            unit="N" if joint.kind == "prismatic" else "N m",
            effort_limit=self._effort_limit(element, does),
            servo=does.servo,
        )

    def _is_disabled(self, element: Element) -> bool:
        """Whether <option> disables all actuators, or the group to which this actuator belongs."""
        groups = [word for option in self._root.all("option") for word in _words(option, "actuatorgroupdisable")]
        return is_disabled(self._root, "actuation") or element.attributes.get("group", "0").strip() in groups

    def _transmission(self, element: Element) -> Transmission | None:
        """Gear, gain and servo of an actuator; None, with a note, if it is neither a motor nor a servo."""
        gear = _gear(element)
        if element.tag not in ("motor", "position", "general"):
            self._notes.add(element, f"<{element.tag}> {NOT_READ}")
            return None
        if gear == 0.0:
            element.fail("gear is 0; give a gear ratio other than 0")
        if element.tag == "motor":
            return Transmission(gear, 1.0, None)
        foreign = [name for name in GAINS if name in element.attributes and name not in GAINS_OF[element.tag]]
        if foreign:
            element.fail(
                f"{foreign[0]} comes from a default of another kind of actuator, which is not supported; write the "
                f"defaults of {element.tag} actuators as <{element.tag}>"
            )
        if element.tag == "position":
            if element.number("dampratio", 0.0) > 0.0:
                element.fail("dampratio is not supported; write kv instead")
            kp, kv = element.number("kp", 1.0), element.number("kv", 0.0)
            if not kp > 0.0:
                element.fail(f"kp is {kp:g}; it must be above 0")
            return Transmission(gear, kp, Servo(stiffness=kp * gear * gear, damping=kv * gear * gear))
        return self._general(element, gear)

    def _general(self, element: Element, gear: float) -> Transmission | None:
        """Gain and servo of a <general> actuator; None, with a note, unless it is equivalent to a motor or a servo."""
        given = element.attributes
        gain, constant, of_position, of_velocity = _first(element, "gainprm", (1.0,)) + _first(
            element, "biasprm", (0.0, 0.0, 0.0)
        )
        biased = given.get("biastype", "none")
        plain = given.get("gaintype", "fixed") == "fixed" and given.get("dyntype", "none") == "none"
        unbiased = biased == "none" or (biased == "affine" and constant == of_position == of_velocity == 0.0)
        if plain and gain != 0.0 and unbiased:
            return Transmission(gear, gain, None)
        balanced = constant == 0.0 and of_position == -gain and of_velocity <= 0.0
        if plain and gain > 0.0 and biased == "affine" and balanced:
            servo = Servo(stiffness=gain * gear * gear, damping=-of_velocity * gear * gear)
            return Transmission(gear, gain, servo)
        self._notes.add(element, f"<general> whose gain and bias are not those of a motor or servo {NOT_READ}")
        return None

    def _effort_limit(self, element: Element, does: Transmission) -> float | None:
        """Largest effort at the joint, N m or N, that the ranges of control and force permit; None for no limit."""
        limits = []
        for name, factor in (("ctrl", does.gear * does.gain), ("force", does.gear)):
            if name == "ctrl" and (does.servo is not None or is_disabled(self._root, "clampctrl")):
                continue  # the control is a position, or is not limited
            limit = self._range(element, name)
            if limit is not None:
                limits.append(abs(factor) * self._size(element, f"{name}range", *limit))
        positive = [limit for limit in limits if limit > 0.0]
        return min(positive) if positive else None

    def _range(self, element: Element, name: str) -> tuple[float, float] | None:
        """Range (lower, upper) of an actuator's control or force; None if the file does not limit it.

        name  "ctrl" for the control, "force" for the force
        """
        limited = element.attributes.get(f"{name}limited", "auto")
        given = f"{name}range" in element.attributes
        if limited == "false" or (limited == "auto" and not (self._automatic and given)):
            return None
        return self._ordered(element, f"{name}range")

    def _ordered(self, element: Element, name: str) -> tuple[float, float]:
        lower, upper = element.numbers(name, 2)
        if lower > upper:
            element.fail(f"{name} is {lower:g} to {upper:g}; the first number must not exceed the second")
        return lower, upper

    def _size(self, element: Element, name: str, lower: float, upper: float) -> float:
        """Largest absolute value in a range. Adds a note if the range is not symmetric, because effort limits are.

        name  attribute with the range, for the note
        """
        if abs(lower + upper) > SMALL * max(abs(lower), abs(upper)):
            self._notes.add(element, f"{name} is not symmetric; the larger of its bounds limits efforts on both sides")
        return max(abs(lower), abs(upper))

    def _note_positions(self, element: Element, gear: float, joint: Joint) -> None:
        """Add notes where position commands differ from MuJoCo's control.

        They differ if `gear` is not 1, because a position command is a position of the joint. They also differ if the
        range of the control is not that of the joint's limits, because the latter limit position commands.
        """
        if gear != 1.0:
            self._notes.add(element, "position commands are those of the joint: MuJoCo's control divided by gear")
        limit, inherited = self._range(element, "ctrl"), element.number("inheritrange", 0.0)
        bounds = None if limit is None else sorted(bound / gear for bound in limit)
        stops = [-math.inf if joint.lower is None else joint.lower, math.inf if joint.upper is None else joint.upper]
        differs = bounds is not None and not all(
            math.isclose(bound, stop, rel_tol=SMALL) for bound, stop in zip(bounds, stops, strict=True)
        )
        if differs or inherited not in (0.0, 1.0):
            self._notes.add(
                element,
                "the range of its control (ctrlrange) is not read: position commands are limited by the joint's limits "
                "alone",
            )

    def _within_range(self, actuator: Actuator, driving: int) -> Actuator:
        """The actuator with its effort limit reduced to the `actuatorfrcrange` of its joint, if the joint has one.

        MuJoCo limits the sum of the forces of all actuators of a joint by this range. If several actuators drive the
        joint, each of them gets the whole range as its limit, and a note is added.

        driving  number of actuators that drive the joint
        """
        element = self._joints[actuator.joint]
        limited, given = element.attributes.get("actuatorfrclimited", "auto"), "actuatorfrcrange" in element.attributes
        if limited == "false" or not given or (limited == "auto" and not self._automatic):
            return actuator
        if driving > 1:
            self._notes.add(
                element, f"actuatorfrcrange limits each of the {driving} actuators of the joint, not their sum"
            )
        limit = self._size(element, "actuatorfrcrange", *self._ordered(element, "actuatorfrcrange"))
        return replace(actuator, effort_limit=min(actuator.effort_limit or math.inf, limit))


def _free_name(element: Element, taken: Collection[str | None]) -> str:
    """Name of an actuator to which the file gives none: that of its joint, with a number if the name is taken."""
    base = element.attributes.get("joint") or element.tag
    numbered = (f"{base}.{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([base], numbered) if name not in taken)


def _words(element: Element, name: str) -> list[str]:
    return element.attributes.get(name, "").split()


def _gear(element: Element) -> float:
    return _first(element, "gear", (1.0,))[0]


def _first(element: Element, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
    """The first numbers of an attribute, as many as `default` has; missing numbers are taken from `default`."""
    given = element.numbers(name, len(element.text(name).split())) if name in element.attributes else ()
    return (*given, *default[len(given) :])[: len(default)]

"""Actuators of an MJCF file: motors, and position actuators as servos."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from robots.importing.mjcf.document import ACTUATORS, Defaults
from robots.importing.notes import Notes
from robots.importing.xml_reader import Element
from sim_core.mechanism import Actuator, Joint, Servo

MOTORS = ("motor", "position")


def actuators_of(
    root: Element, defaults: Defaults, compiler: Mapping[str, str], joints: Sequence[Joint], notes: Notes
) -> tuple[Actuator, ...]:
    """Actuators of the moving joints in an MJCF file.

    The command of an actuator is the effort at its joint, which is MuJoCo's control value times the gear. Actuators
    that cannot be read are left out with a warning.
    """
    known = {joint.name: joint for joint in joints if joint.kind != "fixed"}
    found: dict[str, Actuator] = {}
    for holder in root.all("actuator"):
        for child in holder.children:
            element = defaults.applied(child)
            for actuator in _read(element, known, compiler.get("autolimits", "true") == "true", notes):
                if actuator.name in found:
                    element.fail(f"two actuators are named {actuator.name!r}; names must be unique")
                found[actuator.name] = actuator
    return tuple(found.values())


def _read(element: Element, joints: Mapping[str, Joint], automatic: bool, notes: Notes) -> Iterator[Actuator]:
    target = element.attributes.get("joint")
    name = element.attributes.get("name") or target or element.tag
    element.label = f"actuator {name!r}"
    if element.tag not in ACTUATORS:
        element.fail("MuJoCo has no actuator with this tag; use motor or position")
    if target is not None and target not in joints:
        element.fail(f"the model has no joint {target!r}; its joints are {', '.join(joints)}")
    if element.tag not in MOTORS or target is None:
        what = f"<{element.tag}>" if target is not None else "an actuator that does not drive a joint"
        notes.add(element, f"{what} is not read: the robot lacks this actuator")
        return
    gear = _gear(element)
    if gear == 0.0:
        element.fail("gear is 0; give a gear ratio other than 0")
    if abs(gear) != 1.0 and element.tag == "motor":
        notes.add(element, "commands are efforts at the joint: gear times MuJoCo's control")
    joint = joints[target]
    if joint.orientation_names:
        notes.add(element, f"an actuator of a {joint.kind} joint is not read: the robot lacks this actuator")
        return
    yield Actuator(
        name=name,
        joint=target,
        unit="N" if joint.kind == "prismatic" else "N m",
        effort_limit=_effort_limit(element, abs(gear), automatic),
        servo=_servo(element, gear) if element.tag == "position" else None,
    )


def _gear(element: Element) -> float:
    words = element.attributes.get("gear", "1").split()
    return element.numbers("gear", len(words), (1.0,))[0]


def _effort_limit(element: Element, gear: float, automatic: bool) -> float | None:
    """Largest effort at the joint, N m or N, that the ranges of control and force permit; None for no limit.

    automatic  whether a given range is a limit unless the element says otherwise (MuJoCo's autolimits)
    """
    limits = []
    for name in ("ctrl", "force"):
        limited = element.attributes.get(f"{name}limited", "auto")
        given = f"{name}range" in element.attributes
        if limited == "false" or (limited == "auto" and not (automatic and given)):
            continue
        if name == "ctrl" and element.tag == "position":
            continue  # the control is a position
        limits.append(gear * max(map(abs, element.numbers(f"{name}range", 2))))
    positive = [limit for limit in limits if limit > 0.0]
    return min(positive) if positive else None


def _servo(element: Element, gear: float) -> Servo:
    if element.number("dampratio", 0.0) > 0.0:
        element.fail("dampratio is not supported; write kv instead")
    stiffness = element.number("kp", 1.0) * gear * gear
    if not stiffness > 0.0:
        element.fail(f"kp is {element.number('kp', 1.0):g}; it must be above 0")
    return Servo(stiffness=stiffness, damping=element.number("kv", 0.0) * gear * gear)

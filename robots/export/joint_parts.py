"""Notes about parts of joints that a model format cannot express, such as armatures, springs, dry friction and
stops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from robots.export.tree import value, velocity_limit_of
from sim_core.mechanism import Joint, Mechanism

# what of a joint a format may or may not be able to express
PARTS: dict[str, Callable[[Joint], bool]] = {
    "armature": lambda joint: value(joint.armature) != 0.0,
    "spring": lambda joint: joint.spring is not None,
    "cubic stiffness": lambda joint: joint.spring is not None and value(joint.spring.cubic) != 0.0,
    "Coulomb friction": lambda joint: joint.friction is not None and value(joint.friction.coulomb) != 0.0,
    "Stribeck friction": lambda joint: joint.friction is not None and joint.friction.static is not None,
    "friction bristle": lambda joint: bool(joint.bristle),
    "the stiffness of stops, whose limits are written": lambda joint: joint.stops is not None,
}


def left_out(mechanism: Mechanism, expressible: Collection[str], language: str) -> Iterator[str]:
    """Yield a note for each kind of joint part that the mechanism has and the format cannot express.

    expressible  kinds of parts, out of PARTS, that the format can express
    language     name of the format
    """
    for part, has in PARTS.items():
        names = [joint.name for joint in mechanism.joints if has(joint)]
        if names and part not in expressible and not (part == "cubic stiffness" and "spring" not in expressible):
            yield f"{language} cannot express {part}; left out is that of the joints {', '.join(map(repr, names))}"


def velocity_limits_left_out(mechanism: Mechanism, language: str) -> Iterator[str]:
    """Yield a note that lists the velocity limits of the actuators, for a format that cannot express them.

    No note is yielded if no actuator has a velocity limit.

    language  name of the format
    """
    found = [
        f"{joint.name!r} ({limit:g} {'m/s' if joint.is_length else 'rad/s'})"
        for joint in mechanism.joints
        if (limit := velocity_limit_of(mechanism, joint)) is not None
    ]
    if found:
        yield f"{language} cannot express velocity limits; left out are those of the joints {', '.join(found)}"


def servos_left_out(mechanism: Mechanism, language: str) -> Iterator[str]:
    """Yield a note that lists the servos of the actuators, which an exported file leaves out.

    They are left out of MJCF too: its actuators with a servo accept no effort commands, and act before the first
    command. No note is yielded if no actuator has a servo.

    language  name of the format
    """
    found = [
        f"{actuator.name!r} (stiffness {actuator.servo.stiffness:g}, damping {actuator.servo.damping:g})"
        for actuator in mechanism.actuators
        if actuator.servo is not None
    ]
    if found:
        yield f"actuators of an export take efforts in {language}; left out are the servos of {', '.join(found)}"

"""Corrections of a robot: other inertias of bodies, friction of joints and servos of actuators, from a TOML file.

build("arm_4dof", corrections="fitted.toml")

[bodies.link_4]
mass = 1.2                                    # kg
center_of_mass = [0.0, 0.01, 0.2]             # m, in the body's axes
inertia = [0.02, 0.02, 0.01, 0.0, 0.0, 0.0]   # Ixx, Iyy, Izz, Ixy, Ixz, Iyz about the centre of mass, kg m2

[joints.joint_4]
damping = 0.3                                 # N m s/rad or N s/m
coulomb = 0.5                                 # N m or N
load = 0.0
armature = 0.01                               # kg m2 or kg

[actuators.joint_4]
stiffness = 80.0                              # of its servo, N m/rad or N/m
damping = 2.7                                 # N m s/rad or N s/m
effort_limit = 45.0                           # N m or N
gain = 0.9                                    # effort at the joint over that which the actuator's sensor shows
"""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from sim_core.errors import InvalidRequest, UnknownName
from sim_core.mechanism import Actuator, Body, Joint, JointFriction, Mechanism
from sim_core.tables import misfit

Six = tuple[float, float, float, float, float, float]


class BodyCorrection(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Inertia of a body: mass, kg; centre of mass, m; inertia about it, kg m2, in the order of `Body.inertia`."""

    mass: float
    center_of_mass: tuple[float, float, float]
    inertia: Six


class JointCorrection(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Friction of a joint; fields that are None are not changed. See `Joint` and `JointFriction`.

    A joint with `coulomb` gets smooth friction in place of its own, or keeps the bristles of its own, with which it
    sticks; 0 is no dry friction.
    """

    damping: float | None = None
    load: float | None = None
    armature: float | None = None
    coulomb: float | None = None
    static: float | None = None
    stribeck_velocity: float = 0.01
    smoothing_velocity: float = 1e-3


class ActuatorCorrection(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Servo, largest effort and gain of an actuator; fields that are None are not changed. See `Actuator` and `Servo`.

    The servo and the limit are those of the effort at the joint, which has the gain.
    """

    stiffness: float | None = None
    damping: float | None = None
    effort_limit: float | None = None
    gain: float | None = None


class Corrections(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Corrections of a robot, {name: correction} of its bodies, joints and actuators; `robot` says of which."""

    robot: str = ""
    bodies: dict[str, BodyCorrection] = {}
    joints: dict[str, JointCorrection] = {}
    actuators: dict[str, ActuatorCorrection] = {}


def read_corrections(path: Path) -> Corrections:
    """The corrections in a TOML file. Raises InvalidRequest that names the file and the key."""
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text())
        if wrong := misfit(found, Corrections):
            raise InvalidRequest(f"corrections {str(path)!r}: {wrong}")
        return msgspec.convert(found, Corrections)
    except OSError as error:
        raise InvalidRequest(f"corrections {str(path)!r}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"corrections {str(path)!r} are no TOML: {error}") from None


def corrections_text(corrections: Corrections, comment: str) -> str:
    """The corrections as TOML, for `read_corrections`; `comment` stands at the beginning."""
    lines = [
        *(f"# {line}" for line in comment.splitlines()),
        f"robot = {msgspec.json.encode(corrections.robot).decode()}",
    ]
    for kind in ("bodies", "joints", "actuators"):
        for name, part in getattr(corrections, kind).items():
            lines += ["", f"[{kind}.{msgspec.json.encode(name).decode()}]"]
            for field, value in msgspec.structs.asdict(part).items():
                if value is not None:
                    shown = list(value) if isinstance(value, tuple) else value
                    lines.append(f"{field} = {msgspec.json.encode(shown).decode()}")
    return "\n".join(lines) + "\n"


def with_corrections(mechanism: Mechanism, corrections: Corrections) -> Mechanism:
    """The corrected mechanism. Raises UnknownName for a body, joint or actuator that it does not have."""
    owner = f"robot {mechanism.name!r}"
    for kind, names, parts in (
        ("body", corrections.bodies, mechanism.bodies),
        ("joint", corrections.joints, mechanism.joints),
        ("actuator", corrections.actuators, mechanism.actuators),
    ):
        known = [part.name for part in parts]
        for name in names:
            if name not in known:
                raise UnknownName(owner, kind, name, known)
    joints = tuple(_joint(joint, corrections.joints.get(joint.name)) for joint in mechanism.joints)
    return dataclasses.replace(
        mechanism,
        **_starts(mechanism, {joint.bristle for joint in joints}),
        bodies=tuple(_body(body, corrections.bodies.get(body.name)) for body in mechanism.bodies),
        joints=joints,
        actuators=tuple(_actuator(each, corrections.actuators.get(each.name)) for each in mechanism.actuators),
    )


def _starts(mechanism: Mechanism, bristles: set[str]) -> dict[str, Any]:
    """Start of the mechanism without the states of bristles that its joints no longer have.

    bristles  states of the joints' bristles after the correction
    """
    gone = {joint.bristle for joint in mechanism.moving_joints} - bristles
    states = mechanism.first_order_states
    first = mechanism.coordinate_count - len(states)
    starts = {name: getattr(mechanism, name) for name in ("initial_q", "initial_v", "reference_q")}
    kept = [place for place, state in enumerate(states, first) if state.name not in gone]
    return {name: (*at[:first], *(at[place] for place in kept if place < len(at))) for name, at in starts.items()}


def _body(body: Body, correction: BodyCorrection | None) -> Body:
    if correction is None:
        return body
    return dataclasses.replace(body, **msgspec.structs.asdict(correction))


def _joint(joint: Joint, correction: JointCorrection | None) -> Joint:
    if correction is None:
        return joint
    changes: dict[str, Any] = {
        name: value for name in ("damping", "load", "armature") if (value := getattr(correction, name)) is not None
    }
    if correction.coulomb is not None:
        changes["friction"] = _friction(correction, joint.friction)
    return dataclasses.replace(joint, **changes)


def _actuator(actuator: Actuator, correction: ActuatorCorrection | None) -> Actuator:
    """Raises InvalidRequest for stiffness or damping of an actuator without a servo."""
    if correction is None:
        return actuator
    changes: dict[str, Any] = {}
    servo = {name: value for name in ("stiffness", "damping") if (value := getattr(correction, name)) is not None}
    if servo:
        if actuator.servo is None:
            raise InvalidRequest(
                f"corrections: actuator {actuator.name!r} has no servo, so it has no {next(iter(servo))}"
            )
        changes["servo"] = dataclasses.replace(actuator.servo, **servo)
    for name in ("effort_limit", "gain"):
        if (value := getattr(correction, name)) is not None:
            changes[name] = value
    return dataclasses.replace(actuator, **changes)


def _friction(correction: JointCorrection, before: JointFriction | None) -> JointFriction | None:
    if not correction.coulomb and not correction.static:
        return None
    names = ("static", "stribeck_velocity", "smoothing_velocity")
    changes: dict[str, Any] = {name: getattr(correction, name) for name in names}
    if before is not None and before.bristle_stiffness is not None:
        return dataclasses.replace(before, coulomb=correction.coulomb or 0.0, **changes)
    return JointFriction(coulomb=correction.coulomb or 0.0, **changes)

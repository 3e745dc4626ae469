"""What output error found, as corrections of the robot; and what a robot file has no place for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from robots.corrections import ActuatorCorrection, Corrections, JointCorrection
from sim_core.identification.estimates import surely_changed
from sim_core.identification.output_error.fitting import OutputErrorResult
from sim_core.mechanism import Actuator, Mechanism

FIELDS = {
    "viscous": ("damping", 1.0),
    "coulomb": ("coulomb", 1.0),
    "offset": ("load", -1.0),
    "armature": ("armature", 1.0),
}


def with_output_error(
    corrections: Corrections, found: OutputErrorResult | None, mechanism: Mechanism
) -> tuple[Corrections, list[str]]:
    """(corrections with servos and friction of an output-error fit, notes on what is not written).

    Nothing is taken of a fit that is not better. Where inertias are corrected, friction remains that of the fit which
    corrected them.
    """
    if found is None or not found.is_better:
        return corrections, []
    joints, notes = dict(corrections.joints), list[str]()
    if corrections.bodies or found.relative_gains:
        notes.append("friction by output error is not written: that of the efforts belongs to the inertias")
    else:
        joints |= _frictions(found, corrections.joints)
    sure = {each.name: each.value for each in surely_changed(found.estimates)}
    actuators, written = dict[str, ActuatorCorrection](), set[str]()
    for actuator in mechanism.actuators:
        errors = {kind: sure[name] for kind in ("gain", "stiffness") if (name := f"{actuator.joint}/{kind}") in sure}
        if errors and actuator.servo is not None and actuator.joint in found.by_servo:
            actuators[actuator.name] = _servo(actuator, errors)
            written |= {f"{actuator.joint}/{kind}" for kind in errors}
    if left := [name for name in sure if name not in written]:
        notes.append(f"not written, a robot file has no place for it: {', '.join(left)}")
    return msgspec.structs.replace(corrections, joints=joints, actuators=actuators), notes


def _frictions(found: OutputErrorResult, known: Mapping[str, JointCorrection]) -> dict[str, JointCorrection]:
    changes: dict[str, dict[str, Any]] = {}
    for each in found.friction:
        joint, _, kind = each.name.rpartition("/")
        field, sign = FIELDS[kind]
        changes.setdefault(joint, {})[field] = sign * each.value + 0.0
    for joint, values in changes.items():
        if "coulomb" in values:
            scale = float(found.scales[found.joints.index(joint)])
            values |= {"static": None, "smoothing_velocity": scale}
    return {
        joint: msgspec.structs.replace(known.get(joint, JointCorrection()), **values)
        for joint, values in changes.items()
    }


def _servo(actuator: Actuator, errors: Mapping[str, float]) -> ActuatorCorrection:
    """The servo whose efforts are those of the actuator's times 1 + gain, with the stiffness changed on its own."""
    assert actuator.servo is not None
    factor = 1.0 + errors.get("gain", 0.0)
    limit = actuator.effort_limit
    return ActuatorCorrection(
        stiffness=actuator.servo.stiffness * factor * (1.0 + errors.get("stiffness", 0.0)),
        damping=actuator.servo.damping * factor,
        effort_limit=None if limit is None else limit * factor,
        gain=actuator.gain * factor if "gain" in errors else None,
    )

"""Choice between kernels that run loops over the links of a tree ("rolled") and straight-line code ("unrolled")."""

from __future__ import annotations

from sim_core.errors import InvalidRequest
from sim_core.mechanism.description import JointOutput, Mechanism

KINDS = ("revolute", "prismatic", "fixed")


def obstacles(mechanism: Mechanism) -> list[str]:
    """Parts of a mechanism that rolled kernels cannot have; empty if the mechanism can be rolled."""
    if not mechanism.has_joint_coordinates:
        return [mechanism.family.called]
    found = [
        f"{kind} joints" for kind in dict.fromkeys(joint.kind for joint in mechanism.joints if joint.kind not in KINDS)
    ]
    parts = ("constraints", "springs", "beams", "contacts", "forces", "guards", "tunables", "captured", "pushable")
    found += [name for name in parts if getattr(mechanism, name)]
    found += [
        f"{name} of joints"
        for name in ("spring", "friction", "stops")
        if any(getattr(joint, name) is not None for joint in mechanism.joints)
    ]
    if any(not isinstance(output, JointOutput) for output in mechanism.outputs):
        found.append("outputs other than joint positions")
    return found


def is_rolled(mechanism: Mechanism, forced: bool | None) -> bool:
    """Whether the kernels of a mechanism are rolled.

    forced  the user's choice; None for the choice by the mechanism
    Raises InvalidRequest if the user chose rolled kernels for a mechanism that cannot have them.
    """
    if forced and (found := obstacles(mechanism)):
        raise InvalidRequest(
            f"mechanism {mechanism.name!r}: its kernels cannot be rolled, because it has {', '.join(found)}; "
            "assemble it with rolled=False"
        )
    return bool(forced)

"""Choice between kernels that run loops over the links of a tree ("rolled") and straight-line code ("unrolled")."""

from __future__ import annotations

from sim_core.errors import InvalidRequest
from sim_core.mechanism.constraints import JointRelation, PrescribedMotion, Rolling
from sim_core.mechanism.description import GROUND, Mechanism
from sim_core.mechanism.outputs import AccelerometerOutput, ForceTorqueOutput, GyroscopeOutput

PER_LINK = 930  # operations per link of rolled kernels, for the accelerations
# operations of unrolled kernels per link, per link between a link and the ground, and per square of their number; of
# chains of 5 to 40 links and of binary trees of 31 and 63 links, within 10 %
UNROLLED = (175, 21, 1)
PER_STEP_OF_ROW = (100, 300)  # operations of unrolled and rolled kernels per constraint, end and link to the ground
# the same per JointRelation, joint and link between the joint and the ground; of relations that URDF files call mimic
PER_STEP_OF_RELATION = (30, 200)
PER_CONTACT = (250, 300)  # operations of unrolled and rolled kernels per contact of a tree beyond FEW
FEW = 40  # contacts that compile in a few seconds without loops
PER_BODY = (400, 3000)  # operations of unrolled and rolled kernels per planar body in absolute coordinates
FASTER = 0.47  # time per operation of rolled kernels, as a share of that of unrolled kernels
MOST_OF_ROWS = 3  # operations of constraint rows, as a multiple of those of the links, beyond which users are told
MOST_UNROLLED = 30_000  # operations: more of them take longer than about 10 s to compile on two cores


def obstacles(mechanism: Mechanism) -> list[str]:
    """Parts of a mechanism that rolled kernels cannot have; empty if the mechanism can be rolled."""
    found = ["beams"] if mechanism.beams else []
    if any(isinstance(each, Rolling) and each.friction is not None for each in mechanism.constraints):
        found.append("wheels that slip")
    if mechanism.has_body_coordinates:
        found += [f"{part} in absolute coordinates" for part in _obstacles_of_bodies(mechanism)]
    elif not mechanism.has_joint_coordinates:
        found.append(mechanism.family.called)
    return found


def _obstacles_of_bodies(mechanism: Mechanism) -> list[str]:
    """Parts that rolled kernels cannot have in absolute coordinates."""
    found = [] if all(body.is_planar for body in mechanism.bodies) else ["bodies in space"]
    found += ["armatures"] if any(joint.armature for joint in mechanism.joints) else []
    found += ["planar, spherical or free joints"] if any(len(j.coordinates) > 1 for j in mechanism.joints) else []
    kinds = (JointRelation, PrescribedMotion, AccelerometerOutput, GyroscopeOutput, ForceTorqueOutput)
    parts = (*mechanism.constraints, *mechanism.outputs)
    return [*found, *{type(each).__name__: None for each in parts if isinstance(each, kinds)}]


def operations(mechanism: Mechanism) -> tuple[int, int]:
    """Estimated numbers of operations for the accelerations of a tree: of unrolled and of rolled kernels."""
    if mechanism.has_body_coordinates:
        n = len(mechanism.bodies)
        return PER_BODY[0] * n, PER_BODY[1] * n
    depth, total = {GROUND: 0}, [0, 0, 0]
    for joint in mechanism.joints:
        before = depth[joint.parent]
        depth[joint.child] = before + len(joint.coordinates)
        for k in range(before + 1, depth[joint.child] + 1):
            total = [total[0] + 1, total[1] + k, total[2] + k * k]
    of_rows = sum(depth.get(body, 0) for each in mechanism.constraints for body in each.connected or ())
    relations = [each for each in mechanism.constraints if isinstance(each, JointRelation)]
    of_relations = sum(depth[mechanism.joint(joint).child] for each in relations for joint, _ in each.terms)
    unrolled = sum(cost * count for cost, count in zip(UNROLLED, total, strict=True))
    many = len(mechanism.contacts) if len(mechanism.contacts) > FEW else 0
    return (
        unrolled + PER_STEP_OF_ROW[0] * of_rows + PER_STEP_OF_RELATION[0] * of_relations + PER_CONTACT[0] * many,
        PER_LINK * total[0]
        + PER_STEP_OF_ROW[1] * of_rows
        + PER_STEP_OF_RELATION[1] * of_relations
        + PER_CONTACT[1] * many,
    )


def is_rolled(mechanism: Mechanism, forced: bool | None = None) -> bool:
    """Whether the kernels of a mechanism are rolled: by default if they are faster, or if unrolled ones would have more
    than MOST_UNROLLED operations, and the mechanism can be rolled.

    forced  the user's choice; None for the default
    Raises InvalidRequest if the user chose rolled kernels for a mechanism that cannot have them.
    """
    found = obstacles(mechanism)
    if forced and found:
        others = [] if mechanism.has_joint_coordinates else ['describe it with coordinates="joint"']
        others += ["replace each beam by a chain of rigid segments"] if mechanism.beams else []
        others += ["leave out the friction of each Rolling"] if "wheels that slip" in found else []
        raise InvalidRequest(
            f"mechanism {mechanism.name!r}: its kernels cannot be rolled, because it has {', '.join(found)}; "
            f"assemble it with rolled=False, or {' and '.join(others)}"
        )
    if forced is not None or found:
        return bool(forced)
    unrolled, rolled = operations(mechanism)
    return unrolled > min(FASTER * rolled, MOST_UNROLLED)


def costly_rows(mechanism: Mechanism, operations: int) -> list[str]:
    """One line if the constraint rows of a rolled mechanism cost far more than its links; otherwise none.

    operations  multiplications to factorize the equations of the rows
    """
    of_links = PER_LINK * sum(len(joint.coordinates) for joint in mechanism.joints)
    if mechanism.has_body_coordinates or operations <= MOST_OF_ROWS * of_links:
        return []
    return [
        f"mechanism {mechanism.name!r}: in joint coordinates its constraints take about {operations:,} operations for "
        f"the accelerations, its links only {of_links:,}, because they form loops over loops; "
        'with coordinates="absolute" the cost grows with the number of bodies'
    ]


def choice_text(mechanism: Mechanism) -> str:
    """Text that tells users how the kernels of a mechanism run by default, and why."""
    if found := obstacles(mechanism):
        return f"straight-line code; loops over links are not available with {', '.join(found)}"
    unrolled, rolled = operations(mechanism)
    which, other = (
        ("loops over links", "straight-line code")
        if is_rolled(mechanism)
        else ("straight-line code", "loops over links")
    )
    mine, others = (rolled, unrolled) if is_rolled(mechanism) else (unrolled, rolled)
    why = f", more than the {MOST_UNROLLED:,} that compile in some ten seconds" if unrolled > MOST_UNROLLED else ""
    return f"{which}, about {mine:,} operations for the accelerations; {other} would take {others:,}{why}"

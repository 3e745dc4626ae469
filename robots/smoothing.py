"""Parameters of the dry friction of joints, from the joints' inertias: smoothing velocity, or bristle stiffness."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np

from robots.stops import Array, mobilities
from sim_core.errors import DescriptionWarning
from sim_core.mechanism import Joint, JointFriction, JointRelation, Mechanism
from sim_core.mechanism.quantities import value_of
from sim_core.mobility import rounded

RATE = 1000.0  # 1/s: largest rate at which friction slows joints down near rest; RK4 at 1 ms is stable up to 2785
BRISTLE_RATE = 200.0  # rad/s: largest circular frequency of joints on their bristles; RK4 at 1 ms is accurate
FASTEST = 500.0  # rad/s: the same for joints that would deflect too far; RK4 at 1 ms keeps 1e-3 of their energy
DEFLECTION = {"rad": 0.01, "m": 1e-3}  # rad or m: deflection on bristles below which they need not be stiffer
ROUNDS = 20
SHOWN = 4  # joints named in the warning
DEFAULT = value_of(JointFriction(coulomb=0.0).smoothing_velocity)


def with_resolved_friction(mechanism: Mechanism, owner: str) -> Mechanism:
    """A copy of a mechanism with regularized friction that is smooth enough for time steps of 1 ms.

    The mechanism must be a tree in joint coordinates.

    A DescriptionWarning names the joints whose smoothing velocity differs from the default. Friction with bristles is
    left as it is.

    owner  beginning of the warning, such as "robot 'panda.urdf'"
    """
    smoothed = smoothing_velocities(mechanism)
    if not smoothed:
        return mechanism
    can_stick = not all(mechanism.joint(name).is_oriented for name in smoothed)
    least, most = (f"{bound(smoothed.values()):g}" for bound in (min, max))
    speeds = least if least == most else f"{least} to {most}"
    more = f" and {len(smoothed) - SHOWN} more" if len(smoothed) > SHOWN else ""
    named = f"joint{'s' * (len(smoothed) > 1)} {', '.join(map(repr, [*smoothed][:SHOWN]))}{more}"
    warnings.warn(
        f"{owner}: the Coulomb friction of the {named} is smoothed at speeds below {speeds} rad/s or m/s, at which a "
        f"loaded joint creeps; the default speed, {DEFAULT:g}, would "
        "need a time step below 1 ms, because of the little inertia there; "
        f"{'with friction=bristles loaded joints stick, and ' * can_stick}friction=ignore leaves the friction out",
        DescriptionWarning,
        stacklevel=3,
    )
    return _smoothed(mechanism, smoothed)


def _smoothed(mechanism: Mechanism, velocities: dict[str, float]) -> Mechanism:
    """A copy of a mechanism with the smoothing velocities, rad/s or m/s, of the named joints."""
    joints = [
        dataclasses.replace(
            joint, friction=dataclasses.replace(joint.friction, smoothing_velocity=velocities[joint.name])
        )
        if joint.name in velocities and joint.friction is not None
        else joint
        for joint in mechanism.joints
    ]
    return dataclasses.replace(mechanism, joints=tuple(joints))


def without_bristles(mechanism: Mechanism) -> Mechanism:
    """A copy of a mechanism whose dry friction depends on the velocities alone, as `with_resolved_friction` makes it.

    Inverse dynamics from measured positions and velocities needs this: the deflections of bristles are not measured.
    The mechanism must be a tree in joint coordinates.
    """
    bristles = [joint.bristle for joint in mechanism.moving_joints if joint.bristle]
    if not bristles:
        return mechanism
    first = mechanism.coordinate_count - len(mechanism.first_order_states)
    q, v = ((*each[:first], *each[first + len(bristles) :]) for each in (mechanism.initial_q, mechanism.initial_v))
    joints = [
        dataclasses.replace(
            joint, friction=dataclasses.replace(joint.friction, bristle_stiffness=None, bristle_damping=0.0)
        )
        if joint.bristle and joint.friction is not None
        else joint
        for joint in mechanism.joints
    ]
    smooth = dataclasses.replace(mechanism, joints=tuple(joints), initial_q=q, initial_v=v)
    return _smoothed(smooth, smoothing_velocities(smooth))


def smoothing_velocities(mechanism: Mechanism) -> dict[str, float]:
    """{joint: smoothing velocity, rad/s or m/s} of the joints for which the default is too small for a step of 1 ms.

    Near rest, regularized friction acts like a damper with the coefficient coulomb / smoothing_velocity. The smoothing
    velocities are so large that no motion of the joints decays by these dampers at a rate above RATE, 1000 1/s. Joints
    coupled by a JointRelation count with their common inertia.
    """
    found = dict[str, float]()
    rubbing = [(joint.name, row) for joint in _rubbing(mechanism) for row in _rows(mechanism, joint)]
    if not rubbing:
        return found
    names, rows = [name for name, _ in rubbing], [row for _, row in rubbing]
    coulomb = _coulomb(mechanism, names)
    dampers = bounded(coulomb / DEFAULT, _mobilities(mechanism, rows), RATE)
    for name, velocity in zip(names, (coulomb / dampers).tolist(), strict=True):
        found[name] = max(found.get(name, 0.0), velocity)
    return {name: rounded(velocity) for name, velocity in found.items() if velocity > 1.001 * DEFAULT}


def with_bristles(mechanism: Mechanism, owner: str) -> Mechanism:
    """A copy of a mechanism whose dry friction has bristles instead of smoothing.

    In spherical and free joints, which can have no bristles, the friction is smooth as by `with_resolved_friction`.
    The mechanism must be a tree in joint coordinates; constraints that close loops only make its joints less mobile.
    A loaded joint sticks, deflected by at most its Coulomb friction divided by the stiffness of its bristles. The
    stiffness is the largest with which no joint vibrates on its bristles faster than BRISTLE_RATE while all other
    joints are free to move. Where this deflection would exceed DEFLECTION, the rate may be up to FASTEST. A time step
    of 1 ms resolves such vibrations. The damping of the bristles is half the critical damping.

    A DescriptionWarning names the joints that deflect by more than DEFLECTION.

    owner  beginning of the warning, such as "robot 'panda.urdf'"
    """
    names = [joint.name for joint in _rubbing(mechanism) if not joint.is_oriented]
    if not names:
        return with_resolved_friction(mechanism, owner)
    mobilities_of_names = mobilities_of(mechanism, names)
    coulomb = _coulomb(mechanism, names)
    most = np.array([DEFLECTION[mechanism.joint(name).unit] for name in names])
    slow = bounded(np.full(len(names), np.inf), mobilities_of_names, BRISTLE_RATE**2)
    stiffness = bounded(np.maximum(slow, coulomb / most), mobilities_of_names, FASTEST**2)
    found = dict(zip(names, map(rounded, stiffness.tolist()), strict=True))
    own = np.max([np.diag(mobility) for mobility in mobilities_of_names], axis=0)
    rates = dict(zip(names, np.maximum(np.sqrt(stiffness * own), BRISTLE_RATE).tolist(), strict=True))
    _warn_of_deflections(mechanism, owner, dict(zip(names, (coulomb / stiffness / most).tolist(), strict=True)))
    joints = [
        dataclasses.replace(
            joint,
            friction=dataclasses.replace(
                joint.friction,
                bristle_stiffness=found[joint.name],
                bristle_damping=rounded(found[joint.name] / rates[joint.name]),
            ),
        )
        if joint.name in found and joint.friction is not None
        else joint
        for joint in mechanism.joints
    ]
    return with_resolved_friction(dataclasses.replace(mechanism, joints=tuple(joints)), owner)


def _warn_of_deflections(mechanism: Mechanism, owner: str, shares: dict[str, float]) -> None:
    """Warn of joints that deflect far before they slip.

    shares  {joint: largest deflection on its bristles, as a multiple of DEFLECTION}
    """
    far = {name: share for name, share in shares.items() if share > 1.001}
    if not far:
        return
    listed = [
        f"{name!r} ({share * DEFLECTION[mechanism.joint(name).unit]:.2g} {mechanism.joint(name).unit})"
        for name, share in [*far.items()][:SHOWN]
    ]
    more = f" and {len(far) - SHOWN} more" if len(far) > SHOWN else ""
    warnings.warn(
        f"{owner}: the Coulomb friction of the joint{'s' * (len(far) > 1)} {', '.join(listed)}{more} is large for the "
        "little inertia there: before they slip, these joints move on their bristles by as much as the brackets name, "
        "because stiffer bristles would need a time step below 1 ms",
        DescriptionWarning,
        stacklevel=3,
    )


def _coulomb(mechanism: Mechanism, names: list[str]) -> Array:
    return np.array([value_of(mechanism.joint(name).friction.coulomb) for name in names])  # type: ignore[union-attr]


def _rubbing(mechanism: Mechanism) -> list[Joint]:
    """The joints with Coulomb friction above 0 and without bristles."""
    return [
        joint
        for joint in (*mechanism.moving_joints, *mechanism.oriented_joints)
        if joint.friction is not None
        and joint.friction.bristle_stiffness is None
        and value_of(joint.friction.coulomb) > 0.0
    ]


def mobilities_of(mechanism: Mechanism, names: list[str]) -> list[Array]:
    """Inverse mass matrices (n, n) of the named joints at several postures, with all other joints free to move."""
    index = coordinates_of(mechanism)
    return _mobilities(mechanism, [index[name] for name in names])


def _mobilities(mechanism: Mechanism, rows: list[int]) -> list[Array]:
    """The same as `mobilities_of`, for the coordinates with the indices `rows`."""
    index = coordinates_of(mechanism)
    return [_coupled(mechanism, mobility, index)[np.ix_(rows, rows)] for mobility in mobilities(mechanism)]


def _rows(mechanism: Mechanism, joint: Joint) -> range:
    """Indices of the coordinates on which a joint's friction acts: all of a spherical or free joint, otherwise the
    last one.
    """
    end = coordinates_of(mechanism)[joint.name] + 1
    return range(end - (len(joint.coordinates) if joint.is_oriented else 1), end)


def bounded(most: Array, coupled: list[Array], limit: float) -> Array:
    """Positive coefficients d (n,), one per joint, so large that an eigenvalue of some W diag(d) reaches `limit`.

    No eigenvalue exceeds `limit` by more than 1 %. The eigenvalue may be smaller if the upper bounds are reached.

    most     (n,) upper bounds of the coefficients
    coupled  the matrices W (n, n)
    """
    own = np.max([np.diag(mobility) for mobility in coupled], axis=0)
    share = 1.0
    for _ in range(ROUNDS):
        bounded = np.minimum(most, share * limit / np.maximum(own, 1e-300))
        root = np.sqrt(bounded)
        fastest = max(float(np.linalg.eigvalsh(root[:, None] * mobility * root)[-1]) for mobility in coupled)
        if fastest <= 1.01 * limit:
            break
        share *= limit / fastest
    return np.asarray(bounded)


def coordinates_of(mechanism: Mechanism) -> dict[str, int]:
    """{joint: index of its last coordinate}."""
    found, at = dict[str, int](), 0
    for joint in mechanism.joints:
        at += len(joint.coordinates)
        found[joint.name] = at - 1
    return found


def _coupled(mechanism: Mechanism, mobility: Array, index: dict[str, int]) -> Array:
    """Matrix (n, n) of joint accelerations per effort, for motions that the mechanism's JointRelations permit.

    mobility  (n, n) inverse of the mass matrix without these relations
    index     {joint: index of its last coordinate}
    """
    relations = [c for c in mechanism.constraints if isinstance(c, JointRelation)]
    A = np.zeros((len(relations), len(mobility)))
    for row, relation in zip(A, relations, strict=True):
        for name, factor in relation.terms:
            row[index[name]] += factor
    across = mobility @ A.T
    return np.asarray(mobility - across @ np.linalg.pinv(A @ across, rcond=1e-12, hermitian=True) @ across.T)

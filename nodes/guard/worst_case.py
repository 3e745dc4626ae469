"""Limits and margins of a guard that a robot can keep, from the worst case of its model.

The worst case is taken over random states inside the joint limits, with all masses off by up to MASS. In each state

    M a = g - c + u

has the mass matrix M, gravity g, speed terms c and efforts u. T is the time from a measurement to the effect of the
command that answers it, and tau the time constant sqrt(m / k) of the servo with the stiffness k, where m is the inertia
of its joint while all other joints are free. For each joint:

holding            largest |g|
velocity           velocity limit of the actuator, reduced by a factor common to all joints where FASTER |c| needs more
                   than half of the effort that gravity leaves
deceleration       largest d, in fixed proportions, at which the joints brake from their velocities in BRAKE_S or more,
                   for which TRANSIENT |M| d + |g| + FASTER |c| is within the efforts: all joints can brake at once
fall               largest |M^-1 (g - c)|, without efforts
free_acceleration  the same with the efforts that commands may use, in the worst directions
swing              largest (2 |M| d + |g| + FASTER |c|) / k
margin             2 (swing + fall T^2 / 2 + 3 fall T tau) + velocity T / 2: a joint that nobody commands may use half
                   of it before it is stopped, and a joint goes further because a setpoint is held until the next one.
                   Where commands may use efforts, at least swing + a T^2 / 2 + (a T)^2 / (2 d), with
                   a = free_acceleration
velocity_margin    a T, and half of the larger of fall tau and |g - c| / sqrt(m' k), where m' is the inertia of the
                   joint while all others are held, and the larger of SWING velocity and 2 d sqrt(|M| d / (d k)), the
                   speed of a swing of all joints together

Accelerations and swings are raised by the factor SURE, because the states are samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nodes.guard.limits import GuardParams, JointLimits, Vector
from robots.registry import build
from robots.servos import with_servos
from sim_core.mechanism import JointRelation
from sim_core.mobility import dynamics_at

if TYPE_CHECKING:
    from nodes.framework.plan.launch_plan import Plan
    from sim_core.mechanism import Mechanism

MASS = 0.2  # largest relative error of the masses
HOLD = 1.5  # factor by which efforts must hold gravity
SURE = 1.25
SWING = 0.3  # speed by which a servo swings, as a share of the velocity
BRAKE_S = 0.2
TRANSIENT = 3.0  # accelerations after a change of the setpoints' acceleration from -d to d, as a multiple of d
FASTER = 2.0  # speed terms of joints that swing faster than their setpoints, as a multiple of those of the setpoints
STATES = 2000
SHOWN = 3  # keys named in one notice
INSET = 0.25  # largest part of a joint's range between a limit of the table and the limit of the joint


@dataclass(frozen=True)
class WorstCase:
    """Worst case of the n driven joints of a robot; arrays (n,) as explained in this module.

    joints, actuators  names
    lower, upper       limits of the joints in the model; infinite if there is none
    effort             effort limits of the actuators
    commanded          largest efforts that commands may use
    fastest            velocity limits of the actuators; infinite if there is none
    braking            largest TRANSIENT |M| d + |g| + FASTER |c|
    weak               one line for each joint whose effort does not hold gravity
    no_servo           actuators without a servo in the model, for which servos as by `robots.servos` are assumed
    """

    joints: tuple[str, ...]
    actuators: tuple[str, ...]
    lower: Vector
    upper: Vector
    effort: Vector
    commanded: Vector
    fastest: Vector
    holding: Vector
    velocity: Vector
    deceleration: Vector
    braking: Vector
    fall: Vector
    free_acceleration: Vector
    swing: Vector
    margin: Vector
    velocity_margin: Vector
    weak: tuple[str, ...]
    no_servo: tuple[str, ...]


def worst_case(
    mechanism: Mechanism,
    delay_s: float,
    efforts: Mapping[str, float] | None = None,
    velocities: Mapping[str, float] | None = None,
    decelerations: Mapping[str, float] | None = None,
) -> WorstCase:
    """The worst case of a robot whose joints form a tree.

    Raises ValueError with a one-line message for a robot whose worst case cannot be computed.

    delay_s        delay T, s, which includes the time between two measured states
    efforts        {joint: largest effort of commands}; no effort is commanded to other joints
    velocities     {joint: velocity limit, rad/s or m/s} that replaces the computed one
    decelerations  {joint: deceleration} that replaces the computed one
    """
    if reason := unsupported(mechanism):
        raise ValueError(f"the worst case of robot {mechanism.name!r} cannot be computed: {reason}")
    driven = [each for each in with_servos(mechanism).actuators if each.joint]
    joints = [mechanism.joint(each.joint) for each in driven]
    places, at = dict[str, int](), 0
    for joint in mechanism.joints:
        at += len(joint.coordinates)
        places[joint.name] = at - 1
    k = np.array([places[joint.name] for joint in joints])

    def replaced(values: Vector, given: Mapping[str, float] | None) -> Vector:
        found = [(given or {}).get(joint.name, value) for joint, value in zip(joints, values.tolist(), strict=True)]
        return np.array(found, dtype=float)

    lower = -_limits([None if joint.lower is None else -joint.lower for joint in joints])
    upper = _limits([joint.upper for joint in joints])
    u, fastest = _limits([a.effort_limit for a in driven]), _limits([a.velocity_limit for a in driven])
    commanded = np.minimum(u, replaced(np.zeros(len(k)), efforts))
    stiffness = np.array([each.servo.stiffness for each in driven if each.servo is not None])
    velocity = replaced(np.where(np.isfinite(fastest), fastest, math.pi), velocities)

    M, g, c = _terms(mechanism, at, k, lower, upper, velocity)
    inverse, Mk, weight = np.linalg.inv(M), np.abs(M[:, k][:, :, k]), np.abs(g[:, k])
    spare, speeding = np.maximum(u - weight, 1e-9), FASTER * np.abs(c[:, k])
    if velocities is None:
        share = min(1.0, float(np.sqrt((0.5 * spare / np.maximum(speeding, 1e-12)).min())))
        velocity, c, speeding = share * velocity, share**2 * c, share**2 * speeding
    left = np.maximum(spare - speeding, 1e-9)
    ratio = np.minimum(left.min(axis=0) / np.einsum("nii->ni", Mk).max(axis=0), velocity / BRAKE_S)
    d = ratio * min(1.0, float((left / (TRANSIENT * np.einsum("nij,j->ni", Mk, ratio))).min()))
    d = replaced(d, decelerations)
    braking = (TRANSIENT * np.einsum("nij,j->ni", Mk, d) + weight + speeding).max(axis=0)
    falling = np.abs(np.einsum("nij,nj->ni", inverse, g - c))[:, k]
    fall = SURE * falling.max(axis=0)
    a = SURE * (falling + np.abs(inverse[:, k][:, :, k]) @ commanded).max(axis=0)
    swing = SURE * ((2.0 * np.einsum("nij,j->ni", Mk, d) + weight + speeding) / stiffness).max(axis=0)
    tau = (1.0 / np.sqrt(inverse[:, k, k] * stiffness)).max(axis=0)
    margin = 2.0 * (swing + 0.5 * fall * delay_s**2 + 3.0 * fall * delay_s * tau) + 0.5 * velocity * delay_s
    sagging = SURE * (np.abs(g - c)[:, k] / np.sqrt(np.einsum("nii->ni", Mk) * stiffness)).max(axis=0)
    together = np.sqrt((np.einsum("nij,j->ni", Mk, d) / (d * stiffness)).max(axis=0))
    pushed = swing + 0.5 * a * delay_s**2 + (a * delay_s) ** 2 / (2.0 * d)
    holding = weight.max(axis=0)
    return WorstCase(
        joints=tuple(joint.name for joint in joints),
        actuators=tuple(each.name for each in driven),
        lower=lower,
        upper=upper,
        effort=u,
        commanded=commanded,
        fastest=fastest,
        holding=holding,
        velocity=velocity,
        deceleration=d,
        braking=braking,
        fall=fall,
        free_acceleration=a,
        swing=swing,
        margin=np.maximum(margin, np.where(commanded.any(), pushed, 0.0)),
        velocity_margin=a * delay_s
        + 0.5 * np.maximum(fall * tau, sagging)
        + np.maximum(SWING * velocity, 2.0 * SURE * d * together),
        weak=tuple(
            f"joint {each.joint!r} needs {need:.4g} {each.unit} against gravity with {100 * MASS:.0f} % more mass, and "
            f"{HOLD:g} times that is {HOLD * need:.4g} {each.unit}, but actuator {each.name!r} gives {limit:.4g}"
            for each, need, limit in zip(driven, holding.tolist(), u.tolist(), strict=True)
            if HOLD * need > limit
        ),
        no_servo=tuple(each.name for each in mechanism.actuators if each.joint and each.servo is None),
    )


def unsupported(mechanism: Mechanism) -> str:
    """Reason why the worst case of a robot cannot be computed; "" if it can."""
    if not mechanism.has_joint_coordinates:
        return f"it has {mechanism.coordinates} coordinates; choose joint coordinates, if the robot has a choice"
    if mechanism.beams:
        return "it has beams"
    for constraint in mechanism.constraints:
        if not isinstance(constraint, JointRelation):
            return f"because of the constraint {constraint.name!r}, its joints form no tree"
    driven = [each for each in mechanism.actuators if each.joint]
    for each in driven:
        if each.effort_limit is None:
            return f"actuator {each.name!r} has no effort limit; add it to the model"
        if len(mechanism.joint(each.joint).coordinates) != 1:
            return f"joint {each.joint!r} has several coordinates"
    return "" if driven else "no actuator drives a joint"


def _terms(
    mechanism: Mechanism, n: int, driven: Any, lower: Vector, upper: Vector, velocity: Vector
) -> tuple[Vector, Vector, Vector]:
    """Mass matrices (STATES, n, n), gravity and speed terms (STATES, n) in random states with random masses.

    In a third of the states all bodies are too heavy, in a third too light, and in the others each body is either.
    Each driven joint is at a limit or at 0, or anywhere between its limits, and rests or moves at its velocity limit.
    Other joints rest at their start.

    n         number of coordinates
    driven    (n_driven,) indices of the driven joints among them
    velocity  (n_driven,) velocity limits
    """
    random = np.random.default_rng(1)
    low, high = (np.where(np.isfinite(end), end, sign * np.pi) for end, sign in ((lower, -1.0), (upper, 1.0)))
    places = random.uniform(low, high, (STATES, len(driven)))
    choice = random.integers(0, 4, places.shape)
    ends = [np.broadcast_to(end, places.shape) for end in (low, high, np.clip(0.0, low, high))]
    q, v = np.tile(np.array(mechanism.initial_q[:n]), (STATES, 1)), np.zeros((STATES, n))
    q[:, driven] = np.choose(choice, [*ends, places])
    v[:, driven] = random.choice([-1.0, 0.0, 1.0], places.shape) * velocity
    shares = 1.0 + MASS * random.choice([-1.0, 1.0], (STATES, len(mechanism.bodies)))
    shares[::3], shares[1::3] = 1.0 + MASS, 1.0 - MASS
    return dynamics_at(mechanism, q, v, shares)


def _limits(values: list[float | None]) -> Vector:
    return np.array([np.inf if value is None else value for value in values], dtype=float)


def table_of(worst: WorstCase) -> dict[str, dict[str, Any]]:
    """{joint: keys of its table in a guard} that keep the worst case; numbers are rounded to the safe side."""
    found: dict[str, dict[str, Any]] = {}
    for k, joint in enumerate(worst.joints):
        table: dict[str, Any] = {} if worst.actuators[k] == joint else {"actuator": worst.actuators[k]}
        margin, lower, upper = _rounded_up(worst.margin[k]), float(worst.lower[k]), float(worst.upper[k])
        inset = min(margin, INSET * (upper - lower))
        if math.isfinite(lower):
            table["lower"] = _rounded_up(lower + (inset if math.isfinite(inset) else margin))
        if math.isfinite(upper):
            table["upper"] = -_rounded_up(-upper + (inset if math.isfinite(inset) else margin))
        table["velocity"] = _rounded_down(worst.velocity[k])
        table["acceleration"] = table["deceleration"] = _rounded_down(worst.deceleration[k])
        if worst.commanded[k]:
            table["effort"] = _rounded_down(worst.commanded[k])
            table["free_acceleration"] = _rounded_up(worst.free_acceleration[k])
        else:
            table["modes"] = ["velocity", "position"]
        table |= {"margin": margin, "velocity_margin": _rounded_up(worst.velocity_margin[k])}
        found[joint] = table
    return found


def _rounded_up(value: float) -> float:
    """The value, rounded up to three significant digits."""
    if value == 0.0:
        return 0.0
    digit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    return float(f"{math.ceil(value / digit - 1e-9) * digit:.6g}")


def _rounded_down(value: float) -> float:
    return -_rounded_up(-value)


def shortfalls(params: GuardParams, mechanism: Mechanism) -> Iterator[str]:
    """Yield one line for each key of a guard's table that the worst case of the model does not keep.

    Raises ValueError with a one-line message if efforts cannot hold a joint, or if the worst case cannot be computed.
    """
    joints = {name: each for name, each in params.joints.items() if _limits_motion(each, name, params)}
    if not joints:
        return
    limit = {each.joint: each.effort_limit or 0.0 for each in mechanism.actuators if each.joint}
    efforts = {
        name: limit.get(name, 0.0) if each.effort is None else each.effort
        for name, each in params.joints.items()
        if "effort" in each.modes
    }
    velocities = {name: each.velocity for name, each in joints.items() if each.velocity is not None}
    given = {name: each.deceleration for name, each in joints.items()}
    need = worst_case(mechanism, 1e-3 * params.delay_ms, efforts, velocities, given)
    if weak := [line for name, line in weak_joints(need) if name in joints]:
        raise ValueError("; ".join(weak))
    for name, each in joints.items():
        k = need.joints.index(name)
        joint = mechanism.joint(name)
        for key, limit_of, own, sign in (
            ("lower", each.lower, joint.lower, -1.0),
            ("upper", each.upper, joint.upper, 1.0),
        ):
            if limit_of is not None and own is not None and sign * limit_of > sign * own:
                yield f"joints.{name}.{key} is {limit_of:.4g}, beyond the joint's own limit {own:.4g}"
        allowed = each.velocity_margin
        if allowed is None and each.velocity is not None:
            allowed = 0.2 * each.velocity
        least = [("margin", each.margin, need.margin[k]), ("velocity_margin", allowed, need.velocity_margin[k])]
        if "effort" in each.modes:
            free = (each.acceleration or 0.0) if each.free_acceleration is None else each.free_acceleration
            least.append(("free_acceleration", free, need.free_acceleration[k]))
        if need.braking[k] > 1.02 * need.effort[k]:
            yield (
                f"the velocities and decelerations can need the effort {need.braking[k]:.3g} at joint {name!r}, whose "
                f"actuator gives {need.effort[k]:.3g}"
            )
        for key, value, needed in least:
            if value is not None and value < 0.98 * needed:
                yield f"joints.{name}.{key} is {value:.4g}, and the worst case needs {_rounded_up(needed):g}"


def weak_joints(worst: WorstCase) -> Iterator[tuple[str, str]]:
    """Yield (joint, line of `worst.weak`) for each joint whose effort does not hold gravity."""
    short = [k for k in range(len(worst.joints)) if HOLD * worst.holding[k] > worst.effort[k]]
    for k, line in zip(short, worst.weak, strict=True):
        yield worst.joints[k], line


def _limits_motion(limits: JointLimits, name: str, params: GuardParams) -> bool:
    """Whether the guard limits the motion of a joint, and not its efforts alone."""
    kept_out = any(name in row.joints for row in params.keep_out)
    return kept_out or any(each is not None for each in (limits.lower, limits.upper, limits.velocity))


def check_margins(params: GuardParams, plan: Plan, is_driver: bool) -> list[str]:
    """Check a guard's limits against the worst case of the plan's robot; returns one-line notices.

    Raises ValueError with a one-line message if efforts cannot hold a joint of the guard, or if a stop cannot brake it.

    is_driver  whether the guard is in a driver's own process, which may have servos that the model does not have
    """
    mechanism = build(plan.sim.robot, **plan.sim.parameters)
    if reason := unsupported(mechanism):
        return [f"its margins are not checked, as the worst case of the robot cannot be computed: {reason}"]
    notices, servos = [], {each.name for each in mechanism.actuators if each.servo is not None}
    moving = {name: each for name, each in params.joints.items() if _limits_motion(each, name, params)}
    limp = [name for name, each in moving.items() if each.servo is None and (each.actuator or name) not in servos]
    if limp and not is_driver:
        raise ValueError(
            f"a stop cannot brake joint {limp[0]!r}: its actuator has no servo in the model; for a URDF or MJCF file "
            'give [sim] the key parameters = { servos = "stiff" }, or let the joint move on with '
            f"joints.{limp[0]}.servo = false"
        )
    if limp:
        notices.append(
            f"a stop commands the velocity 0 to joint {limp[0]!r}, whose actuator has no servo in the model; if the "
            f"drive has one, joints.{limp[0]}.servo = true"
        )
    if short := list(shortfalls(params, mechanism)):
        more = f" and {len(short) - SHOWN} more" if len(short) > SHOWN else ""
        delay = f" --delay-ms {params.delay_ms:g}"
        notices.append(f"{'; '.join(short[:SHOWN])}{more}; see armswing robot guard {plan.sim.robot}{delay}")
    return notices

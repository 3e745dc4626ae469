"""Joint loads (forces and torques) of CHARMIE with closed loops: divides the loads on links 5 and 4 among the bodies
that carry these links.

This is step 7 of [GoncalvesEtAl2024, sec. 5.2]. The closed loops are statically indeterminate, so the division follows
simplifications of the paper. Auxiliary bodies have no mass. Forces are in N, torques in N m. Signs follow from
equilibrium; some signs differ from the printed equations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robots.charmie.auxiliary import HALVES, balance_points, spring_5s
from robots.charmie.geometry import Motion, PlanarMotion, lift_actuator, tilt_actuator
from robots.charmie.parameters import ExtensionSpring, LinearActuator, Parameters
from sim_core.joint_loads import Acting, BodyMotion, JointLoad, joint_loads, motions, postures, reaction, required
from sim_core.mechanism import Mechanism, X
from sim_core.spatial import cross, rotation_about

NOTHING = np.zeros(3)
TRUNK = ("link_1", "link_2", "link_3", "link_4", "link_5")


@dataclass(frozen=True)
class CharmieLoads:
    """Loads of all main joints of CHARMIE with closed loops, and of the actuators and springs in the loops.

    joints                           {body: load of the preceding body in the main chain on `body`}. The load acts at A,
                                     the point of the joint between the two bodies, and is in the axes of `body`
    actuators                        {"lift" (4d), "tilt" (5d): force along the actuator (N)}; positive if the actuator
                                     pushes its ends apart
    springs                          {"tilt_spring" (5s), "balance_l" (4slb), "balance_r" (4srb): tension (N)}
    on_link_3, on_link_4, on_link_5  {auxiliary body: load that this body exerts on the link}
    """

    joints: dict[str, JointLoad]
    actuators: dict[str, float]
    springs: dict[str, float]
    on_link_3: dict[str, Acting]
    on_link_4: dict[str, Acting]
    on_link_5: dict[str, Acting]

    @property
    def floor(self) -> JointLoad:
        """Load that the floor exerts on CHARMIE, through link 2, at the foot of link 3; in link 3's axes."""
        return self.joints["link_3"]


def charmie_loads(p: Parameters, mechanism: Mechanism, q: Any, v: Any, a: Any) -> CharmieLoads:
    """All loads of CHARMIE at joint positions q, velocities v and accelerations a (21,) of the open tree.

    mechanism  the open tree, built from the parameters p
    """
    return loads_of_motion(p, mechanism, motions(mechanism, postures(mechanism, q), v, a), q)


def loads_of_motion(p: Parameters, mechanism: Mechanism, moving: Mapping[str, BodyMotion], q: Any) -> CharmieLoads:
    """All loads of CHARMIE for given motions of the bodies.

    The computation runs backwards over the arms and the head, then over links 5 and 4 with their loops, then over links
    3 to 1.

    moving  {body: BodyMotion}, as `sim_core.joint_loads.motions` returns it
    q       joint positions (21,)
    """
    names = [joint.name for joint in mechanism.moving_joints]
    lift, tilt = float(q[names.index("lift")]), float(q[names.index("tilt")])
    branches = joint_loads(mechanism, moving, only=[name for name in moving if name not in TRUNK])
    mounts = [reaction(moving[f"link_6{branch}"], branches[f"link_6{branch}"]) for branch in "abc"]
    spring, spring_on_4, spring_on_5 = tilt_spring(p, tilt)
    halves = {half: balance_half(p, half, lift) for half in HALVES}
    five = _driven(p.tilt, tilt_actuator(p, Motion(tilt)), tilt)
    four = _driven(p.lift, lift_actuator(p, Motion(lift)), 0.0)
    load_5, drive_5, push_5 = _divide_link_5(moving["link_5"], [*mounts, spring_on_5], five)
    on_4 = {"link_5d_cylinder": _through_actuator(five, drive_5), "link_5s_lower": spring_on_4}
    on_4 |= {f"link_4s{half}c": found.on_link_4 for half, found in halves.items()}
    load_4, push_4, twist = _divide_link_4(moving["link_4"], [*on_4.values(), reaction(moving["link_5"], load_5)], four)
    drive_4 = Acting(four.end, push_4 * four.direction, NOTHING)
    on_3 = {"link_4d_cylinder": _through_actuator(four, drive_4)}
    for half, found in halves.items():
        slider = on_4[f"link_4s{half}c"]
        on_4[f"link_4s{half}c"] = Acting(slider.point, slider.force, twist / 2)
        on_3[f"link_4s{half}a"] = Acting(found.on_link_3.point, found.on_link_3.force, -twist / 2)
        on_3[f"link_4s{half}b_upper"] = found.at_anchor
    known = {"link_3": [*on_3.values(), reaction(moving["link_4"], load_4)]}
    return CharmieLoads(
        joints={**joint_loads(mechanism, moving, known, TRUNK[:3]), "link_4": load_4, "link_5": load_5, **branches},
        actuators={"lift": push_4, "tilt": push_5},
        springs={"tilt_spring": spring, **{f"balance_{half}": found.tension for half, found in halves.items()}},
        on_link_3=on_3,
        on_link_4={**on_4, "link_4d_rod": drive_4},
        on_link_5={"link_5d_rod": drive_5, "link_5s_upper": spring_on_5},
    )


def tension(spring: ExtensionSpring, length: float) -> float:
    """Tension (N) of an extension spring of a given length (m). [GoncalvesEtAl2024, eq. 35, with the opposite sign]"""
    return spring.pretension + spring.stiffness * (length - spring.free_length)


def tilt_spring(p: Parameters, tilt: float) -> tuple[float, Acting, Acting]:
    """Return (tension of the tilt spring 5s in N, load of the spring on link 4, load of the spring on link 5).

    Each load is in the axes of its link.
    """
    base, body = spring_5s(p, tilt)
    length = float(np.linalg.norm(body - base))
    pull = tension(p.tilt_spring, length)
    towards_body = (body - base) / length
    on_5 = rotation_about(X, -tilt) @ (-pull * towards_body)
    return pull, Acting(base, pull * towards_body, NOTHING), Acting(np.array(p.tilt_spring.body_point), on_5, NOTHING)


@dataclass(frozen=True)
class BalanceHalf:
    """Loads of one half of the balancing mechanism: tension of its spring, and loads on links 4 and 3.

    on_link_3  load of the bar on link 3, at the bar's pivot
    at_anchor  load of the spring on link 3, at the spring's anchor
    """

    tension: float
    on_link_4: Acting
    on_link_3: Acting
    at_anchor: Acting


def balance_half(p: Parameters, half: str, lift: float) -> BalanceHalf:
    """Loads of one half of the balancing mechanism at a position of the lift (m). [GoncalvesEtAl2024, eqs. 39 to 41]

    The bar rotates freely about F3, so its slider exerts only a force along z on link 4.

    half  "l" or "r"
    """
    at = balance_points(p, half, lift)
    along = at["anchor"] - at["B4slb"]
    length = float(np.linalg.norm(along))
    pull = tension(p.balance.spring, length)
    spring = pull * along / length
    held, tip = at["B4slb"] - at["F3"], at["B4sla"] - at["F3"]
    # moment equilibrium of the bar about y at F3: spring against the slider's force along z
    up = (held[2] * spring[0] - held[0] * spring[2]) / tip[0]
    slider = np.array([0.0, 0.0, up])
    on_track = at["B4slc"] - np.array(p.base.lift_joint) - [0.0, 0.0, lift]
    return BalanceHalf(
        pull,
        Acting(on_track, -slider, NOTHING),
        Acting(at["F3"], spring + slider, NOTHING),
        Acting(at["anchor"], -spring, NOTHING),
    )


@dataclass(frozen=True)
class _Driven:
    """A linear actuator from `base` on the preceding link to `end` on the driven link.

    base    position in the axes of the preceding link (m)
    end     position in the axes of the driven link (m)
    reach   vector from base to end in the axes of the preceding link (m)
    turned  angle of the driven link relative to the preceding link about x (rad)
    """

    base: np.ndarray
    end: np.ndarray
    reach: np.ndarray
    turned: float

    @property
    def direction(self) -> np.ndarray:
        """Unit vector (3,) from the actuator's base to its end, in the axes of the driven link."""
        return np.asarray(rotation_about(X, -self.turned) @ self.reach / np.linalg.norm(self.reach))


def _driven(given: LinearActuator, line: PlanarMotion, turned: float) -> _Driven:
    return _Driven(np.array(given.base_point), np.array(given.body_point), np.array([0.0, line.y.x, line.z.x]), turned)


def _divide_link_5(motion: BodyMotion, known: Iterable[Acting], drive: _Driven) -> tuple[JointLoad, Acting, float]:
    """Divide the load on link 5 between link 4 and actuator 5d, which carry this link.

    [GoncalvesEtAl2024, eqs. 36 to 38]

    Returns (load of link 4 on link 5, load of actuator 5d on link 5, force of actuator 5d in N).

    known  other loads on link 5
    """
    force, moment = required(motion, known)
    C = np.array(motion.posture.body.center_of_mass)
    d, h = C - drive.end, motion.posture.r_AC  # from G5 and from the hinge to C5
    _, s, c = drive.direction
    rows = np.array(
        [
            [1, 0, 0, 1, 0, 0],
            [0, 1, 0, 0, 1, 0],
            [0, 0, 1, 0, 0, 1],
            [0, d[2], -d[1], 0, h[2], -h[1]],
            [0, c, -s, 0, 0, 0],
            [-1, 0, 0, 1, 0, 0],
        ]
    )
    found = np.linalg.solve(rows, [*force, moment[0], 0.0, 0.0])
    f_5d, f_4 = found[:3], found[3:]
    rest = moment + cross(d, f_5d) + cross(h, f_4)  # eq. 34 minus the moments of the forces
    half = np.array([0.0, rest[1] / 2, rest[2] / 2])  # eq. 38
    return JointLoad(f_4, half), Acting(drive.end, f_5d, half), float(drive.direction @ f_5d)


def _divide_link_4(motion: BodyMotion, known: Iterable[Acting], drive: _Driven) -> tuple[JointLoad, float, np.ndarray]:
    """Divide the load on link 4 between link 3, actuator 4d and the sliders. [GoncalvesEtAl2024, eqs. 42, 43]

    Returns (load of link 3 on link 4, force of actuator 4d in N, torque vector (3,) in N m that both sliders exert
    together, along z). The guide between links 3 and 4 carries no force along z and no torque about z. The actuator
    exerts a force only along its axis.

    known  other loads on link 4
    """
    force, moment = required(motion, known)
    push = float(force[2] / drive.direction[2])
    guide = force - push * drive.direction
    C = np.array(motion.posture.body.center_of_mass)
    rest = moment + cross(C - drive.end, push * drive.direction) + cross(motion.posture.r_AC, guide)
    return JointLoad(guide, np.array([rest[0], rest[1], 0.0])), push, np.array([0.0, 0.0, rest[2]])


def _through_actuator(drive: _Driven, on_end: Acting) -> Acting:
    """Load that a linear actuator exerts on the preceding link, in the axes of the preceding link.

    The load follows from the equilibrium of the actuator, which has no mass.

    on_end  load that the actuator exerts on the driven link, in the axes of the driven link
    """
    R = rotation_about(X, drive.turned)
    force, torque = R @ on_end.force, R @ on_end.torque
    return Acting(drive.base, -force, -torque - cross(drive.reach, force))

"""Computations of the CHARMIE study: the validation motion with several simulation engines, the actuator loads, the
optimal spring parameters, and the processor times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodes.research.studies.charmie.actuator_loads import Efforts, efforts_over, posed
from nodes.research.studies.charmie.spring_study import SpringStudy, tune_springs
from robots.charmie.loads import loads_of_motion
from robots.charmie.motions import DURATION, SQUAT_S, Instant, JointMotion, bang, squat_and_lean, validation_motion
from robots.charmie.parameters import Parameters, read_parameters
from robots.charmie.point_clouds import auxiliary_clouds, local_points, main_clouds, point_clouds
from robots.export import export
from robots.registry import build
from sim_core import reference
from sim_core.joint_loads import Posture, joint_loads, motions, postures
from sim_core.mechanism import Mechanism
from sim_core.system import assemble

MODELS = ("arm_2dof", "arm_4dof", "arm_6dof", "charmie")
STEPS = 1000  # number of steps that table 5 gives times for
CLAW_BODY = "link_12a"
TRIALS, LASTING = 3, 0.05  # number of trials, of which the best counts, and least duration of each, s
NUMPY, COMPILED = "numpy, body by body", "compiled kernels"


@dataclass(frozen=True)
class Seen:
    """Results of one simulation engine for a motion, at n instants.

    claw   position of D12a (centre of the left claw) in the world, in m
    force  force of body 2 on body 3 in N, in the axes of body 3
    """

    claw: np.ndarray
    force: np.ndarray


@dataclass(frozen=True)
class Validation:
    """Results of the validation motion at `times` (n,).

    ours        claw position and force computed by this program
    others      {engine: claw position and force that this other engine computed}
    open_tree   force of body 2 on body 3 without the closed loops, N
    efforts     efforts of actuators and tensions of springs
    last_speed  largest joint velocity at the end of the motion
    """

    times: np.ndarray
    ours: Seen
    others: dict[str, Seen]
    open_tree: np.ndarray
    efforts: Efforts
    last_speed: float


@dataclass(frozen=True)
class Times:
    """Processor time (s) of 1000 time steps of a model.

    bodies      number of bodies of the model
    kinematics  {implementation: time for kinematics alone}
    whole       {implementation: time for kinematics and dynamics}
    """

    bodies: int
    kinematics: dict[str, float]
    whole: dict[str, float]


def joint_names(mechanism: Mechanism) -> list[str]:
    """Names of the joints that are not fixed."""
    return [joint.name for joint in mechanism.moving_joints]


def validation(samples: int, checked: int) -> Validation:
    """Results of the 5 s validation motion at `samples` instants, by this program and by other engines.

    checked  number of instants at which the slow engine `sim_core.reference` computes results. The engine pinocchio,
             if installed, computes results at all instants
    """
    p, tree = read_parameters(), build("charmie", limits="none")
    motion = validation_motion(p, joint_names(tree))
    times = np.linspace(0.0, DURATION, samples)
    instants = [motion(t) for t in times]
    claw, force, open_tree = [], [], []
    for q, v, a in instants:
        at = postures(tree, q)
        moving = motions(tree, at, v, a)
        hand = at[CLAW_BODY]
        claw.append(hand.p_WO + hand.R_WB @ np.array(p.arm.claw.center))
        force.append(loads_of_motion(p, tree, moving, q).floor.force)
        open_tree.append(joint_loads(tree, moving)["link_3"].force)
    others = {"the slow reference": _by_reference(p, tree, instants, checked)}
    pinocchio = _by_pinocchio(p, tree, instants)
    if pinocchio is not None:
        others["pinocchio, from our URDF"] = pinocchio
    efforts = efforts_over(p, tree, posed(tree, motion, times), times)
    ours = Seen(np.array(claw), np.array(force))
    return Validation(times, ours, others, np.array(open_tree), efforts, float(np.abs(motion(DURATION)[1]).max()))


def _by_reference(p: Parameters, tree: Mechanism, instants: Sequence[Instant], checked: int) -> Seen:
    """Claw position and force by the slow reference: second-order Taylor series along the motion, and Newton's law.

    The reference is computed at `checked` evenly spaced instants; the results at all other instants are NaN.

    p     CHARMIE's parameters
    tree  CHARMIE as an open tree, built from `p`
    """
    n = len(instants)
    claw, force = np.full((n, 3), np.nan), np.full((n, 3), np.nan)
    for k in sorted({round(x) for x in np.linspace(0, n - 1, checked)}):
        q, v, a = instants[k]
        along = reference.frames_along(tree, q, v)
        steered = reference.frames_along(tree, q, a)
        total = np.zeros(3)
        for body in tree.bodies[2:]:
            C = body.center_of_mass
            # d2/dt2 x(q) = x'' along v, and x' along a
            acceleration = along[body.name].point(C).dd + steered[body.name].point(C).d
            total += float(body.mass) * (acceleration - np.array(tree.gravity))  # type: ignore[arg-type]
        claw[k] = along[CLAW_BODY].point(p.arm.claw.center).x
        force[k] = along["link_3"].R.x.T @ total
    return Seen(claw, force)


def _by_pinocchio(p: Parameters, tree: Mechanism, instants: Sequence[Instant]) -> Seen | None:
    """Claw position and force by pinocchio from the exported URDF; None where pinocchio is not installed.

    p     CHARMIE's parameters
    tree  CHARMIE as an open tree, built from `p`
    """
    try:
        import pinocchio as pin
    except ImportError:
        return None

    model = pin.buildModelFromXML(export(tree, "urdf").text)
    data, order = model.createData(), [model.getJointId(name) for name in joint_names(tree)]
    yaw, hand = model.getJointId("base_yaw"), model.getFrameId(CLAW_BODY)
    claw, force = [], []
    for instant in instants:
        q, v, a = (np.zeros(model.nv) for _ in range(3))
        for into, values in zip((q, v, a), instant, strict=True):
            into[[model.idx_vs[joint] for joint in order]] = values
        pin.rnea(model, data, _configuration(model, q), v, a)
        pin.framesForwardKinematics(model, data, _configuration(model, q))
        placed = data.oMf[hand]
        claw.append(placed.translation + placed.rotation @ np.array(p.arm.claw.center))
        force.append(data.f[yaw].linear.copy())
    return Seen(np.array(claw), np.array(force))


def _configuration(model: Any, q: np.ndarray) -> np.ndarray:
    """Joint positions as pinocchio expects them, from the positions `q`.

    A continuous joint has two entries, the cosine and the sine of its angle. Any other joint has its position.
    """
    found = np.zeros(model.nq)
    for joint in range(1, model.njoints):
        at, value = model.idx_qs[joint], q[model.idx_vs[joint]]
        found[at : at + model.nqs[joint]] = [value] if model.nqs[joint] == 1 else [np.cos(value), np.sin(value)]
    return found


def springs(samples: int) -> SpringStudy:
    """Find the spring parameters that minimize the actuator forces while CHARMIE squats and leans."""
    p, tree = read_parameters(), build("charmie", limits="none")
    times = np.linspace(0.0, SQUAT_S, samples)
    return tune_springs(p, tree, posed(tree, squat_and_lean(p, joint_names(tree)), times), times)


def clouds(moments: Sequence[float]) -> dict[float, dict[str, Any]]:
    """{time: {body: its point cloud}} at the times `moments` (s) of the validation motion."""
    p, tree = read_parameters(), build("charmie", limits="none")
    motion = validation_motion(p, joint_names(tree))
    return {t: dict(point_clouds(p, tree, motion(t)[0])) for t in moments}


def times_of(name: str, steps: int) -> Times:
    """Processor times of 1000 time steps of one model of table 5, extrapolated from `steps` measured time steps."""
    motion = _motion_of(name)
    kinematics, whole = {}, {}
    for way, make in ((NUMPY, _by_numpy), (COMPILED, _by_kernels)):
        place, compute = make(name)
        kinematics[way], whole[way] = _cost(place, motion, steps), _cost(compute, motion, steps)
    return Times(len(build(name, limits="none").bodies), kinematics, whole)


Step = Callable[[Instant], object]


def _motion_of(name: str) -> JointMotion:
    mechanism = build(name, limits="none")
    if name == "charmie":
        return validation_motion(read_parameters(), joint_names(mechanism))
    n = len(mechanism.initial_q)

    def at(t: float) -> Instant:
        x, v, a = bang(np.pi / 9, t)
        return np.full(n, x), np.full(n, v), np.full(n, a)

    return at


def _by_numpy(name: str) -> tuple[Step, Step]:
    """Two numpy functions for the robot `name` that compute one instant of a motion by steps 4 to 6 of the paper's
    algorithm.

    The first function computes poses and points of all bodies, the second also the loads.
    """
    mechanism, p = build(name, limits="none"), read_parameters()
    local = local_points(mechanism)

    def place(instant: Instant) -> dict[str, Posture]:
        at = postures(mechanism, instant[0])
        main_clouds(local, at)
        if name == "charmie":
            auxiliary_clouds(p, mechanism, at, instant[0])
        return at

    def compute(instant: Instant) -> None:
        moving = motions(mechanism, place(instant), instant[1], instant[2])
        if name == "charmie":
            loads_of_motion(p, mechanism, moving, instant[0])
        else:
            joint_loads(mechanism, moving)

    return place, compute


def _by_kernels(name: str) -> tuple[Step, Step]:
    """Two functions for the robot `name` that compute one instant of a motion by compiled kernels.

    The first function computes the poses of all bodies, the second also the joint efforts. For CHARMIE, the kernels are
    those of the open tree.
    """
    system = assemble(build(name, limits="none"))
    q, v, a, tau = (np.zeros(system.n_q) for _ in range(4))
    n = len(system.mechanism.bodies)
    poses = system.bind_forward_kinematics(q, np.zeros((n, 3)), np.zeros((n, 3, 3)))
    inverse = system.bind_inverse_dynamics(q, v, a, tau)

    def place(instant: Instant) -> None:
        q[:] = instant[0]
        poses()

    def compute(instant: Instant) -> None:
        q[:], v[:], a[:] = instant
        poses()
        inverse()

    return place, compute


def _cost(step: Step, motion: JointMotion, steps: int) -> float:
    """Processor time (s) of 1000 time steps of a motion.

    The result is the shortest time of TRIALS trials. Each trial repeats the motion until about LASTING seconds pass.
    """
    instants = [motion(DURATION * k / steps) for k in range(steps)]
    rounds, best = 1, float("inf")
    for trial in range(TRIALS + 1):
        began = time.process_time()
        for _ in range(rounds):
            for instant in instants:
                step(instant)
        spent = time.process_time() - began
        best = min(best, spent / rounds)
        if trial == 0:  # the first trial sets the number of rounds of the others
            rounds = max(1, round(LASTING / max(spent, 1e-6)))
    return best * STEPS / steps

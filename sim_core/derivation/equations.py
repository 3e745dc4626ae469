"""Derivation of the symbolic kernels of a mechanism. The same kernels serve all constraint modes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from sim_core.derivation.beams import beam_power, with_beams
from sim_core.derivation.constraints import Rows
from sim_core.derivation.coordinates import absolute, angles, orientations, recursive
from sim_core.derivation.correction import sampled_fuzzy
from sim_core.derivation.forces.applied import AppliedForces, applied_forces
from sim_core.derivation.forces.joint_parts import check_measured, with_armatures
from sim_core.derivation.forces.springs import spring_energy, spring_forces, spring_power
from sim_core.derivation.guards import captured_numbers, guard_values
from sim_core.derivation.immovable import ImmovableRows, check_movable
from sim_core.derivation.making import KernelMaker, arguments
from sim_core.derivation.outputs import outputs_of
from sim_core.derivation.solving.solutions import Solution, solution_of
from sim_core.derivation.states import with_states, without_states
from sim_core.derivation.symbols import Frame, JointMeasure, Measures, Motion, Symbols, column
from sim_core.kernels.program import LIFTED, LIFTED_VALUES
from sim_core.mechanism.description import JointOutput, Mechanism, PrescribedMotion
from sim_core.mechanism.slip import with_slip
from sim_core.mobility import with_contact_stiffness

# {choice of coordinates: (function that derives the motion of the bodies, function that measures the joints)}
FAMILIES: dict[str, tuple[Callable[[Mechanism], tuple[Symbols, Motion]], Callable[..., Measures]]] = {
    "absolute": (absolute.derive, absolute.joint_measures),
    "joint": (recursive.derive, recursive.joint_measures),
    "absolute_angle": (angles.derive, angles.joint_measures),
}


@dataclass(frozen=True)
class Derivation:
    """The symbolic functions of a mechanism, by kernel name, and the data that a compiled system needs.

    facts   plain data: names of coordinates and constraint rows, joints whose angle wraps, and others
    uses    {kernel: names of the tables whose rows are the kernel's last inputs}
    tables  {table: (function that computes the row index, array of the table)}
    twins   {argument: pairs of indices of corresponding elements in branches of equal structure}
    """

    functions: dict[str, ca.Function]
    facts: dict[str, object]
    uses: dict[str, tuple[str, ...]]
    tables: dict[str, tuple[ca.Function, np.ndarray]]
    twins: dict[str, list[tuple[int, int]]]


@dataclass(frozen=True)
class Equations:
    """The equations of motion of a mechanism, as expressions, before they become kernels.

    positions, rates  positions and velocities (n_joints,) of the declared joints
    wraps             indices of the joints whose angle is wrapped to [-pi, pi]
    still             coordinates and rows that cannot move
    others            forces of contacts, springs of joints, dry friction, stops and custom forces
    applied           all generalized forces but those of inertia and gravity
    power             power of actuators, loads, damping and friction, W
    """

    mechanism: Mechanism
    symbols: Symbols
    motion: Motion
    positions: ca.SX
    rates: ca.SX
    wraps: list[int]
    still: ImmovableRows
    others: AppliedForces
    applied: ca.SX
    power: ca.SX
    solution: Solution


def equations_of(mechanism: Mechanism) -> Equations:
    """The equations of motion of a mechanism."""
    mechanism = with_slip(with_contact_stiffness(mechanism))
    symbols, motion, positions, rates, wraps = moving_bodies(mechanism)
    still = check_movable(mechanism, symbols, motion, rates)
    check_measured(mechanism, wraps)
    others = applied_forces(mechanism, motion, symbols, positions, rates)
    applied = others.plus(_joint_forces(mechanism, symbols, rates) + spring_forces(mechanism, motion.frames, symbols))
    power = others.power(_power(mechanism, motion, symbols, rates))
    if mechanism.oriented_joints:
        damping = orientations.damping_forces(mechanism, symbols)
        applied, power = applied + damping, power + ca.dot(damping, symbols.v)
    solution = solution_of(mechanism, motion, motion.f + applied, symbols)
    return Equations(mechanism, symbols, motion, positions, rates, wraps, still, others, applied, power, solution)


def derive(mechanism: Mechanism) -> Derivation:
    """The symbolic functions of all kernels of a mechanism.

    The inputs of most kernels are t, q, v, u, p: time, coordinates, velocities, actuator inputs and parameters. The
    parameters include a flag (1 or 0) for each constraint that is not always active. `guards` also has the multipliers
    lam as an input. `inverse_dynamics` has the accelerations a in place of u. `_kernels_of` lists the inputs of the
    kernels that solve the equations of motion.
    """
    equations = equations_of(mechanism)
    mechanism, symbols, motion, solution = equations.mechanism, equations.symbols, equations.motion, equations.solution
    positions, rates, wraps, still = equations.positions, equations.rates, equations.wraps, equations.still
    others, applied, power = equations.others, equations.applied, equations.power
    maker = KernelMaker(solution.symbols, solution.rewrite)
    maker.add_all(mechanism.constraint_modes[0].name, _kernels_of(solution))
    a = ca.SX.sym("a", len(solution.coordinate_names))
    needed = ca.substitute(solution.inertial(a, applied), symbols.u, ca.SX.zeros(symbols.u.shape))
    maker.add("inverse_dynamics", arguments(solution.symbols, a=a), [needed])
    output_names, outputs = outputs_of(mechanism, motion, symbols, positions, solution, others)
    power = power + prescribed_power(mechanism, solution) if has_prescribed(mechanism) else power
    multipliers = solution.solve(solution.f, solution.rows.gamma)[1] if solution.slips else ca.SX(0, 1)
    for slip in solution.slips.values():
        power += ca.dot(slip.per_load, slip.velocity) * slip.load_of(multipliers)
    angles = {name: slip.angle(multipliers, ca.SX(symbols.row_factor(name))) for name, slip in solution.slips.items()}
    shared = {
        "joints": [positions, rates],
        "wrapping": [_selected(positions, wraps)],
        "energy": [_energy(mechanism, motion, symbols, others.stored)],
        "power": [power],
        "outputs": [outputs],
        "poses": list(_poses(mechanism, motion)),
        "captures": [captured_numbers(mechanism, motion.frames, symbols, angles)],
    }
    if mechanism.oriented_joints:
        shared["rebase"] = orientations.rebased(mechanism, symbols)
    if mechanism.posed_joints:
        shared["frames"] = orientations.frames_and_twists(mechanism, symbols)
    for name, results in shared.items():
        maker.add(name, arguments(solution.symbols), results)
    lam = ca.SX.sym("lam", solution.rows.J.shape[0])
    values = guard_values(mechanism, motion.frames, symbols, solution.rows.names, lam, solution.slips)
    maker.add("guards", arguments(solution.symbols) | {"lam": lam}, [values])
    facts: dict[str, object] = {
        "coordinate_names": solution.coordinate_names,
        "row_names": solution.rows.names,
        "row_lengths": solution.rows.lengths,
        "n_holonomic": solution.rows.Phi.numel(),
        "factor_size": solution.factor.parts().numel(),
        "pivots": solution.factor.pivots(),
        "pivot_rows": solution.factor.pivot_rows(),
        "wraps": wraps,
        "output_names": output_names,
        "output_wraps": _output_wraps(mechanism, output_names, wraps),
        "does_work": not power.is_zero(),
        "idle": still.idle,
        "captured_rows": still.captured_rows,
    }
    return Derivation(maker.functions, facts, maker.uses, maker.tables(), twins_of(mechanism, motion, symbols))


def derive_batch(mechanism: Mechanism) -> dict[str, ca.Function]:
    """{name: function} of the kernels of a batch: inverse and forward dynamics, and `rates`.

    `rates` is a function (t, q, v, u, p) that returns the accelerations a and the multipliers lam. Unlike the kernel
    `acceleration`, `rates` does not return the factorization of the KKT matrix.
    """
    functions, first = derive(mechanism).functions, mechanism.constraint_modes[0].name
    return {
        "inverse_dynamics": functions["inverse_dynamics"],
        "forward_dynamics": functions[f"{first}.forward_dynamics"],
        "rates": _rates(functions[f"{first}.acceleration"], stabilized=False),
    }


def derive_lanes(mechanism: Mechanism, stabilized: bool) -> dict[str, ca.Function]:
    """{name: function} of the kernels of a loop that integrates a batch of systems.

    `rates` returns the accelerations a and multipliers lam. Without stabilization, it is a function (t, q, v, u, p).
    With stabilization, it is a function (t, q, v, u, p, U), and the kernel `correction` (t, q, v, u, p, gains) returns
    the stabilization U of the stabilizer "sampled_fuzzy". With spherical or free joints there is also the kernel
    `rebase` (t, q, v, u, p), which returns new q, v, p of the same motion: the rotation of each such joint is moved
    from its coordinates in q to its quaternion in p.
    """
    functions, first = derive(mechanism).functions, mechanism.constraint_modes[0].name
    found = {"rates": _rates(functions[f"{first}.acceleration"], stabilized)}
    if stabilized:
        found["correction"] = sampled_fuzzy(functions[f"{first}.residual"])
    if mechanism.oriented_joints:
        found["rebase"] = functions["rebase"]
    return found


def _rates(whole: ca.Function, stabilized: bool) -> ca.Function:
    """The function `rates` (t, q, v, u, p) that returns the accelerations a and the multipliers lam.

    If `stabilized`, the stabilization U is a further input.

    whole  function of the kernel `acceleration`, from which `rates` is made
    """
    inputs = dict(zip(whole.name_in(), whole.sx_in(), strict=True))
    if not stabilized:
        inputs["U"] = ca.SX.zeros(inputs["U"].shape)
    results = dict(zip(whole.name_out(), whole.call(list(inputs.values())), strict=True))
    a, lam, _, *lifted = results.values()
    names = ["a", "lam", *[name for name in results if name == LIFTED_VALUES]]
    if not stabilized:
        del inputs["U"]
    return ca.Function("rates", list(inputs.values()), [a, lam, *lifted], list(inputs), names)


def twins_of(mechanism: Mechanism, motion: Motion, symbols: Symbols) -> dict[str, list[tuple[int, int]]]:
    """{argument of the kernels, such as "q": pairs of indices of corresponding elements} of twin branches.

    Twin branches are two branches of equal structure on one parent, such as two arms. Arguments without pairs are left
    out.
    """
    if not motion.twins and not symbols.lifted.twins:
        return {}
    joints = {name: index for index, name in enumerate(motion.coordinate_names)}
    driven = {joints.get(actuator.joint, -1): index for index, actuator in enumerate(mechanism.actuators)}
    efforts = [(driven[a], driven[b]) for a, b in motion.twins if a in driven and b in driven]
    alike = dict.fromkeys(("q", "v", "a", "tau", "r1"), motion.twins)
    return alike | {"u": efforts, LIFTED: symbols.lifted.twins}


def _kernels_of(solution: Solution) -> dict[str, tuple[dict[str, ca.SX], list[ca.SX]]]:
    """{kernel: (inputs, results)} of the kernels that solve M x + J' y = r1, J x = r2.

    M is the mass matrix, and J is the Jacobian of the constraint rows. The inputs of most kernels are t, q, v, u, p.
    The other kernels differ as follows:

    acceleration      has the stabilization U as a further input
    solve_residual    has U and the accelerations a as further inputs
    least_norm        has r2 as a further input
    relaxed           has U, a guess g of the accelerations, and two weights w_v, w_q as further inputs
    forward_dynamics  has the generalized forces tau in place of u
    apply             has only a stored factorization, r1 and r2 as inputs

    The kernel `relaxed` serves implicit methods. The state at a stage of such a method depends on an unknown
    acceleration a: q = q* + w_q a, v = v* + w_v a, with known q*, v*. The kernel is called with the q and v that a
    guess g in place of a gives, and returns a better guess. With the forces f at this state, the kernel solves

        (M + W) a + J' lam = f + W g,   J a = gamma - U

    for a and the multipliers lam. W = w_v D0 + w_q K0 contains the damping matrix D0 and the stiffness matrix K0 of the
    beams. The linear forces of the beams are thus treated implicitly.
    """
    symbols, M, f, rows, factor = solution.symbols, solution.M, solution.f, solution.rows, solution.factor
    usual = arguments(symbols)
    n_q, n_rows = M.shape[0], rows.J.shape[0]
    U = ca.SX.sym("U", n_rows)
    a, lam = solution.solve(f, rows.gamma - U)
    tau = ca.SX.sym("tau", n_q)
    f_passive = ca.substitute(f, symbols.u, ca.SX.zeros(symbols.u.shape))
    driven, forces = solution.solve(f_passive + tau, rows.gamma)
    parts = factor.parts()
    stored = ca.SX.sym("factor", parts.numel())
    r1, r2 = ca.SX.sym("r1", n_q), ca.SX.sym("r2", n_rows)
    x, y = factor.with_parts(stored).solve(r1, r2)
    least = solution.least_norm.solve(ca.SX(n_q, 1), r2)[0]
    kernels = {
        "terms": (usual, [M, f, rows.J, rows.gamma]),
        "acceleration": (usual | {"U": U}, [a, lam, parts]),
        "forward_dynamics": (arguments(symbols, tau=tau), [driven, forces]),
        "apply": ({"factor": stored, "r1": r1, "r2": r2}, [x, y]),
        "residual": (usual, [rows.Phi, rows.Phidot]),
        "least_norm": (usual | {"r2": r2}, [least]),
        "solve_residual": (usual | {"U": U, "a": (found := ca.SX.sym("a", n_q))}, _residual_of(rows, U, found)),
    }
    if solution.relaxed is not None:
        guess, weights = ca.SX.sym("guess", n_q), ca.SX.sym("weights", 2)
        added, implicit = solution.relaxed(weights)
        better = implicit.solve(f + added @ guess, rows.gamma - U)
        kernels["relaxed"] = (usual | {"U": U, "guess": guess, "weights": weights}, list(better))
    return kernels


def _residual_of(rows: Rows, U: ca.SX, a: ca.SX) -> list[ca.SX]:
    """[residual, scale] of the constraint equations J a = gamma - U, for accelerations a and the stabilization U.

    residual  largest |J a + U - gamma| of all rows
    scale     largest |J| (|a| + 1) + |U| + |gamma| of all rows. The 1, in m/s^2 or rad/s^2, keeps the scale above
              rounding errors if the mechanism is at rest
    """
    if not rows.names:
        return [ca.SX(0), ca.SX(0)]
    J, gamma, U = ca.densify(rows.J), ca.densify(rows.gamma), ca.densify(U * (1 - rows.idle))
    sizes = ca.fabs(J) @ (ca.fabs(a) + 1) + ca.fabs(U) + ca.fabs(gamma)
    return [ca.mmax(ca.fabs(J @ a + U - gamma)), ca.mmax(sizes)]


def moving_bodies(mechanism: Mechanism) -> tuple[Symbols, Motion, ca.SX, ca.SX, list[int]]:
    """Symbols and equations of motion of a mechanism, including its first-order states, beams and armatures.

    Returns the symbols; the motion, which holds frames and equations of the bodies; the positions (n_joints,) and
    velocities (n_joints,) of the joints; and the indices of the joints whose angle is wrapped to [-pi, pi].
    """
    derive_bodies, joint_measures = FAMILIES[mechanism.coordinates]
    symbols, motion = with_states(mechanism, *derive_bodies(mechanism))
    symbols, motion = with_beams(mechanism, symbols, motion)
    positions, rates, wraps = joint_measures(mechanism, motion, symbols)
    joints = {
        joint.name: JointMeasure(positions[index], rates[index], joint.is_length, index in wraps)
        for index, joint in enumerate(mechanism.moving_joints)
    }
    motion = with_armatures(mechanism, symbols, motion, rates)
    inputs = {actuator.name: symbols.u[index] for index, actuator in enumerate(mechanism.actuators)}
    return replace(symbols, joints=joints, inputs=inputs), motion, positions, rates, wraps


def _joint_forces(mechanism: Mechanism, symbols: Symbols, rates: ca.SX) -> ca.SX:
    """Generalized forces of actuators, joint loads and joint damping, by virtual power with the joint rates."""
    return ca.jacobian(rates, symbols.v).T @ _joint_efforts(mechanism, symbols, rates)


def _joint_efforts(mechanism: Mechanism, symbols: Symbols, rates: ca.SX) -> ca.SX:
    """Efforts (n_joints,) of actuators, loads and damping along each joint, N m or N."""
    names = [joint.name for joint in mechanism.moving_joints]
    efforts: list[ca.SX] = [ca.SX(0) for _ in names]
    for index, actuator in enumerate(mechanism.actuators):
        if not actuator.joint:
            continue
        efforts[names.index(actuator.joint)] += symbols.u[index]
    for index, joint in enumerate(mechanism.moving_joints):
        efforts[index] += symbols.number(joint.load) - symbols.number(joint.damping) * rates[index]
    return column(efforts)


def _power(mechanism: Mechanism, motion: Motion, symbols: Symbols, rates: ca.SX) -> ca.SX:
    """Power, W, of actuator efforts, joint loads and joint damping, and of the damping of springs and beams."""
    efforts = _joint_efforts(mechanism, symbols, rates)
    power = ca.dot(efforts, rates) if efforts.numel() else ca.SX(0)
    return power + spring_power(mechanism, motion.frames, symbols) + beam_power(mechanism, motion, symbols)


def has_prescribed(mechanism: Mechanism) -> bool:
    """Whether some constraint prescribes a motion. The forces of such a constraint do work."""
    return any(isinstance(constraint, PrescribedMotion) for constraint in mechanism.constraints)


def prescribed_power(mechanism: Mechanism, solution: Solution) -> ca.SX:
    """Power -lam' J v, W, of the constraints that prescribe motions, with their multipliers lam and Jacobian J.

    The work of the impulse at a jump of a prescribed velocity is no part of it.
    """
    power, rows, v = ca.SX(0), solution.rows, solution.symbols.v
    for constraint in mechanism.constraints:
        if isinstance(constraint, PrescribedMotion):
            row = rows.names.index(constraint.name)
            power -= solution.multiplier(constraint.name) * (rows.J[row, :] @ v)
    return power


def _energy(mechanism: Mechanism, motion: Motion, symbols: Symbols, stored: list[ca.SX]) -> ca.SX:
    v = without_states(symbols, motion)
    kinetic = 0.5 * ca.dot(v, motion.M @ v)
    potential = motion.potential + spring_energy(mechanism, motion.frames, symbols)
    for energy in stored:
        potential = potential + energy
    for body in mechanism.bodies:
        center = motion.frames[body.name].point(body.center_of_mass)
        potential -= symbols.number(body.mass) * ca.dot(ca.DM(mechanism.gravity), center)
    return ca.vertcat(kinetic, potential)


def _output_wraps(mechanism: Mechanism, output_names: list[str], wraps: list[int]) -> list[tuple[int, int]]:
    """Pairs (index in `output_names`, index in `wraps`), one for each JointOutput of a joint with a wrapped angle.

    output_names  names of the outputs
    wraps         indices of the joints whose angle is wrapped to [-pi, pi]
    """
    joints = [joint.name for joint in mechanism.moving_joints]
    measured = [(o.name, joints.index(o.joint)) for o in mechanism.outputs if isinstance(o, JointOutput)]
    return [(output_names.index(name), wraps.index(joint)) for name, joint in measured if joint in wraps]


def _poses(mechanism: Mechanism, motion: Motion) -> tuple[ca.SX, ca.SX]:
    """Two columns: positions (3 n,), and rotation matrices (9 n,), each row by row, of all n bodies."""
    frames: list[Frame] = [motion.frames[body.name] for body in mechanism.bodies]
    positions = ca.vertcat(*[frame.p for frame in frames])
    return positions, ca.vertcat(*[ca.vec(frame.R.T) for frame in frames])


def _selected(values: ca.SX, indices: list[int]) -> ca.SX:
    return ca.vertcat(*[values[index] for index in indices]) if indices else ca.SX(0, 1)

"""Mechanism -> the symbolic kernels of a system, one set per configuration, and what is known about their shapes."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from sim_core import spatial
from sim_core.derivation import absolute, recursive, tree
from sim_core.derivation.constrained import ConstrainedFactor, factorize_constrained
from sim_core.derivation.constraints import Rows, all_constraints, rows_for
from sim_core.derivation.springs import spring_energy, spring_forces
from sim_core.derivation.symbols import Frame, Lifted, Motion, Symbols
from sim_core.kernels.program import LIFTED, LIFTED_VALUES
from sim_core.mechanism import GROUND, Joint, JointOutput, Mechanism, SpinRelation, UnitNorm
from sim_core.solve import regularization_for
from sim_core.validation import validate

FAMILIES = {"absolute": absolute.derive, "joint": recursive.derive}


@dataclass(frozen=True)
class Derivation:
    """The symbolic functions of a mechanism, by kernel name, and the facts that the compiled system keeps.

    facts  plain data: coordinate names, row names per configuration, which joint angles wrap, ...
    twins  argument name -> pairs of its elements that correspond in alike branches
    """

    functions: dict[str, ca.Function]
    facts: dict[str, object]
    twins: dict[str, list[tuple[int, int]]]


def derive(mechanism: Mechanism) -> Derivation:
    """All kernels of a mechanism. Inputs of most: t, q, v, u, p; the others are in `_kernels_of`, and dynamics below.

    `inverse_dynamics` takes a in the place of u, `forward_dynamics` the generalized forces tau.
    """
    validate(mechanism)
    symbols, motion = FAMILIES[mechanism.coordinates](mechanism)
    positions, rates, wraps = _joint_measures(mechanism, motion, symbols)
    applied = _joint_forces(mechanism, symbols, rates) + spring_forces(mechanism, motion.frames, symbols)
    f = motion.f + applied
    arguments = _arguments(symbols)
    functions: dict[str, ca.Function] = {}
    row_names: list[tuple[str, ...]] = []
    n_holonomic: list[int] = []
    factor_sizes: list[int] = []
    constraints = all_constraints(mechanism)
    for configuration in mechanism.configurations:
        active = [c for c in constraints if configuration.constraints is None or c.name in configuration.constraints]
        rows = rows_for(active, motion.frames, symbols)
        closed = len(active) > 0 and _has_loops(mechanism)
        factor, least_norm = _factors(mechanism, motion, symbols, rows, closed)
        kernels = _kernels_of(motion.M, f, rows, factor, least_norm, symbols)
        functions |= {f"{configuration.name}.{name}": function for name, function in kernels.items()}
        row_names.append(rows.names)
        n_holonomic.append(rows.Phi.numel())
        factor_sizes.append(factor.parts().numel())
    a = ca.SX.sym("a", symbols.q.numel())
    needed = ca.substitute(motion.inertial(a) - applied, symbols.u, ca.SX.zeros(symbols.u.shape))
    functions["inverse_dynamics"] = _kernel("inverse_dynamics", _arguments(symbols, a=a), [needed], symbols.lifted)
    functions["joints"] = _kernel("joints", arguments, [positions, rates], symbols.lifted)
    functions["wrapping"] = _kernel("wrapping", arguments, [_selected(positions, wraps)], symbols.lifted)
    functions["energy"] = _kernel("energy", arguments, [_energy(mechanism, motion, symbols)], symbols.lifted)
    output_names, outputs = _outputs(mechanism, motion, positions)
    functions["outputs"] = _kernel("outputs", arguments, [outputs], symbols.lifted)
    functions["poses"] = _kernel("poses", arguments, list(_poses(mechanism, motion)), symbols.lifted)
    functions["guards"] = _kernel("guards", arguments, [_guards(mechanism, motion)], symbols.lifted)
    facts: dict[str, object] = {
        "coordinate_names": motion.coordinate_names,
        "row_names": row_names,
        "n_holonomic": n_holonomic,
        "factor_sizes": factor_sizes,
        "wraps": wraps,
        "output_names": output_names,
        "output_wraps": _output_wraps(mechanism, output_names, wraps),
    }
    return Derivation(functions, facts, _twins(mechanism, motion, symbols))


def derive_batch(mechanism: Mechanism) -> dict[str, ca.Function]:
    """The kernels of a batch: inverse and forward dynamics, and `rates` (t, q, v, u, p) -> a, lam without a factor."""
    functions = derive(mechanism).functions
    first = mechanism.configurations[0].name
    whole = functions[f"{first}.acceleration"]
    inputs = dict(zip(whole.name_in(), whole.sx_in(), strict=True))
    inputs["U"] = ca.SX.zeros(inputs["U"].shape)
    results = dict(zip(whole.name_out(), whole.call(list(inputs.values())), strict=True))
    a, lam, _, *lifted = results.values()
    names = ["a", "lam", *[name for name in results if name == LIFTED_VALUES]]
    del inputs["U"]
    return {
        "inverse_dynamics": functions["inverse_dynamics"],
        "forward_dynamics": functions[f"{first}.forward_dynamics"],
        "rates": ca.Function("rates", list(inputs.values()), [a, lam, *lifted], list(inputs), names),
    }


def _arguments(symbols: Symbols, **in_place_of_u: ca.SX) -> dict[str, ca.SX]:
    """t, q, v, u, p by name; another vector may stand in the place of u."""
    fourth = in_place_of_u or {"u": symbols.u}
    return {"t": symbols.t, "q": symbols.q, "v": symbols.v, **fourth, "p": symbols.p}


def _kernel(name: str, inputs: dict[str, ca.SX], results: list[ca.SX], lifted: Lifted) -> ca.Function:
    """A function whose results are dense, as kernels write them; the lifted values it needs come last."""
    results, names = [ca.densify(result) for result in results], [f"result_{k}" for k in range(len(results))]
    places = lifted.needed_by(results)
    if places:
        values = ca.SX.zeros(len(lifted.values))
        for place in places:
            values[place] = lifted.values[place]
        inputs, results, names = (
            inputs | {LIFTED: ca.vertcat(*lifted.symbols)},
            [*results, values],
            [*names, LIFTED_VALUES],
        )
    return ca.Function(name, list(inputs.values()), results, list(inputs), names)


def _twins(mechanism: Mechanism, motion: Motion, symbols: Symbols) -> dict[str, list[tuple[int, int]]]:
    """Pairs of corresponding elements of every argument that has some."""
    if not motion.twins:
        return {}
    joints = {name: index for index, name in enumerate(motion.coordinate_names)}
    driven = {joints.get(actuator.joint, -1): index for index, actuator in enumerate(mechanism.actuators)}
    efforts = [(driven[a], driven[b]) for a, b in motion.twins if a in driven and b in driven]
    alike = dict.fromkeys(("q", "v", "a", "tau", "r1"), motion.twins)
    return alike | {"u": efforts, LIFTED: symbols.lifted.twins}


def _kernels_of(
    M: ca.SX, f: ca.SX, rows: Rows, factor: ConstrainedFactor, least_norm: ConstrainedFactor, symbols: Symbols
) -> dict[str, ca.Function]:
    """The kernels of one configuration; `acceleration` takes U too, `apply` factor, r1, r2, `least_norm` r2 too."""
    arguments, lifted = _arguments(symbols), symbols.lifted
    n_q, n_rows = M.shape[0], rows.J.shape[0]
    U = ca.SX.sym("U", n_rows)
    a, lam = factor.solve(f, rows.gamma - U)
    tau = ca.SX.sym("tau", n_q)
    f_passive = ca.substitute(f, symbols.u, ca.SX.zeros(symbols.u.shape))
    driven, forces = factor.solve(f_passive + tau, rows.gamma)
    parts = factor.parts()
    stored = ca.SX.sym("factor", parts.numel())
    r1, r2 = ca.SX.sym("r1", n_q), ca.SX.sym("r2", n_rows)
    x, y = factor.with_parts(stored).solve(r1, r2)
    whole = [M, f, rows.J, rows.gamma]
    rhs = least_norm.solve(ca.SX(n_q, 1), r2)[0]
    parts_of: dict[str, tuple[dict[str, ca.SX], list[ca.SX]]] = {
        "terms": (arguments, whole),
        "acceleration": (arguments | {"U": U}, [a, lam, parts]),
        "forward_dynamics": (_arguments(symbols, tau=tau), [driven, forces]),
        "apply": ({"factor": stored, "r1": r1, "r2": r2}, [x, y]),
        "residual": (arguments, [rows.Phi, rows.Phidot]),
        "least_norm": (arguments | {"r2": r2}, [rhs]),
    }
    return {name: _kernel(name, inputs, results, lifted) for name, (inputs, results) in parts_of.items()}


def _factors(
    mechanism: Mechanism, motion: Motion, symbols: Symbols, rows: Rows, closed: bool
) -> tuple[ConstrainedFactor, ConstrainedFactor]:
    """The factor of the constrained solve, and the same with the identity for M, which gives least-norm solutions.

    Whether rows may lose rank is decided here, at the start state: by loops, and by the numbers.
    """
    inputs = {"t": symbols.t, "q": symbols.q, "v": symbols.v, "p": symbols.p}
    start = [0.0, mechanism.initial_q, mechanism.initial_v, [tunable.value for tunable in mechanism.tunables]]
    at_start = [symbols.lifted.written_out(motion.M), rows.J]
    M, J = (np.array(value) for value in _kernel("start", inputs, at_start, Lifted())(*start))
    norms = {c.name for c in all_constraints(mechanism) if isinstance(c, UnitNorm)}
    penalty_rows = [index for index, name in enumerate(rows.names) if name in norms]
    regularization = regularization_for(M, J, penalty_rows, closed)
    identity, least = ca.SX.eye(len(M)), regularization_for(np.eye(len(M)), J, [], closed)
    return (
        factorize_constrained(motion.M, rows.J, regularization, penalty_rows),
        factorize_constrained(identity, rows.J, least, []),
    )


def _has_loops(mechanism: Mechanism) -> bool:
    """Whether bodies and constraints between them form a cycle: only then can rows of sound joints lose rank."""
    if mechanism.coordinates == "joint":
        return True
    leader = {name: name for name in [GROUND, *[body.name for body in mechanism.bodies]]}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    edges = [(joint.parent, joint.child) for joint in mechanism.joints]
    edges += [(c.body_a, c.body_b) for c in mechanism.constraints if not isinstance(c, UnitNorm | SpinRelation)]
    for a, b in edges:
        if find(a) == find(b):
            return True
        leader[find(a)] = find(b)
    return False


def _joint_measures(mechanism: Mechanism, motion: Motion, symbols: Symbols) -> tuple[ca.SX, ca.SX, list[int]]:
    """Position and rate of every declared joint, and the indices of those that an arctangent wraps at pi."""
    positions, rates, wraps = [], [], []
    for index, joint in enumerate(mechanism.moving_joints):
        if mechanism.coordinates == "joint":
            at = motion.coordinate_names.index(tree.joint_coordinates(joint)[-1])
            positions.append(symbols.q[at])
            rates.append(symbols.v[at])
            continue
        position, wrapped = _measured_position(mechanism, motion, symbols, joint)
        positions.append(position)
        rates.append(_measured_rate(motion, symbols, joint, position))
        if wrapped:
            wraps.append(index)
    return _column(positions), _column(rates), wraps


def _measured_position(mechanism: Mechanism, motion: Motion, symbols: Symbols, joint: Joint) -> tuple[ca.SX, bool]:
    parent, child = motion.frames[joint.parent], motion.frames[joint.child]
    if joint.kind == "prismatic":
        gap = child.point(joint.child_point) - parent.point(joint.parent_point)
        return ca.dot(parent.axis(joint.axis), gap), False
    planar = {joint.parent: GROUND} if joint.parent == GROUND else {}
    if joint.axis == (0.0, 0.0, 1.0) and all(
        end in planar or mechanism.body(end).orientation == "planar" for end in (joint.parent, joint.child)
    ):
        turn = [_planar_angle(mechanism, motion, symbols, end) for end in (joint.child, joint.parent)]
        zero = float(np.arctan2(joint.rotation[1][0], joint.rotation[0][0]))
        return turn[0] - turn[1] - zero, False
    e1, e2 = spatial.perpendicular_axes(joint.axis)
    relative = parent.R.T @ child.R @ ca.DM(joint.rotation).T
    turned = relative @ ca.DM(e1)
    return ca.atan2(ca.dot(ca.DM(e2), turned), ca.dot(ca.DM(e1), turned)), True


def _planar_angle(mechanism: Mechanism, motion: Motion, symbols: Symbols, name: str) -> ca.SX:
    if name == GROUND:
        return ca.SX(0)
    key = f"{name}.theta"
    if key in motion.coordinate_names:
        return symbols.q[motion.coordinate_names.index(key)]
    body = mechanism.body(name)
    return ca.SX(body.placement[2] if body.placement else 0.0)


def _measured_rate(motion: Motion, symbols: Symbols, joint: Joint, position: ca.SX) -> ca.SX:
    parent, child = motion.frames[joint.parent], motion.frames[joint.child]
    if joint.kind == "prismatic":
        return ca.jtimes(position, symbols.q, symbols.v)
    return ca.dot(parent.axis(joint.axis), child.w_W - parent.w_W)


def _joint_forces(mechanism: Mechanism, symbols: Symbols, rates: ca.SX) -> ca.SX:
    """Generalized forces of actuators, joint loads and joint damping, by virtual power through the joint rates."""
    names = [joint.name for joint in mechanism.moving_joints]
    efforts: list[ca.SX] = [ca.SX(0) for _ in names]
    for index, actuator in enumerate(mechanism.actuators):
        efforts[names.index(actuator.joint)] += symbols.u[index]
    for index, joint in enumerate(mechanism.moving_joints):
        efforts[index] += symbols.number(joint.load) - symbols.number(joint.damping) * rates[index]
    return ca.jacobian(rates, symbols.v).T @ _column(efforts)


def _energy(mechanism: Mechanism, motion: Motion, symbols: Symbols) -> ca.SX:
    kinetic = 0.5 * ca.dot(symbols.v, motion.M @ symbols.v)
    potential = spring_energy(mechanism, motion.frames, symbols)
    for body in mechanism.bodies:
        center = motion.frames[body.name].point(body.center_of_mass)
        potential -= symbols.number(body.mass) * ca.dot(ca.DM(mechanism.gravity), center)
    return ca.vertcat(kinetic, potential)


def _outputs(mechanism: Mechanism, motion: Motion, positions: ca.SX) -> tuple[list[str], ca.SX]:
    names, values = [], []
    joints = [joint.name for joint in mechanism.moving_joints]
    for output in mechanism.outputs:
        if isinstance(output, JointOutput):
            names.append(output.name)
            values.append(positions[joints.index(output.joint)])
            continue
        point = motion.frames[output.body].point(output.point)
        for axis in output.axes:
            names.append(f"{output.name}_{axis}")
            values.append(point["xyz".index(axis)])
    return names, _column(values)


def _output_wraps(mechanism: Mechanism, output_names: list[str], wraps: list[int]) -> list[tuple[int, int]]:
    """(output, place in `wraps`) of the outputs whose joint's angle an arctangent wraps."""
    joints = [joint.name for joint in mechanism.moving_joints]
    measured = [(o.name, joints.index(o.joint)) for o in mechanism.outputs if isinstance(o, JointOutput)]
    return [(output_names.index(name), wraps.index(joint)) for name, joint in measured if joint in wraps]


def _poses(mechanism: Mechanism, motion: Motion) -> tuple[ca.SX, ca.SX]:
    """Positions (3n) and rotation matrices, each row by row (9n)."""
    frames: list[Frame] = [motion.frames[body.name] for body in mechanism.bodies]
    positions = ca.vertcat(*[frame.p for frame in frames])
    return positions, ca.vertcat(*[ca.vec(frame.R.T) for frame in frames])


def _guards(mechanism: Mechanism, motion: Motion) -> ca.SX:
    values = [
        ca.dot(ca.DM(guard.axis), motion.frames[guard.body].point(guard.point)) - guard.level
        for guard in mechanism.guards
    ]
    return _column(values)


def _selected(values: ca.SX, indices: list[int]) -> ca.SX:
    return ca.vertcat(*[values[index] for index in indices]) if indices else ca.SX(0, 1)


def _column(values: list[ca.SX]) -> ca.SX:
    return ca.vertcat(*values) if values else ca.SX(0, 1)

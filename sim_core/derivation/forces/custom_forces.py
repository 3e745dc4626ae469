"""Custom forces in the equations of motion: their laws, evaluated with the mechanism's symbolic expressions."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.symbols import Frames, Symbols
from sim_core.errors import InvalidMechanism
from sim_core.kernels.program import program_of
from sim_core.mechanism.custom_forces import CustomForce, LawInputs, Named, results_of
from sim_core.mechanism.description import Mechanism


@dataclass(frozen=True)
class LawForce:
    """Generalized force and power of one custom force, and rates of its first-order states.

    generalized  generalized force (n_q,), by virtual power
    power        power of the force, W
    rates        {first-order state: rate}
    on_points    (body, world position (3,), world force (3,)) of each force on a point
    """

    generalized: ca.SX
    power: ca.SX
    rates: dict[str, ca.SX]
    on_points: list[tuple[str, ca.SX, ca.SX]]


def custom_forces(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> list[LawForce]:
    """The LawForce of every custom force, in the order of the description."""
    return [_exerted(force, mechanism, frames, symbols) for force in mechanism.forces]


def _exerted(force: CustomForce, mechanism: Mechanism, frames: Frames, symbols: Symbols) -> LawForce:
    owner = f"mechanism {mechanism.name!r}"
    where = f"{owner}: force {force.name!r}"
    points = {point.name: frames[point.body].point(point.point) for point in force.points}
    velocities = {name: ca.jtimes(at, symbols.q, symbols.v) for name, at in points.items()}
    inputs = LawInputs(
        symbols.t,
        Named(where, "joint", {name: joint.position for name, joint in symbols.joints.items()}),
        Named(where, "joint", {name: joint.rate for name, joint in symbols.joints.items()}),
        Named(where, "actuator", symbols.inputs),
        Named(where, "parameter", {name: ca.SX(symbols.number(number)) for name, number in force.parameters}),
        Named(where, "state", {name: symbols.states[f"{force.name}.{name}"] for name, _ in force.states}),
        Named(where, "point", points),
        Named(where, "point", velocities),
    )
    results = results_of(force, inputs, owner, tuple(symbols.joints))
    _check_expressible(results, where)
    generalized, power, rates = ca.SX(symbols.v.numel(), 1), ca.SX(0), dict[str, ca.SX]()
    bodies, on_points = {point.name: point.body for point in force.points}, list[tuple[str, ca.SX, ca.SX]]()
    for name, value in results.items():
        if name in inputs.state:
            rates[f"{force.name}.{name}"] = value
            continue
        velocity = velocities[name] if name in velocities else symbols.joints[name].rate
        if name in velocities:
            on_points.append((bodies[name], points[name], value))
        generalized += ca.jacobian(velocity, symbols.v).T @ value
        power += ca.dot(value, velocity)
    return LawForce(generalized, power, rates, on_points)


def _check_expressible(results: dict[str, ca.SX], where: str) -> None:
    """Raise InvalidMechanism if a law's expression contains an operation that kernels do not support."""
    for name, value in results.items():
        try:
            program_of(ca.Function("law", ca.symvar(value), [ca.densify(value)]))
        except ValueError as error:
            raise InvalidMechanism(f"{where}: {name}: {error}") from None

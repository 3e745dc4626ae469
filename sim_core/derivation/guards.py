"""Symbolic guard values, which reach 0 when a guard fires, and values of CapturedParameters.

A CapturedParameter is a number in a constraint that a guard sets from the current positions when the guard fires.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce, singledispatch
from types import MappingProxyType
from typing import Any

import casadi as ca

from sim_core.derivation.forces.slip import Slip
from sim_core.derivation.symbols import Frames, Symbols
from sim_core.errors import InvalidMechanism
from sim_core.mechanism.constraints import BeamContact, ChainContact
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.guards import (
    Aim,
    Beyond,
    Commanded,
    Condition,
    Crossing,
    Pushed,
    Sinking,
    Slipping,
    SlipReversed,
    SlipTurned,
    Window,
)

NO_SLIPS: Mapping[str, Any] = MappingProxyType({})


def guard_values(
    mechanism: Mechanism,
    frames: Frames,
    symbols: Symbols,
    row_names: tuple[str, ...],
    lam: ca.SX,
    slips: Mapping[str, Slip] = NO_SLIPS,
) -> ca.SX:
    """Values (n_guards,) from which a simulation detects that guards fire.

    The value of a Crossing is the position, m, of the Crossing's point along its axis, minus the level. The value of a
    Guard is at least 0 if all conditions of the guard hold, and negative otherwise.

    lam    multipliers of the constraint rows, averaged over the time step
    slips  {name: Slip} of the wheels with friction
    """
    forces = dict(zip(row_names, ca.vertsplit(lam), strict=True)) if row_names else {}
    scene, values = _Scene(mechanism, frames, symbols, forces, lam, slips), []
    for guard in mechanism.guards:
        if isinstance(guard, Crossing):
            values.append(ca.dot(ca.DM(guard.axis), frames[guard.body].point(guard.point)) - guard.level)
            continue
        values.append(reduce(ca.fmin, [_value(condition, scene) for condition in guard.conditions]))
    return ca.vertcat(*values) if values else ca.SX(0, 1)


def captured_numbers(
    mechanism: Mechanism, frames: Frames, symbols: Symbols, angles: Mapping[str, ca.SX] = NO_SLIPS
) -> ca.SX:
    """Values that the CapturedParameters would get if they were set in the current state.

    The values are in the order of `Mechanism.captured_constraints`, one value per constraint.

    angles  {name of a wheel with friction: angle of its slip}
    """
    found = [
        angles[name] if name in angles else _met_by(mechanism, name, frames, symbols)
        for name in mechanism.captured_constraints
    ]
    return ca.vertcat(*found) if found else ca.SX(0, 1)


def _met_by(mechanism: Mechanism, name: str, frames: Frames, symbols: Symbols) -> ca.SX:
    """Value of a constraint's CapturedParameter with which the current state satisfies the constraint."""
    constraint = next(c for c in mechanism.constraints if c.name == name)
    own = symbols.number(mechanism.captured_by(name))
    return constraint.captured(frames, symbols, own)


class _Scene:
    """Data from which the conditions of a guard are evaluated, such as frames and symbols.

    forces  {name of a constraint: Lagrange multiplier}
    lam     multipliers of all rows
    slips   {name: Slip} of the wheels with friction
    """

    def __init__(
        self,
        mechanism: Mechanism,
        frames: Frames,
        symbols: Symbols,
        forces: dict[str, ca.SX],
        lam: ca.SX,
        slips: Mapping[str, Slip],
    ) -> None:
        self.mechanism, self.frames, self.symbols, self.forces = mechanism, frames, symbols, forces
        self.lam, self.slips = lam, slips
        self.actuators = [actuator.name for actuator in mechanism.actuators]
        self.constraints = {constraint.name: constraint for constraint in mechanism.constraints}


@singledispatch
def _value(condition: Condition, scene: _Scene) -> ca.SX:
    raise InvalidMechanism(
        f"a guard has a condition of the unknown kind {type(condition).__name__}; use the conditions in "
        "sim_core.mechanism.guards"
    )


@_value.register
def _(condition: Commanded, scene: _Scene) -> ca.SX:
    command = scene.symbols.u[scene.actuators.index(condition.actuator)]
    values = [] if condition.upto is None else [condition.upto - command]
    if condition.above is not None:
        values.append(ca.if_else(command > condition.above, 1.0, -1.0))
    return reduce(ca.fmin, values)


@_value.register
def _(condition: Window, scene: _Scene) -> ca.SX:
    symbols = scene.symbols
    now = [_met_by(scene.mechanism, aim.constraint, scene.frames, symbols) for aim in condition.aims]
    miss = ca.vertcat(*[_miss(aim, g) for aim, g in zip(condition.aims, now, strict=True)])
    rate = ca.jtimes(ca.vertcat(*now), symbols.q, symbols.v)
    gap, speed = symbols.number(condition.gap), symbols.number(condition.speed)
    values = [gap**2 - ca.dot(miss, miss), speed**2 - ca.dot(rate, rate), ca.dot(miss, rate)]
    for aim, g in zip(condition.aims, now, strict=True):
        constraint = scene.constraints[aim.constraint]
        if isinstance(constraint, ChainContact) and constraint.coordinate == "along":
            span = constraint.length * len(constraint.segments)
            values += [g - condition.margin, span - condition.margin - g]
        if isinstance(constraint, BeamContact):
            contact, _ = symbols.contacts[aim.constraint]
            values += [contact.along - condition.margin, contact.span - condition.margin - contact.along]
    return reduce(ca.fmin, values)


def _miss(aim: Aim, g: ca.SX) -> ca.SX:
    if aim.at is None:
        return ca.SX(0)
    k = ca.fmin(ca.fmax(ca.floor((g - aim.at) / aim.spacing + 0.5), 0), aim.count - 1) if aim.spacing else 0
    return g - aim.at - aim.spacing * k


@_value.register
def _(condition: Sinking, scene: _Scene) -> ca.SX:
    g = _met_by(scene.mechanism, condition.constraint, scene.frames, scene.symbols)
    return -ca.jtimes(g, scene.symbols.q, scene.symbols.v)


@_value.register
def _(condition: Beyond, scene: _Scene) -> ca.SX:
    return ca.dot(ca.DM(condition.axis), scene.frames[condition.body].point(condition.point)) - condition.level


@_value.register
def _(condition: Pushed, scene: _Scene) -> ca.SX:
    forces = [
        scene.constraints[name].direction(scene.frames, scene.symbols) * -scene.forces[name]
        for name in condition.constraints
    ]
    return ca.dot(ca.DM(condition.axis), sum(forces, ca.SX(3, 1))) - condition.force


@_value.register
def _(condition: Slipping, scene: _Scene) -> ca.SX:
    return scene.slips[condition.constraint].excess(scene.lam)


@_value.register
def _(condition: SlipReversed, scene: _Scene) -> ca.SX:
    return -scene.slips[condition.constraint].along


@_value.register
def _(condition: SlipTurned, scene: _Scene) -> ca.SX:
    return scene.slips[condition.constraint].turned()

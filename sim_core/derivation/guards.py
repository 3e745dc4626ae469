"""When configurations change, as expressions: a guard's value is at least 0 where all its conditions hold."""

from __future__ import annotations

from functools import reduce, singledispatch

import casadi as ca

from sim_core.derivation.constraints import direction_of, rows_of
from sim_core.derivation.symbols import Frames, Symbols
from sim_core.errors import InvalidMechanism
from sim_core.flexible.description import BeamContact
from sim_core.guards import Beyond, Capture, Commanded, Condition, Crossing, Guard, Pushed, Window
from sim_core.mechanism import Mechanism


def guard_values(
    mechanism: Mechanism, frames: Frames, symbols: Symbols, row_names: tuple[str, ...], lam: ca.SX
) -> ca.SX:
    """(n_guards,): what changes sign where a guard fires. lam: multipliers of the rows over the step."""
    values = []
    for guard in mechanism.guards:
        if isinstance(guard, Crossing):
            values.append(ca.dot(ca.DM(guard.axis), frames[guard.body].point(guard.point)) - guard.level)
            continue
        forces = dict(zip(row_names, ca.vertsplit(lam), strict=True)) if row_names else {}
        scene = _Scene(mechanism, frames, symbols, guard, forces)
        values.append(reduce(ca.fmin, [_value(condition, scene) for condition in guard.conditions]))
    return ca.vertcat(*values) if values else ca.SX(0, 1)


def captured_numbers(mechanism: Mechanism, frames: Frames) -> ca.SX:
    """What each capture of each guard would give now, in their order."""
    found = [_captured(capture, frames) for _, capture in captures_of(mechanism)]
    return ca.vertcat(*found) if found else ca.SX(0, 1)


def captures_of(mechanism: Mechanism) -> list[tuple[int, Capture]]:
    """(guard, capture) of all guards."""
    return [
        (index, capture)
        for index, guard in enumerate(mechanism.guards)
        if isinstance(guard, Guard)
        for capture in guard.captures
    ]


def _captured(capture: Capture, frames: Frames) -> ca.SX:
    at = ca.dot(ca.DM(capture.axis), frames[capture.body].point(capture.point))
    if not capture.spacing:
        return at
    k = ca.fmin(ca.fmax(ca.floor((at - capture.origin) / capture.spacing + 0.5), 0), capture.count - 1)
    return capture.origin + capture.spacing * k


class _Scene:
    """What conditions of one guard look at."""

    def __init__(
        self, mechanism: Mechanism, frames: Frames, symbols: Symbols, guard: Guard, forces: dict[str, ca.SX]
    ) -> None:
        self.frames, self.symbols, self.forces = frames, symbols, forces
        self.actuators = [actuator.name for actuator in mechanism.actuators]
        self.constraints = {constraint.name: constraint for constraint in mechanism.constraints}
        places = [symbols.parameter_names.index(capture.name) for capture in guard.captures]
        self._old = ca.vertcat(*[symbols.p[place] for place in places])
        self._new = ca.vertcat(*[_captured(capture, frames) for capture in guard.captures])

    def after_capture(self, expression: ca.SX) -> ca.SX:
        """An expression with what the guard captures put in."""
        return ca.substitute(expression, self._old, self._new) if self._old.numel() else expression


@singledispatch
def _value(condition: Condition, scene: _Scene) -> ca.SX:
    raise InvalidMechanism(f"no value is known for a condition of kind {type(condition).__name__}")


@_value.register
def _(condition: Commanded, scene: _Scene) -> ca.SX:
    command = scene.symbols.u[scene.actuators.index(condition.actuator)]
    return command - 0.5 if condition.on else 0.5 - command


@_value.register
def _(condition: Window, scene: _Scene) -> ca.SX:
    symbols = scene.symbols
    kept = [scene.constraints[name] for name in condition.constraints]
    Phi = ca.vertcat(*[rows_of(constraint, scene.frames, symbols) for constraint in kept])
    Phidot, Phi = scene.after_capture(ca.jtimes(Phi, symbols.q, symbols.v)), scene.after_capture(Phi)
    gap, speed = symbols.number(condition.gap), symbols.number(condition.speed)
    values = [gap**2 - ca.dot(Phi, Phi), speed**2 - ca.dot(Phidot, Phidot), ca.dot(Phi, Phidot)]
    for constraint in kept:
        if isinstance(constraint, BeamContact):
            contact, _ = symbols.contacts[constraint.name]
            values += [contact.along, contact.span - contact.along]
    return reduce(ca.fmin, values)


@_value.register
def _(condition: Beyond, scene: _Scene) -> ca.SX:
    return ca.dot(ca.DM(condition.axis), scene.frames[condition.body].point(condition.point)) - condition.level


@_value.register
def _(condition: Pushed, scene: _Scene) -> ca.SX:
    forces = [
        direction_of(scene.constraints[name], scene.symbols) * -scene.forces[name] for name in condition.constraints
    ]
    return ca.dot(ca.DM(condition.axis), sum(forces, ca.SX(3, 1))) - condition.force

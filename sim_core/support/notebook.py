"""HTML of objects that a notebook displays (`_repr_html_`): a title, one line of short facts, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from sim_core.mechanism import Mechanism
    from sim_core.simulation import Simulation

MOST_ROWS = 30  # rows shown; further ones are counted

_CELL = "padding:0.15em 0.9em 0.15em 0;text-align:left;vertical-align:top"
_NUMBER = "padding:0.15em 0.9em 0.15em 0;text-align:right;font-variant-numeric:tabular-nums"
_HEAD = "font-weight:600;border-bottom:1px solid rgba(128,128,128,0.5)"


def page(title: str, facts: Sequence[str], headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """HTML of an object: title, facts and a table, in the colours of the notebook.

    Texts are escaped, and floats have 4 significant digits.
    title     kind and name of the object, in bold
    facts     short texts in one line below the title; empty texts are left out
    headings  column headings of the table
    rows      cells of the table: numbers are aligned to the right, None is an empty cell; without rows there is no
              table
    """
    found = list(rows)
    line = " · ".join(escape(fact) for fact in facts if fact)
    parts = [f'<div style="line-height:1.4"><strong>{escape(title)}</strong>']
    if line:
        parts.append(f'<div style="opacity:0.8">{line}</div>')
    if found:
        parts.append(_table(headings, found[:MOST_ROWS]))
    if len(found) > MOST_ROWS:
        parts.append(f'<div style="opacity:0.8">and {len(found) - MOST_ROWS} more</div>')
    return "\n".join([*parts, "</div>"])


def mechanism_html(mechanism: Mechanism) -> str:
    """HTML of a mechanism: counts of its parts, its total mass, and a table of its joints.

    If the mechanism has no joints, the table lists its bodies.
    """
    kinds = (("body", "bodies"), ("joint", "moving_joints"), ("constraint", ""), ("spring", ""), ("beam", ""))
    counts = [
        counted(len(getattr(mechanism, kind or f"{noun}s")), noun, "bodies" if noun == "body" else "")
        for noun, kind in (*kinds, ("actuator", ""))
    ]
    mass = sum(_value(body.mass) for body in mechanism.bodies)
    facts = [*counts, f"{mass:.4g} kg", f"{mechanism.coordinates.replace('_', ' ')} coordinates"]
    title = f"Mechanism {mechanism.name}"
    if not mechanism.joints:
        return page(title, facts, ("body", "mass, kg"), [(b.name, _value(b.mass)) for b in mechanism.bodies])
    drives = {actuator.joint: actuator.name for actuator in mechanism.actuators}
    rows = [
        (j.name, j.kind, j.parent, j.child, _limits(j.lower, j.upper, j.unit), drives.get(j.name, ""))
        for j in mechanism.joints
    ]
    return page(title, facts, ("joint", "kind", "parent", "child", "range", "actuator"), rows)


def simulation_html(simulation: Simulation) -> str:
    """HTML of a simulation: time, methods, violation, energy, and a table of joint positions, velocities, efforts."""
    mechanism = simulation.system.mechanism
    violation = simulation.violation()
    facts = [
        f"t = {simulation.time:.6g} s",
        f"{simulation.stepper.name}, {simulation.stabilizer.name}, steps of {1e3 * simulation.step_s:.4g} ms",
        f"|Phi| {violation[0]:.2g}, |Phidot| {violation[1]:.2g}",
        f"energy {simulation.energy():.6g} J",
    ]
    joints, (position, velocity, effort) = mechanism.moving_joints, simulation.joints()
    rows = [
        (joint.name, joint.unit, *(_float(values, place) for values in (position, velocity, effort)))
        for place, joint in enumerate(joints)
    ]
    headings = ("joint", "unit", "position", "velocity, per s", "effort, N m or N")
    return page(f"Simulation of {mechanism.name}", facts, headings, rows)


def _float(values: np.ndarray, place: int) -> float | None:
    return float(values[place]) if place < len(values) else None


def _value(number: object) -> float:
    """Value of a number of a description as a float; for a Tunable, the value at the start."""
    return float(getattr(number, "value", number))  # type: ignore[arg-type]


def _limits(lower: float | None, upper: float | None, unit: str) -> str:
    if lower is None and upper is None:
        return ""
    low, high = ("" if each is None else f"{each:.4g}" for each in (lower, upper))
    return f"{low} .. {high} {unit}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    is_number = [
        all(isinstance(row[place], int | float | None) for row in rows) and any(row[place] is not None for row in rows)
        for place in range(len(headings))
    ]
    styles = [_NUMBER if number else _CELL for number in is_number]
    head = "".join(f'<th style="{s};{_HEAD}">{escape(h)}</th>' for s, h in zip(styles, headings, strict=True))
    lines = [
        "".join(f'<td style="{style}">{escape(_text(cell))}</td>' for style, cell in zip(styles, row, strict=True))
        for row in rows
    ]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border-collapse:collapse;margin-top:0.4em"><tr>{head}</tr>\n{body}</table>'


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Count and noun, such as "1 body" or "3 joints"; "" for a count of 0."""
    if not count:
        return ""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"

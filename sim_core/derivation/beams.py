"""Beams in the equations of motion: their coordinates, and contact points that slide from element to element.

The shape functions of a beam are cubic in each finite element. A kernel looks up the coefficients of the element at the
contact point in a table, and so needs no conditional jumps. Derivatives treat the element as constant, which is correct
because the deflection w and the slope dw/dx are continuous between elements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from sim_core.derivation.symbols import Frames, Lifted, Motion, Symbols
from sim_core.flexible.elements import BeamModel, beam_model, contact_model
from sim_core.mechanism.beams import Beam
from sim_core.mechanism.constraints import BeamContact
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.quantities import Tunable, Vector3, value_of


@dataclass(frozen=True)
class Lookup:
    """A table lookup in a kernel: the kernel computes a row index and uses the numbers in this row of the table.

    row    symbols (width,) that stand for the numbers of the row in the kernel's equations
    place  row index as an expression of the coordinates q: a real number, which is rounded down. For an index outside
           the table, a kernel uses a row of NaN, and the method `at` uses the first or the last row
    table  (number of rows, width) numbers
    """

    row: ca.SX
    place: ca.SX
    table: np.ndarray

    def at(self, place: float) -> np.ndarray:
        """Table row (width,) at the row index `place`, which is rounded down and clamped to the table."""
        return np.asarray(self.table[int(min(max(place // 1, 0), len(self.table) - 1))])


@dataclass(frozen=True)
class Contact:
    """A contact point on a beam, by symbolic expressions.

    along       position of the point along the beam, m
    across      position of the point across the beam, m
    deflection  deflection of the beam at the point, m
    slope       slope of the beam at the point
    span        length of the beam, m
    axis        unit vector along the beam
    direction   unit vector of positive deflection
    """

    along: ca.SX
    across: ca.SX
    deflection: ca.SX
    slope: ca.SX
    span: float
    axis: Vector3
    direction: Vector3


def with_beams(mechanism: Mechanism, symbols: Symbols, motion: Motion) -> tuple[Symbols, Motion]:
    """Add beams to the symbols and equations of a mechanism. [Lipinski2023, eq. 18]

    In the result, the coordinates of the beams follow those of the bodies.
    """
    if not mechanism.beams:
        return symbols, motion
    n, lifted = symbols.q.numel(), symbols.lifted
    names, M, f = list(motion.coordinate_names), lifted.written_out(motion.M), lifted.written_out(motion.f)
    potential, blocks, slices = ca.SX(0), [], {}
    for beam in mechanism.beams:
        model = beam_model(beam)
        q, v = ca.SX.sym(f"q_{beam.name}", model.n), ca.SX.sym(f"v_{beam.name}", model.n)
        weight = beam.mass_per_length * float(np.dot(mechanism.gravity, beam.direction)) * model.uniform
        names += model.coordinate_names
        M = ca.diagcat(M, _sparse(model.M))
        C, K = _linear_part(model, symbols)
        f = ca.vertcat(f, ca.SX(weight) - K @ q - C @ v)
        potential += 0.5 * ca.dot(q, K @ q) - ca.dot(ca.SX(weight), q)
        blocks.append((q, v))
        slices[beam.name] = q
    extended = replace(
        symbols,
        q=ca.vertcat(symbols.q, *[q for q, _ in blocks]),
        v=ca.vertcat(symbols.v, *[v for _, v in blocks]),
        beams=slices,
        lifted=Lifted(),
    )
    extended = replace(extended, contacts=_contacts(mechanism, motion.frames, extended))

    def inertial(a: ca.SX) -> ca.SX:
        return ca.vertcat(lifted.written_out(motion.inertial(a[:n])), M[n:, n:] @ a[n:] - f[n:])

    potential += motion.potential
    return extended, Motion(tuple(names), motion.frames, M, f, inertial, potential=potential)


def _sparse(A: np.ndarray) -> ca.SX:
    return ca.SX(ca.sparsify(ca.DM(A)))


def _linear_part(model: BeamModel, symbols: Symbols) -> tuple[ca.SX, ca.SX]:
    """Damping matrix C and stiffness matrix K of a beam, (n, n) each.

    Their entries are numbers, or expressions if tension or damping ratio are tunable.
    """
    beam = model.beam
    if not isinstance(beam.tension, Tunable) and not isinstance(beam.damping_ratio, Tunable):
        return _sparse(model.C), _sparse(model.K)
    squares, taut = np.diag(model.K), np.diag(model.taut)
    K = ca.SX(squares - value_of(beam.tension) * taut) + symbols.number(beam.tension) * taut
    rates = beam.mass_damping + beam.stiffness_damping * K + 2 * symbols.number(beam.damping_ratio) * ca.sqrt(K)
    return ca.diag(rates), ca.diag(K)


def beam_power(mechanism: Mechanism, motion: Motion, symbols: Symbols) -> ca.SX:
    """Power of the beams' structural damping, W, which is never positive."""
    power = ca.SX(0)
    for beam in mechanism.beams:
        model = beam_model(beam)
        first = motion.coordinate_names.index(model.coordinate_names[0])
        v = symbols.v[first : first + model.n]
        C, _ = _linear_part(model, symbols)
        power -= ca.dot(v, C @ v)
    return power


def _contacts(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> dict[str, tuple[Contact, Lookup]]:
    beams = {beam.name: beam for beam in mechanism.beams}
    return {
        c.name: _contact(c, beams[c.beam], frames, symbols) for c in mechanism.constraints if isinstance(c, BeamContact)
    }


def _contact(contact: BeamContact, beam: Beam, frames: Frames, symbols: Symbols) -> tuple[Contact, Lookup]:
    model = contact_model(beam, contact.width)
    offset = frames[contact.body].point(contact.point) - ca.DM(beam.origin)
    along, across = ca.dot(ca.DM(beam.axis), offset), ca.dot(ca.DM(beam.direction), offset)
    q = symbols.beams[beam.name]
    row = ca.SX.sym(f"row_{contact.name}", 1 + 4 * model.n)
    z = along / model.element_length - row[0]
    sums = [ca.dot(row[1 + j * model.n : 1 + (j + 1) * model.n], q) for j in range(4)]
    deflection = sums[0] + z * (sums[1] + z * (sums[2] + z * sums[3]))
    slope = (sums[1] + z * (2 * sums[2] + z * 3 * sums[3])) / model.element_length
    where = Contact(along, across, deflection, slope, beam.length, beam.axis, beam.direction)
    return where, Lookup(row, _place(contact, model, along, symbols), _table(model))


def _place(contact: BeamContact, model: BeamModel, along: ca.SX, symbols: Symbols) -> ca.SX:
    """Position of a contact point along its beam, divided by the length of a beam element.

    While the contact is inactive, the position is clamped to the beam.
    """
    place, holds = along / model.element_length, symbols.row_factor(contact.name)
    if isinstance(holds, float):
        return place
    inside = ca.fmin(ca.fmax(place, 0), model.beam.elements)
    return inside + holds * (place - inside)


def _table(model: BeamModel) -> np.ndarray:
    """Table (elements, 1 + 4 n) of shape functions, with one row per element of a beam with n coordinates.

    A row contains the index of the element, then the coefficients of 1, z, z^2 and z^3, n numbers each. z is the
    position within the element, in element lengths.
    """
    elements = model.beam.elements
    return np.column_stack([np.arange(elements, dtype=float), model.coefficients.reshape(elements, -1)])


def weighted_linear_part(mechanism: Mechanism, symbols: Symbols, weights: ca.SX, n: int) -> ca.SX:
    """Matrix W = w_v D0 + w_q K0 (n, n), with the damping matrix D0 and the stiffness matrix K0 of all beams.

    weights  factors (w_v, w_q) of the two matrices
    n        number of coordinates of the mechanism. The last ones are those of the beams; the rows and columns of W for
             all other coordinates are zero
    """
    models = [beam_model(beam) for beam in mechanism.beams]
    parts = [_linear_part(model, symbols) for model in models]
    blocks = [weights[0] * C + weights[1] * K for C, K in parts]
    rest = n - sum(model.n for model in models)
    return ca.diagcat(ca.SX(rest, rest), *blocks)

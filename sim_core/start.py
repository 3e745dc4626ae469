"""Violations of the constraints by a start state, and the texts of warnings about a start state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sim_core.compiled_system import CompiledSystem
from sim_core.mechanism.description import Joint, Mechanism

ROUNDING = 1e-9  # characteristic lengths (per second for velocities): a smaller violation is rounding
FAR = 1e-2  # share of the characteristic length: a larger violation is not explained by rounded numbers
FAR_GIVEN = 0.25  # the same for a state given to `reset`: a violation up to it gives a warning
NAMED = 4  # number of constraints named in a message, the most violated first


def violated_at(mechanism: Mechanism, names: Sequence[str], phi: Iterable[float], phidot: Iterable[float]) -> str:
    """Text that lists violated constraints, such as "'wrist' by 0.02 m, 'rail' by 0.1 m/s"; "" if there are none.

    names        name of the constraint of each row, holonomic rows first; the absolute values of a constraint's rows
                 are added up
    phi, phidot  violations Phi of the holonomic rows, rates Phidot of all rows
    """
    allowed = ROUNDING * max(1.0, mechanism.characteristic_length)
    found = []
    for values, per_second in ((phi, ""), (phidot, "/s")):
        sums: dict[str, float] = {}
        for name, value in zip(names, values, strict=False):
            sums[name] = sums.get(name, 0.0) + abs(float(value))
        violated = sorted(((size, name) for name, size in sums.items() if not size <= allowed), reverse=True)
        found += [f"{name!r} by {size:.3g}{_unit(mechanism, name, per_second)}" for size, name in violated[:NAMED]]
        if len(violated) > NAMED:
            found.append(f"further constraints{' in velocity' if per_second else ''}: {len(violated) - NAMED}")
    return ", ".join(found)


def exceeds_rounding(
    system: CompiledSystem, phi: Iterable[float], phidot: Iterable[float], rates: Iterable[float], share: float = FAR
) -> bool:
    """Whether a start state violates the constraints too much for rounded numbers in a file to be the cause.

    phi, phidot  violations Phi of the holonomic rows, rates Phidot of all rows
    rates        |J| |v| (n_r,): magnitude of the terms that cancel in each Phidot
    share        permitted relative violation. The limit of |Phi| is share * size, where the size is the characteristic
                 length for rows that are lengths and 1 for other rows. The limit of |Phidot| is
                 share * max(rates, 0.1 size per second)
    """
    length = system.mechanism.characteristic_length
    sizes = [length if each else 1.0 for each in system.lengths]
    if any(not abs(value) <= share * size for value, size in zip(phi, sizes, strict=False)):
        return True
    bounds = [share * max(rate, 0.1 * size) for rate, size in zip(rates, sizes, strict=True)]
    return any(not abs(value) <= bound for value, bound in zip(phidot, bounds, strict=True))


def start_line(mechanism: Mechanism, violated: str) -> str:
    """Text of the warning about a start that violates constraints.

    violated  text that lists the constraints, from `violated_at`
    """
    return f"the start of {mechanism.name!r} violates {violated}; every constraint and its rate should be zero"


def missed_line(mechanism: Mechanism, missed: Sequence[tuple[str, float]]) -> str:
    """Text of the warning about Crossings that start beyond their level, and so cannot fire before a point returns.

    missed  (name, distance of the point from the level in m) of each of these Crossings
    """
    named = ", ".join(f"guard {name!r} by {distance:.3g} m" for name, distance in missed[:NAMED])
    more = f" and {len(missed) - NAMED} more" if len(missed) > NAMED else ""
    return (
        f"the start of {mechanism.name!r} is beyond the level of {named}{more}: a crossing does not fire "
        "before its point comes back and crosses the level"
    )


def _unit(mechanism: Mechanism, name: str, per_second: str) -> str:
    """Unit of the constraint rows of a joint or constraint, as text that follows a number.

    per_second  "" for the unit of Phi, "/s" for that of Phidot
    Returns " m" or " m/s" if all rows are lengths, otherwise "" or " per s".
    """
    owners = [item for item in (*mechanism.joints, *mechanism.constraints) if item.name == name]
    planar = all(body.is_planar for body in mechanism.bodies)
    lengths = [
        planar and item.turns and not item.slides if isinstance(item, Joint) else item.has_length_rows
        for item in owners
    ]
    return f" m{per_second}" if owners and all(lengths) else " per s" if per_second else ""

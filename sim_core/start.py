"""Whether a start satisfies the constraints, in words: one that does not is simulated as it is, but not in silence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sim_core.mechanism.beams import BeamContact
from sim_core.mechanism.description import Coincidence, Distance, Mechanism, Slider

if TYPE_CHECKING:
    from sim_core.system import System

ROUNDING = 1e-9  # of the characteristic length, or of its multiple per second: below, numbers were merely rounded
FAR = 1e-2  # a start that is off by more than this share was hardly rounded
FAR_GIVEN = 0.25  # a state given to `reset` may be off by more: a warning says so
NAMED = 4  # constraints that are named, the most violated first


def violated_at(mechanism: Mechanism, names: Sequence[str], phi: Iterable[float], phidot: Iterable[float]) -> str:
    """Which constraints a state violates and by how much: "'wrist' by 0.02 m, 'rail' by 0.1 m/s"; empty when none.

    names        of the rows, holonomic first; rows of one name are added up
    phi, phidot  of the holonomic rows, of all rows
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
            found.append(f"{len(violated) - NAMED} more{' in velocity' if per_second else ''}")
    return ", ".join(found)


def too_far(
    system: System, phi: Iterable[float], phidot: Iterable[float], rates: Iterable[float], share: float = FAR
) -> bool:
    """Whether a start violates its constraints by more than numbers of a file are rounded.

    More than a share of the characteristic length, or of 1 where the row is no length; in velocity more than that share
    of the magnitudes that cancel in the row, `rates`, and of that length per 10 s.
    """
    length = system.mechanism.characteristic_length
    sizes = [length if each else 1.0 for each in system.lengths]
    if any(not abs(value) <= share * size for value, size in zip(phi, sizes, strict=False)):
        return True
    bounds = [share * max(rate, 0.1 * size) for rate, size in zip(rates, sizes, strict=True)]
    return any(not abs(value) <= bound for value, bound in zip(phidot, bounds, strict=True))


def start_line(mechanism: Mechanism, violated: str) -> str:
    """The whole sentence."""
    return f"the start of {mechanism.name!r} violates {violated}; constraint rows should be zero, rates too"


def missed_line(mechanism: Mechanism, missed: Sequence[tuple[str, float]]) -> str:
    """The sentence on guards whose point starts beyond its level and moves on from there: (name, distance in m)."""
    named = ", ".join(f"guard {name!r} by {distance:.3g} m" for name, distance in missed[:NAMED])
    more = f" and {len(missed) - NAMED} more" if len(missed) > NAMED else ""
    return (
        f"the start of {mechanism.name!r} is beyond the level of {named}{more}: a crossing does not fire "
        "before its point comes back and crosses the level"
    )


def _unit(mechanism: Mechanism, name: str, per_second: str) -> str:
    """Metres where all rows of that name are lengths; otherwise a rate is per second and a position is bare."""
    owners = [item for item in (*mechanism.joints, *mechanism.constraints) if item.name == name]
    planar = all(body.orientation == "planar" for body in mechanism.bodies)
    lengths = [
        isinstance(item, Coincidence | Distance | Slider | BeamContact)
        or (planar and getattr(item, "kind", "") == "revolute")
        for item in owners
    ]
    return f" m{per_second}" if owners and all(lengths) else " per s" if per_second else ""

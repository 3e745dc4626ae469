"""Check that the mass matrix is regular at the start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim_core.mechanism.description import Mechanism

SINGULAR = 1e-13  # the smallest eigenvalue of the mass matrix scaled to a diagonal of ones


def singular_mass(mechanism: Mechanism, names: Sequence[str], M: np.ndarray, q: Any) -> str:
    """Error message that names the coordinates along which the mass matrix M (n_q, n_q) is singular; "" if M is
    regular.

    names  names of the coordinates
    q      coordinates (n_q,) at which M was evaluated
    """
    if not np.all(np.isfinite(M)):
        return (
            f"mechanism {mechanism.name!r}: its mass matrix has entries that are not finite at the start; check its "
            "masses, inertias and initial_q"
        )
    empty = undetermined(mechanism, names, M, q)
    if not empty:
        return ""
    several = len(empty) > 1
    return (
        f"mechanism {mechanism.name!r}: its mass matrix is singular at the start: coordinate{'s' * several} "
        f"{', '.join(map(repr, empty))} {'move' if several else 'moves'} no mass and no inertia"
        f"{' independently' if several else ''}; a body moved by {'them' if several else 'it'} needs mass, or inertia "
        "about the axis of its rotation"
    )


def undetermined(mechanism: Mechanism, names: Sequence[str], M: np.ndarray, q: Any) -> list[str]:
    """Names of the coordinates along which a finite mass matrix M (n_q, n_q) is singular; [] if it is regular.

    names, q  as in `singular_mass`
    """
    M = M.copy()
    for body in mechanism.bodies:
        if mechanism.coordinates == "absolute" and body.orientation == "euler_parameters":
            own = [names.index(f"{body.name}.{e}") for e in ("e0", "e1", "e2", "e3") if e in body.free_coordinates]
            e = np.array([q[index] for index in own])
            M[np.ix_(own, own)] += 4.0 * np.outer(e, e) * max(np.abs(M[np.ix_(own, own)]).max(initial=0.0), 1e-300)
    scale = np.sqrt(np.maximum(np.diag(M), 0.0))
    empty = [name for name, size in zip(names, scale, strict=True) if size == 0.0]
    if not empty:
        values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
        if values[0] > SINGULAR:
            return []
        share = np.abs(vectors[:, 0])
        empty = [name for name, size in zip(names, share, strict=True) if size > 0.3 * share.max()]
    return empty

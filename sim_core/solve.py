"""Properties of the constrained equations of motion, computed once per system, and a slow numpy reference solution.

Examples of the properties: whether constraint rows may lose rank, and thresholds for the pivots of these rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sim_core.compiled_system import CompiledSystem

RANK_TOLERANCE = 1e-9
SAMPLES = 5  # sampled states from which row sizes are estimated, the start included
REACH = 0.5  # largest change of a coordinate between sampled states, rad or characteristic lengths
CLOSING = 8  # Newton steps back onto the constraints
WELL_CONDITIONED = 1e-5  # eigenvalue of the scaled S from which proximal refinement alone is accurate to 1e-10
DEPENDENT = 1e-13  # eigenvalue of the scaled S up to which it is rounding
WEAK = 2e-3  # share of a row's diagonal entry of S: a smaller pivot means that a change point is near
UNUSUAL = 0.1  # share of a row's usual pivot: rows of light bodies beside heavy ones have small pivots everywhere
LOOKS = 6  # samples per sense of motion from which the usual pivot is taken
MOST_SAMPLED = 300  # coordinates up to which the usual pivots come from several states, and not from the start alone
KEPT = 64  # parameters for which thresholds of pivots are kept


def may_lose_rank(J: np.ndarray, closed: bool) -> bool:
    """Whether constraint rows may lose rank: true if the mechanism has closed loops, or if J (n_r, n_q) lacks full
    rank.

    closed  whether the mechanism has closed loops
    """
    if not len(J):
        return False
    return closed or bool(np.linalg.matrix_rank(J, tol=RANK_TOLERANCE * max(np.abs(J).max(), 1.0)) < len(J))


def is_ill_conditioned(M: np.ndarray, J: np.ndarray) -> bool:
    """Whether S = J M^-1 J', scaled to unit diagonal, is ill conditioned for another reason than dependent rows of J.

    This is the case if an eigenvalue of the scaled S lies between DEPENDENT and WELL_CONDITIONED. Smaller eigenvalues
    are rounding errors of linearly dependent rows. M must be positive definite.
    """
    S = J @ np.linalg.solve(M, J.T)
    size = np.sqrt(np.maximum(np.diag(S), 0.0))
    kept = size > 0.0
    S = S[np.ix_(kept, kept)] / np.outer(size[kept], size[kept])
    eigenvalues = np.linalg.eigvalsh((S + S.T) / 2)
    return bool(((eigenvalues > DEPENDENT) & (eigenvalues < WELL_CONDITIONED)).any())


def sampled_states(
    q: np.ndarray,
    scale: np.ndarray,
    rows: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    each: int = SAMPLES // 2,
) -> list[np.ndarray]:
    """Coordinates (n_q,) of the start and of random states that the mechanism can reach from the start.

    Equal arguments give equal results. If the mechanism cannot move, the result contains only the start.

    q      coordinates at the start
    scale  (n_q,) typical size of each coordinate, rad or m
    rows   function of q that returns the violations Phi (n_h,) of the holonomic rows and the Jacobian J (n_r, n_q) of
           all rows
    each   number of random states in each of the two senses of motion, forward and backward
    """
    random, found = np.random.default_rng(12), [q]
    for sign in (1.0, -1.0):
        here = q
        for _ in range(each):
            J = rows(here)[1] * scale
            if not np.isfinite(J).all():  # a start that the simulation refuses
                return found
            move = sign * np.abs(random.normal(size=q.size)) + 0.3 * random.normal(size=q.size)
            move -= np.linalg.pinv(J, rcond=1e-8) @ (J @ move)
            largest = np.abs(move).max(initial=0.0)
            if not largest > 1e-6:
                return found
            for reach in (REACH, REACH / 4):
                moved = _closed(here + scale * move * (reach / largest), scale, rows)
                if moved is not None:
                    found.append(moved)
                    here = moved
                    break
    return found


def _closed(
    q: np.ndarray, scale: np.ndarray, rows: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
) -> np.ndarray | None:
    """Coordinates (n_q,) near q that satisfy the constraints; None if Newton's method does not converge.

    scale  (n_q,) typical size of each coordinate
    rows   function of q that returns the violations Phi (n_h,) of the holonomic rows and the Jacobian J (n_r, n_q) of
           all rows
    """
    least = 1e-9 * max(1.0, float(scale.max()))
    for _ in range(CLOSING):
        Phi, J = rows(q)
        if not np.isfinite(Phi).all() or not np.isfinite(J).all():
            return None
        if np.abs(Phi).max(initial=0.0) <= least:
            return q
        q = q - scale * (np.linalg.pinv(J[: Phi.size] * scale, rcond=1e-8) @ Phi)
    return None


def least_pivots(system: CompiledSystem, p: np.ndarray) -> np.ndarray:
    """Thresholds for the pivots of the constraint rows: a pivot below its threshold means that a change point is near.

    A change point is a configuration in which constraint rows lose rank. The pivots are those of S = J M^-1 J'. The
    thresholds are computed from states that the mechanism can reach from its start while the flags in p switch
    constraints on and off. A row that is linearly dependent on other rows in all these states has small pivots
    everywhere, and therefore a small threshold. A row that is switched off has the threshold 0.

    p  parameters (n_p,), with a flag for each switched constraint: 1 if it holds, otherwise 0. Equal parameters give
       equal thresholds, which are computed once
    """
    kept = system.pivot_thresholds
    found = kept.pop(p.tobytes(), None)
    kept[p.tobytes()] = found = _thresholds(system, p) if found is None else found
    if len(kept) > KEPT:
        del kept[next(iter(kept))]
    return found


def _thresholds(system: CompiledSystem, p: np.ndarray) -> np.ndarray:
    if not system.pivot_rows:
        return np.zeros(0)
    mechanism, n_holonomic = system.mechanism, system.constraint_modes[0].n_holonomic
    start = np.array(mechanism.initial_q, dtype=float)
    rest = np.zeros_like(start)

    def rows(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return system.residual(0.0, q, rest, p)[0][:n_holonomic], system.terms(0.0, q, rest, None, p)[2]

    prismatic = [joint.name for joint in mechanism.moving_joints if joint.is_length]
    scale = coordinate_scales(system.coordinate_names, prismatic, mechanism.characteristic_length)
    if start.size > MOST_SAMPLED:  # the sampled states and S of larger systems would take minutes
        factor = system.acceleration(0.0, start, rest, None, p)[2]
        return _of_held(system, WEAK / np.abs(factor[slice(*system.pivots)]), p)
    norms = [row for row, name in enumerate(system.constraint_modes[0].row_names) if name.endswith(".norm")]
    pivots, sizes = [], []
    for q in sampled_states(start, scale, rows, LOOKS):
        M, _, J, _ = system.terms(0.0, q, rest, None, p)
        factor = system.acceleration(0.0, q, rest, None, p)[2]
        pivots.append(1.0 / np.abs(factor[slice(*system.pivots)]))
        for row in norms:  # M is singular along the Euler parameters e; at e = (1, 0, 0, 0), so is its diagonal
            weight = np.mean(np.diag(M)[J[row] != 0.0]) or np.mean(np.diag(M))
            M += np.outer(J[row], J[row]) * weight
        sizes.append(np.einsum("ij,ji->i", J, np.linalg.solve(M, J.T))[list(system.pivot_rows)])
    usual, size = np.median(pivots, axis=0), np.median(sizes, axis=0)
    return _of_held(system, np.minimum(WEAK * size, UNUSUAL * usual), p)


def _of_held(system: CompiledSystem, found: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Thresholds of the rows that hold; 0 for the others."""
    mechanism = system.mechanism
    held = dict(zip(mechanism.switched, p[len(p) - len(mechanism.switched) :] > 0.0, strict=True))
    holds = [held.get(system.constraint_modes[0].row_names[row], True) for row in system.pivot_rows]
    return np.asarray(np.where(np.isfinite(found) & np.array(holds), found, 0.0))


def coordinate_scales(names: tuple[str, ...], prismatic: list[str], length: float) -> np.ndarray:
    """Typical size (n_q,) of each coordinate: `length` for translations of bodies and prismatic joints, otherwise 1.

    names      names of the coordinates
    prismatic  names of the prismatic joints
    length     characteristic length of the mechanism, m
    """
    lengths = [name in prismatic or name.endswith((".x", ".y", ".z")) for name in names]
    return np.where(lengths, length, 1.0)


def reference_solution(M: np.ndarray, f: np.ndarray, J: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accelerations a and multipliers lam of M a + J' lam = f, J a = gamma, by minimum-norm least squares."""
    n, m = len(M), len(J)
    K = np.block([[M, J.T], [J, np.zeros((m, m))]])
    solution = np.linalg.lstsq(K, np.concatenate([f, gamma]), rcond=1e-13)[0]
    return solution[:n], solution[n:]

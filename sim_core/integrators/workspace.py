"""The memory that stepping loops work in: one set of arrays per simulation, at fixed addresses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim_core.kernels.native import pointer_table
from sim_core.system import System

HISTORY = 100

# rows of `calls`
ACCELERATION, RESIDUAL, APPLY, WRAPPING, GUARDS = range(5)
# entries of `law`
LAW, LAW_PHI, LAW_PHIDOT, LAW_GAINS, LAW_MEMORY, LAW_U, LAW_HOLONOMIC, LAW_ROWS, LAW_MODE = range(9)
# values of law[LAW_MODE]
UNSTABILIZED, EVERY_STAGE, SAMPLED, PROJECTING = range(4)
# status of a loop
DONE, DIVERGED, EVENT, STEP_TOO_SMALL = range(4)


class Workspace(NamedTuple):
    """Arrays that kernels and loops share. t (1,), p (n_p,); the rest by name, sized for the largest configuration."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    p: np.ndarray
    U: np.ndarray
    a: np.ndarray
    lam: np.ndarray
    factor: np.ndarray
    phi: np.ndarray
    phidot: np.ndarray
    r1: np.ndarray
    r2: np.ndarray
    x: np.ndarray
    y: np.ndarray
    q0: np.ndarray
    v0: np.ndarray
    stage_v: np.ndarray  # (stages, n_q)
    stage_a: np.ndarray  # (stages, n_q)
    peaks: np.ndarray  # |Phi|_1, |Phidot|_1
    angles: np.ndarray  # wrapped joint angles
    angles_before: np.ndarray
    turns: np.ndarray  # whole turns of each
    guards: np.ndarray
    guards_before: np.ndarray
    guard_directions: np.ndarray
    gains: np.ndarray
    memory: np.ndarray  # the stabilizer's
    stepper_memory: np.ndarray
    history: np.ndarray  # (HISTORY, 1 + 2 n_q)


def make_workspace(system: System, stages: int, gains: np.ndarray, memory: int, stepper_memory: int) -> Workspace:
    """A workspace of zeros for a system, a stepper of so many stages and a stabilizer's gains."""
    n_q, n_rows = system.n_q, system.max_rows
    sizes = {
        "t": 1,
        "q": n_q,
        "v": n_q,
        "u": system.n_u,
        "p": len(system.tunable_names),
        "U": n_rows,
        "a": n_q,
        "lam": n_rows,
        "factor": system.max_factor,
        "phi": n_rows,
        "phidot": n_rows,
        "r1": n_q,
        "r2": n_rows,
        "x": n_q,
        "y": n_rows,
        "q0": n_q,
        "v0": n_q,
        "peaks": 2,
        "angles": len(system.wraps),
        "angles_before": len(system.wraps),
        "turns": len(system.wraps),
        "guards": len(system.mechanism.guards),
        "guards_before": len(system.mechanism.guards),
        "memory": memory,
        "stepper_memory": stepper_memory,
    }
    arrays = {name: np.zeros(size) for name, size in sizes.items()}
    arrays["stage_v"], arrays["stage_a"] = np.zeros((stages, n_q)), np.zeros((stages, n_q))
    arrays["history"] = np.zeros((HISTORY, 1 + 2 * n_q))
    arrays["guard_directions"] = np.zeros(len(system.mechanism.guards), dtype=np.int64)
    arrays["gains"] = np.ascontiguousarray(gains, dtype=float)
    return Workspace(**arrays)


class Calls:
    """The kernels of one configuration, bound to a workspace: `table` (5, 3) holds address, inputs, outputs."""

    def __init__(self, system: System, w: Workspace, configuration: int) -> None:
        kernels = system.configurations[configuration]
        state = [w.t, w.q, w.v, w.u, w.p]
        bindings = {
            ACCELERATION: (kernels.addresses["acceleration"], [*state, w.U], [w.a, w.lam, w.factor]),
            RESIDUAL: (kernels.addresses["residual"], state, [w.phi, w.phidot]),
            APPLY: (kernels.addresses["apply"], [w.factor, w.r1, w.r2], [w.x, w.y]),
            WRAPPING: (system.addresses["wrapping"], state, [w.angles]),
            GUARDS: (system.addresses["guards"], state, [w.guards]),
        }
        self.table = np.zeros((len(bindings), 3), dtype=np.int64)
        self._keep = []
        for row, (address, inputs, outputs) in bindings.items():
            tables = pointer_table(inputs), pointer_table(outputs)
            self._keep.append(tables)
            self.table[row] = address, tables[0].ctypes.data, tables[1].ctypes.data

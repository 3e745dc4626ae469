"""Working memory of the stepping loops: one set of arrays per simulation, at fixed addresses."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sim_core.compiled_system import CompiledSystem
from sim_core.kernels.bound import pointer_table
from sim_core.mechanism.quantities import value_of

HISTORY = 100
NEGLIGIBLE = (
    2e-12  # characteristic lengths: |Phi|_1, h |Phidot|_1 (sums of a step's start and end) below it are rounding
)

ROUNDED_ENERGY = 1e-14  # share of the weight times the characteristic length: a smaller energy is rounding

# rows of `calls`
ACCELERATION, RESIDUAL, APPLY, WRAPPING, GUARDS, LEAST_NORM, RELAXED, ENERGY, POWER, SOLVE_RESIDUAL, REBASE = range(11)
# entries of `law`
LAW, LAW_PHI, LAW_PHIDOT, LAW_GAINS, LAW_MEMORY, LAW_U, LAW_HOLONOMIC, LAW_ROWS, LAW_MODE = range(9)
LAW_REMEMBERS, LAW_LEVELS, LAW_SOLVE = range(9, 12)
# values of law[LAW_MODE]: U acts at every stage, or is held; or q and v are corrected, after the step or inside a stage
UNSTABILIZED, EVERY_STAGE, SAMPLED, PROJECTING, CORRECTING_STAGES = range(5)
# law[LAW_LEVELS]: sum of the levels that a correction acts on; law[LAW_SOLVE]: how it is solved for
POSITION_LEVEL, VELOCITY_LEVEL = 1, 2
STEP_FACTOR, FRESH_FACTOR, PSEUDO_INVERSE = range(3)
LEDGER_SIZE = 12 + 3 * 24
# status of a loop
DONE, DIVERGED, EVENT, STEP_TOO_SMALL, NOT_CONVERGED = range(5)


# rows of Memory.state, of Memory.rows, entries of Memory.scalars, rows of Memory.angles and of Memory.guards
Q, V, DVDT, Q0, V0, R1, X, DQDT, Q_KEPT, V_KEPT, Q_WORK, V_WORK = range(12)
PHI, PHIDOT, HELD, LAM, R2, Y, LEAST_PIVOT = range(7)
TIME, PEAK_PHI, PEAK_PHIDOT, EVALUATIONS, WEIGHT_V, WEIGHT_Q = range(6)
IS_WEAK, SUBSTEPPED, SUM_PHI, SUM_PHIDOT, SMALL = range(6, 11)
TO_CHECK, MISSING, WHOLE, PEAK_RESIDUAL, TIME_WORK, ENERGY_ROUNDING, STOPS_AT_MARKS = range(11, 18)
MEAN_VELOCITY = 18
NOW, BEFORE, TURNS = range(3)
DIRECTION = 2
NOT_WATCHED, CONDITIONS = 2, 3  # special directions of a guard: inactive; fires when its value is not negative


class Memory(NamedTuple):
    """Arrays that the compiled loops access. They are few and large, because each array argument costs compile time.

    Each row of an array such as `state` is one quantity; workspace.py names the indices of the rows.
    """

    state: np.ndarray  # (12, n_q)
    rows: np.ndarray  # (7, max_rows)
    stages: np.ndarray  # (2, stages, n_q): velocities, accelerations
    scalars: np.ndarray  # (19,)
    angles: np.ndarray  # (3, n_wrapped): wrapped joint angles, previous angles, whole turns
    guards: np.ndarray  # (3, n_guards): values at the end of the step, values at its start, directions
    stepper: np.ndarray  # the stepper's memory
    history: np.ndarray  # (HISTORY, 1 + 2 n_q): t, q, v of the last steps
    pivots: np.ndarray  # (n_r,): reciprocal pivots of the constraint rows; empty if no row may lose rank
    ledger: np.ndarray  # (LEDGER_SIZE,): see ledger.py


class Workspace:
    """Named arrays of one simulation: views of the arrays in `memory` (see `Memory`), and further arrays.

    Only kernels and stabilizer laws access the further arrays, such as the actuator inputs u and the parameters p.
    """

    def __init__(
        self, system: CompiledSystem, stages: int, gains: np.ndarray, memory: int, stepper_memory: int
    ) -> None:
        self.factor = np.zeros(system.max_factor)
        n_q, n_rows, n_guards = system.n_q, system.max_rows, len(system.mechanism.guards)
        self.memory = Memory(
            np.zeros((12, n_q)),
            np.zeros((7, n_rows)),
            np.zeros((2, stages, n_q)),
            np.zeros(19),
            np.zeros((3, len(system.wraps))),
            np.zeros((3, n_guards)),
            np.zeros(stepper_memory),
            np.zeros((HISTORY, 1 + 2 * n_q)),
            self.factor[slice(*system.pivots)],
            np.zeros(LEDGER_SIZE),
        )
        self.q, self.v, self.a, _, _, self.r1, self.x, *_, self.q_work, self.v_work = self.memory.state
        self.phi, self.phidot, self.U, self.lam, self.r2, self.y, self.least_pivots = self.memory.rows
        scalars = self.memory.scalars
        self.t, self.peaks, self.evaluations = scalars[:1], scalars[1:3], scalars[3:4]
        self.weights, self.substepped = scalars[4:6], scalars[7:8]
        self.missing, self.whole, self.peak_residual = scalars[12:13], scalars[13:14], scalars[14:15]
        self.t_work = scalars[15:16]
        length, masses = system.mechanism.characteristic_length, [value_of(b.mass) for b in system.mechanism.bodies]
        scalars[SMALL] = NEGLIGIBLE * length
        scalars[ENERGY_ROUNDING] = ROUNDED_ENERGY * sum(masses) * math.hypot(*system.mechanism.gravity) * length
        self.angles, _, self.turns = self.memory.angles
        self.guards, self.guards_before, self.guard_directions = self.memory.guards
        self.stepper_memory, self.history = self.memory.stepper, self.memory.history
        self.ledger = self.memory.ledger
        self.u, self.p = np.zeros(system.n_u), np.zeros(len(system.parameter_names))
        self.gains, self.stabilizer_memory = np.ascontiguousarray(gains, dtype=float), np.zeros(memory)


class Calls:
    """The kernels that a loop calls, bound to the arrays of a workspace.

    Each row of `table` (11, 3) holds the addresses of a kernel, of its table of inputs, and of its table of outputs;
    the address of a kernel that the system does not have is 0.
    """

    def __init__(self, system: CompiledSystem, w: Workspace) -> None:
        addresses = system.addresses
        state = [w.t, w.q, w.v, w.u, w.p]
        inside = [w.t_work, w.q_work, w.v_work, w.u, w.p]  # a state inside the tick
        bindings = {
            ACCELERATION: (addresses["acceleration"], [*state, w.U], [w.a, w.lam, w.factor]),
            RESIDUAL: (addresses["residual"], state, [w.phi, w.phidot]),
            APPLY: (addresses["apply"], [w.factor, w.r1, w.r2], [w.x, w.y]),
            WRAPPING: (addresses["wrapping"], state, [w.angles]),
            LEAST_NORM: (addresses["least_norm"], [*state, w.r2], [w.x]),
            RELAXED: (addresses.get("relaxed", 0), [*state, w.U, w.x, w.weights], [w.a, w.lam]),
            SOLVE_RESIDUAL: (addresses["solve_residual"], [*state, w.U, w.a], [w.missing, w.whole]),
            GUARDS: (addresses["guards"], [*state, w.lam], [w.guards]),
            ENERGY: (addresses["energy"], state, [w.ledger[:2]]),
            POWER: (addresses["power"] if system.does_work else 0, inside, [w.ledger[2:3]]),
            REBASE: (addresses.get("rebase", 0), state, [w.q, w.v, w.p]),
        }
        self.table = np.zeros((len(bindings), 3), dtype=np.int64)
        self._keep = []
        for row, (address, inputs, outputs) in bindings.items():
            tables = pointer_table(inputs), pointer_table(outputs)
            self._keep.append(tables)
            self.table[row] = address, tables[0].ctypes.data, tables[1].ctypes.data

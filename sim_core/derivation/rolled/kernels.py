"""Kernels of a mechanism as loops over its links and constraints ("rolled")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from sim_core.derivation.coordinates import orientations
from sim_core.derivation.rolled.constraints.checked_rows import checked_rows_of
from sim_core.derivation.rolled.measurements import MeasurementKernels
from sim_core.derivation.rolled.probe import RowProbe
from sim_core.derivation.rolled.shared import USUAL
from sim_core.kernels.rolled import RolledKernel
from sim_core.mechanism.description import Mechanism


@dataclass(frozen=True)
class Rolled:
    """The rolled kernels of a mechanism, the constant tables that they share, and the data of a compiled system."""

    kernels: list[RolledKernel]
    tables: dict[str, np.ndarray]
    facts: dict[str, object]


def derive_rolled(mechanism: Mechanism) -> Rolled:
    """The rolled kernels of a mechanism without obstacles (see kernels/choice.py)."""
    rows = checked_rows_of(mechanism, partial(RowProbe, mechanism))
    maker = MeasurementKernels(mechanism, rows)
    first = mechanism.constraint_modes[0].name
    solving = {
        "terms": maker.terms(),
        "acceleration": maker.acceleration(),
        "forward_dynamics": maker.forward_dynamics(),
        "apply": maker.apply(),
        "residual": maker.residual(),
        "least_norm": maker.least_norm(),
        "solve_residual": maker.solve_residual(),
    }
    output_names, outputs = maker.outputs()
    others = {
        "inverse_dynamics": maker.inverse_dynamics(),
        "joints": maker.joints(),
        "wrapping": maker.constant(USUAL, {"angles": 0}),
        "energy": maker.energy(),
        "power": maker.power(),
        "outputs": outputs,
        "poses": maker.poses(),
        "captures": maker.captures(),
        "guards": maker.guards(),
    }
    if mechanism.oriented_joints:
        others["rebase"] = maker.straight(
            orientations.rebased(mechanism, maker.scene.symbols), ("q_out", "v_out", "p_out")
        )
    if mechanism.posed_joints:
        frames = orientations.frames_and_twists(mechanism, maker.scene.symbols)
        others["frames"] = maker.straight(frames, ("poses_out", "twists"))
    kernels = {**{f"{first}.{name}": kernel for name, kernel in solving.items()}, **others}
    for name, kernel in kernels.items():
        kernel.name = name
    facts: dict[str, object] = {
        "coordinate_names": mechanism.coordinate_names,
        "row_names": maker.rows.names,
        "row_lengths": maker.rows.lengths,
        "n_holonomic": maker.rows.n_holonomic,
        "factor_size": sum(width * count for width, count in maker.factor_parts.values()),
        "pivots": maker.pivots,
        "row_operations": maker.rows.operations,
        "pivot_rows": maker.rows.pivot_rows,
        "wraps": [],
        "output_names": output_names,
        "output_wraps": [],
        "does_work": maker.does_work,
        "idle": rows.still.idle,
        "captured_rows": rows.still.captured_rows,
    }
    return Rolled(list(kernels.values()), maker.tables, facts)

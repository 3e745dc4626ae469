"""A fit to a swing of a real RicMonk: what it cannot know stays, and efforts in another unit spoil nothing."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from nodes.hil.logs.columns import read_columns
from nodes.hil.logs.files import read_tables
from nodes.hil.logs.importing import import_log
from sim_core.identification.fitting import fit
from sim_core.identification.friction import COLUMNS
from sim_core.identification.inertial_parameters import is_consistent
from sim_core.identification.result import FitResult
from sim_core.identification.signals import Recorded

EXAMPLE = Path(__file__).parents[4] / "nodes/hil/logs/example"
HOOK, TAIL, FREE_ARM = range(3)


@cache
def fitted(tail_unit: float = 1.0) -> FitResult:
    """The fit to the example log, with the efforts of the tail times `tail_unit`."""
    log = import_log(read_tables(EXAMPLE / "swing.csv"), read_columns(EXAMPLE / "swing.toml"))
    effort = log.channels["effort"] * [1.0, tail_unit, 1.0]
    effort[:, HOOK] = 0.0
    return fit(log.mechanism, log.names, [Recorded(log.time, log.channels["position"], effort)])


def test_what_no_effort_depends_on_stays() -> None:
    found = fitted()
    before, after = found.pi_before.reshape(-1, 10), found.pi.reshape(-1, 10)
    assert found.inertias_fitted
    assert after[HOOK, 0] == pytest.approx(before[HOOK, 0], rel=0.01)  # without effect, but for a positive density
    np.testing.assert_allclose(after[1:, 0], before[1:, 0], rtol=0.05)  # the others are parts of sums
    assert all(is_consistent(pi) for pi in after)


def test_a_combination_that_the_motion_does_not_tell_stays() -> None:
    found = fitted()
    told = {int(np.flatnonzero(each.direction == 1.0)[0]) for each in found.estimates}
    untold = [k for k in range(len(found.base.columns)) if k not in told]
    assert [found.base.name(k) for k in untold] == ["arm_1/hz - 0.02 arm_2/m - 0.02 tail/m"]
    np.testing.assert_allclose((found.base.B @ found.pi)[untold], (found.base.B @ found.pi_before)[untold], rtol=1e-3)


def test_what_is_written_is_what_is_reported() -> None:
    found = fitted()
    assert found.outcome == "better"
    assert all(each.low <= each.after <= each.high for each in found.estimates)
    changed = found.friction - found.friction_before
    names = {each.name.split()[0] for each in found.estimates}
    assert {
        f"{joint}/{column}"
        for row, joint in zip(changed, found.joints, strict=True)
        for column, value in zip(COLUMNS, row, strict=True)
        if value
    } <= names


def test_a_joint_without_motor_has_neither_a_rotor_nor_an_offset() -> None:
    row = dict(zip(COLUMNS, fitted().friction[HOOK], strict=True))
    assert (row["armature"], row["load"]) == (0.0, 0.0)


def test_efforts_in_another_unit_spoil_nothing() -> None:
    found = fitted(1e-3)
    assert "check its unit" in found.apart["tail"]
    assert found.outcome != "better"
    assert all(found.scores[name].after < 1.0 for name in found.fitted)
    assert np.abs(np.log(found.pi[::10] / found.pi_before[::10])).max() < np.log(2.5)

"""Time since an effort changed its sign, and what play makes of efforts."""

from __future__ import annotations

import numpy as np
import pytest

from nodes.hil.play import play_columns, since_change

TIME = np.arange(0.0, 2.0, 1e-3)
EFFORT = np.stack([np.sin(2.0 * np.pi * 3.0 * TIME), np.ones_like(TIME)], axis=1)  # changes sign each 1/6 s; never


def test_time_since_a_change_of_sign_starts_anew_where_the_effort_is_clear_again() -> None:
    passed = since_change(TIME, EFFORT[:, 0])
    assert np.isinf(passed[TIME < 1.0 / 6.0 - 1e-3]).all()
    assert passed[250] == pytest.approx(0.25 - 1.0 / 6.0, abs=3e-3)
    assert np.isinf(since_change(TIME, EFFORT[:, 1])).all()
    assert np.isinf(since_change(TIME, 1e-3 * (-1.0) ** np.arange(len(TIME)) + 1.0)).all()


def lost(free_s: float, share: float = 1.0) -> np.ndarray:
    """The residual of a robot whose first joint loses this share of its effort while it is free."""
    passed = since_change(TIME, EFFORT[:, 0])
    return np.stack([-share * np.where(passed < free_s, EFFORT[:, 0], 0.0), np.zeros_like(TIME)], axis=1)


def test_play_is_the_time_in_which_the_whole_effort_is_lost() -> None:
    ((joint, column),) = play_columns(TIME, EFFORT, [0, 1], lost(0.02), lambda values: values)
    assert joint == 0
    amount = float(column[:, 0] @ lost(0.02)[:, 0]) / float(column[:, 0] @ column[:, 0])
    assert amount == pytest.approx(0.02, rel=1e-9)


def test_an_effort_that_is_lost_in_part_or_gained_is_no_play() -> None:
    for share in (0.05, -1.0):
        assert list(play_columns(TIME, EFFORT, [0, 1], lost(0.02, share), lambda values: values)) == []

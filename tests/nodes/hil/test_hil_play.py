"""What play in a gear keeps from a joint, and which play fits a residual."""

from __future__ import annotations

import numpy as np

from nodes.hil.identification.play import CROSSINGS_S, best_crossing, missing

TIME = np.arange(0.0, 2.0, 1e-3)
EFFORT = np.stack([np.sin(2.0 * np.pi * 3.0 * TIME), np.ones_like(TIME)], axis=1)  # changes sign each 1/6 s; never
EVERY = [slice(0, len(TIME))]


def test_an_effort_is_missing_after_each_change_of_its_sign_until_the_play_is_crossed() -> None:
    lost = missing(EFFORT, TIME, EVERY)
    assert lost.shape == (len(CROSSINGS_S), len(TIME), 2)
    assert not lost[:, :, 1].any()
    crossing = 8
    free = lost[crossing, :, 0] != 0.0
    assert np.array_equal(lost[crossing, free, 0], -EFFORT[free, 0])
    half_period = free[(TIME > 1.0 / 6.0) & (TIME < 1.0 / 3.0)]
    steps = int(half_period.sum())
    assert half_period[:steps].all()  # at its beginning
    assert abs(steps * 1e-3 - CROSSINGS_S[crossing]) <= 2e-3


def test_parts_of_a_recording_begin_anew() -> None:
    parts = [slice(0, 900), slice(900, len(TIME))]
    lost = missing(EFFORT, TIME, parts)
    alone = missing(EFFORT[900:], TIME[900:], [slice(0, len(TIME) - 900)])
    assert np.array_equal(lost[:, 900:], alone)


def test_the_play_that_was_planted_fits_best() -> None:
    columns = missing(EFFORT, TIME, EVERY)[:, :, 0]
    for planted in (3, 9, 12):
        assert best_crossing(columns, columns[planted]) == planted


def test_an_effort_that_is_lost_in_part_or_gained_is_no_play() -> None:
    columns = missing(EFFORT, TIME, EVERY)[:, :, 0]
    for share in (0.05, -1.0):
        assert best_crossing(columns[9:10], share * columns[9]) is None
    assert best_crossing(columns, np.zeros_like(TIME)) is None

"""The gibbon on a cable of rigid segments: the cable sags as the beam of modes does, and in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from robots.gibbon.chain import Chain
from robots.gibbon.parameters import CABLE_BENDING, CABLE_LENGTH, CABLE_MASS, GRAVITY
from robots.registry import build
from sim_core.errors import InvalidRequest


@pytest.mark.parametrize("tension", [2500.0, 5e3, 20e3])
def test_midspan_is_where_the_beam_of_modes_has_it(tension: float) -> None:
    """The robot hangs by one hand at midspan: 0.2 % at most; the bar is 1 %."""
    common = {"start": "a", "start_x": CABLE_LENGTH / 2, "tension": tension}
    segments = build("gibbon", line="segments", **common).initial_q[1]
    modes = build("gibbon", line="cable", modes=49, clamp_width=0.0, **common).initial_q[1]
    assert segments == pytest.approx(modes, rel=2e-3)


def test_the_chain_is_the_beam_in_closed_form_as_its_segments_become_short() -> None:
    """Small slopes: a load F at x of a pinned beam under the tension T, with k = sqrt(T / EI).

    w(x) = F / (T L) x (L - x) - F sinh(k x) sinh(k (L - x)) / (T k sinh(k L)). The error is that of springs gathered in
    joints, of second order in the segments' length.
    """
    T, x, F = 20e3, 8.0, 10.0
    k = np.sqrt(T / CABLE_BENDING)
    expected = F * x * (CABLE_LENGTH - x) / (T * CABLE_LENGTH)
    expected -= F * np.exp(-k * 0.0) / (2.0 * T * k)  # sinh(k x) sinh(k (L - x)) / sinh(k L) is 1/2 to 1e-40
    errors = []
    for count in (100, 200, 400):
        chain = Chain(count, CABLE_LENGTH, 0.0, CABLE_BENDING, 0.0)
        errors.append(abs(-chain.point(chain.pitches([(x, 0.0, F)], T), x)[1] / expected - 1.0))
    assert errors[-1] < 1e-3
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.3)
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.3)


def test_a_heavy_chain_without_stiffness_hangs_as_a_catenary_does() -> None:
    """With a constant force H along x at its end, z'' = mu g / H sqrt(1 + z'^2)."""
    H, count = 200.0, 400
    chain = Chain(count, CABLE_LENGTH, CABLE_MASS, 1e-6, 0.0)
    pitches = chain.pitches([], H)
    a = H / (CABLE_MASS * GRAVITY)
    half = CABLE_LENGTH / 2
    span, sag = 2 * a * np.arcsinh(half / a), np.hypot(a, half) - a
    assert chain.point(pitches, CABLE_LENGTH) == (pytest.approx(span, rel=1e-5), pytest.approx(0.0, abs=1e-12))
    assert -chain.point(pitches, half)[1] == pytest.approx(sag, rel=1e-4)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"line": "segments", "modes": 12}, "modes is 12, but line is 'segments'; .* set line to 'cable'"),
        ({"line": "cable", "segments": 12}, "segments is 12, but line is 'cable'; .* set line to 'segments'"),
        ({"line": "segments", "segments": 5}, "segments is 5"),
        ({"line": "segments", "tension": 1e3}, "tension is 1000 N; it must be from 2000 N to 20000 N"),
        ({"line": "bars", "tension": 5e3}, "tension is 5000.0, but line is 'bars'; .* 'cable' or 'segments'"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        build("gibbon", **parameters)

"""One LDL' of the whole KKT matrix gives what the Schur complement gives, for rigid mechanisms too."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidMechanism
from sim_core.mechanism.validation import validate
from sim_core.system import assemble


@pytest.mark.parametrize("name", ["triple_pendulum", "parallelogram_four_bar", "rotary_pendulum"])
def test_both_solves_agree(name: str) -> None:
    """Plain rows, rows that lose rank, and the unit norms of Euler parameters."""
    plain = build(name)
    systems = [assemble(dataclasses.replace(plain, formulation=how)) for how in ("schur", "augmented")]
    random = np.random.default_rng(11)
    for _ in range(4):
        q = np.array(plain.initial_q) + 0.1 * random.normal(size=len(plain.initial_q))
        v, r1 = random.normal(size=(2, q.size))
        found = [system.acceleration(0.0, q, v) for system in systems]
        scale = max(1.0, np.abs(found[0][0]).max())
        np.testing.assert_allclose(found[1][0], found[0][0], rtol=0, atol=1e-9 * scale)
        r2 = systems[0].terms(0.0, q, v)[2] @ random.normal(size=q.size)
        x = [system.apply(factor, r1, r2)[0] for system, (_, _, factor) in zip(systems, found, strict=True)]
        np.testing.assert_allclose(x[1], x[0], rtol=0, atol=1e-8 * max(1.0, np.abs(x[0]).max()))


def test_a_partition_wants_a_beam_contact() -> None:
    wanted = dataclasses.replace(build("triple_pendulum"), formulation="partitioned")
    with pytest.raises(
        InvalidMechanism, match=r"'partitioned' supports only joint coordinates, one constraint mode \(set of"
    ):
        validate(wanted)

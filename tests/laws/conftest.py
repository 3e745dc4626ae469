"""Every robot, in every variant worth its own equations: a new robot is tested by being listed in the registry."""

from __future__ import annotations

import pytest

from robots.registry import build, names
from sim_core.system import System, assemble

VARIANTS: dict[str, list[dict[str, object]]] = {
    "crank_slider": [{}, {"start": "printed"}],
    "four_bar_chain": [{}, {"loops": 1}],
    "rotary_pendulum": [{}, {"variant": "qnet"}, {"coordinates": "joint"}],
    "triple_pendulum": [{}, {"variant": "man"}, {"coordinates": "joint"}, {"shift": 0.05}],
}
CASES = [(name, variant) for name in names() for variant in VARIANTS.get(name, [{}])]


def case_name(case: tuple[str, dict[str, object]]) -> str:
    return "-".join([case[0], *[f"{key}={value}" for key, value in case[1].items()]])


@pytest.fixture(params=CASES, ids=case_name, scope="session")
def system(request: pytest.FixtureRequest) -> System:
    name, variant = request.param
    return assemble(build(name, **variant))

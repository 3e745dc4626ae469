"""Milestones: reached after a hold, in the order that `after` asks for."""

from __future__ import annotations

import math

from nodes.framework.plan.launch_plan import Milestone
from nodes.framework.simulation.monitoring.monitors import MilestoneWatch

STEP_S = 0.1


def watched(degrees: list[float], *milestones: Milestone) -> dict[str, float | None]:
    """When each is reached while joint "tilt" goes through these angles, a step of 0.1 s apart."""
    watch = MilestoneWatch(milestones, ["lift", "tilt"])
    for step, angle in enumerate(degrees):
        watch.update(step * STEP_S, [0.0, math.radians(angle)].__getitem__)
    return watch.reached


def at(name: str, degrees: float, after: str = "", hold_s: float = 0.0) -> Milestone:
    return Milestone(name=name, joint="tilt", target_deg=degrees, tolerance_deg=2.0, hold_s=hold_s, after=after)


DOWN_AND_UP = [0.0, -10.0, -20.0, -30.0, -20.0, -10.0, -10.0, 0.0]


def test_a_milestone_after_another_waits_for_it() -> None:
    up, down = at("up", -10.0, after="down"), at("down", -30.0)
    for order in ([up, down], [down, up]):
        reached = watched(DOWN_AND_UP, *order)
        assert (round(reached["down"] or 0.0, 9), round(reached["up"] or 0.0, 9)) == (0.3, 0.5)
    alone = at("up", -10.0)
    assert round(watched(DOWN_AND_UP, alone)["up"] or 0.0, 9) == 0.1


def test_the_hold_of_a_milestone_counts_from_when_the_other_was_reached() -> None:
    """Both at one place: what was held before does not count."""
    first = at("first", 0.0, hold_s=0.3)
    second = at("second", 0.0, after="first", hold_s=0.2)
    reached = watched([0.0] * 10, second, first)
    assert (round(reached["first"] or 0.0, 9), round(reached["second"] or 0.0, 9)) == (0.3, 0.6)


def test_a_milestone_after_one_that_is_missed_is_missed() -> None:
    assert watched(DOWN_AND_UP, at("down", -80.0), at("up", -10.0, after="down")) == {"down": None, "up": None}

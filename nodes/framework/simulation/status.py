"""Status of a run of several robots, from the statuses of the robots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodes.framework.plan.launch_plan import joined

# how the status of several robots is made from those of each: the largest value, the sum, the first that is not empty,
# a table or a list of names with namespaces
LARGEST = (
    *("peak_phi", "peak_phidot", "substeps", "peak_solve_residual", "energy_drift", "largest_departure"),
    *("round_trip_p50_s", "round_trip_p99_s", "round_trip_max_s"),
)
SUMS = ("energy", "watchdog_trips")
FIRST = ("step_too_large", "energy_departure", "safe_since", "emergency_stop")
TABLES = ("milestones", "loads", "beyond_limits", "beyond_velocity_limits", "commands_taken", "commands_refused")
LISTS = ("granted", "by_hand")


def merged_status(each: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One status of several robots, from {namespace: result of `RobotSimulation.status`}."""
    statuses = list(each.values())
    merged = dict(statuses[0])
    merged |= {key: max((s[key] for s in statuses if s[key] is not None), default=None) for key in LARGEST}
    merged |= {key: sum(status[key] for status in statuses) for key in SUMS}
    merged |= {key: next((s[key] for s in statuses if s[key]), statuses[0][key]) for key in FIRST}
    merged |= {key: {joined(n, k): v for n, s in each.items() for k, v in s[key].items()} for key in TABLES}
    merged |= {key: [joined(name, each) for name, s in each.items() for each in s[key]] for key in LISTS}
    merged["commanded_by"] = {name: status["commanded_by"] for name, status in each.items()}
    return merged

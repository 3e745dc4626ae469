"""Units of a sweep's axes (varied parameters) and figures (numeric results), for labels."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import get_type_hints

from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.plan.node_classes import load_class
from nodes.research.sweeps.design import Sweep, plan_with
from robots.registry import parameters
from sim_core.tables import ranges_of

OF_STATUS = {"time": "s", "energy": "J"}
LAST = re.compile(r"_(s|ms|mm|m|deg|hz|ns)$")


def units_of(sweep: Sweep) -> dict[str, str]:
    """Return {key of an axis (varied parameter) or name of a figure (numeric result): unit}; axes and figures without a
    known unit are left out.

    If the launch file cannot be read any more, only the units of the figures `time` and `energy` are known.
    """
    found: dict[str, str] = dict(OF_STATUS)
    with contextlib.suppress(PlanError, ValueError, TypeError, OSError):
        plan = plan_with(sweep, ())
        found |= {f"milestone.{name}": "s" for name in plan.all_milestones}
        for key, unit in (*_of_robots(plan), *_of_nodes(plan)):
            if unit not in ("", "1"):
                found[key] = unit
    return found


def with_unit(name: str, units: dict[str, str]) -> str:
    """Name followed by its unit, such as "energy (J)".

    A name that ends in its unit, such as "tolerance_mm", and a name without a known unit are unchanged.
    """
    ending = LAST.search(name)
    unit = "" if ending else units.get(name, "")
    return f"{name} ({unit})" if unit else name


def _of_robots(plan: Plan) -> Iterator[tuple[str, str]]:
    several = len(plan.views) > 1
    for view in plan.views:
        within = f"{view.sim.namespace}/" if several else ""
        for parameter in parameters(view.sim.robot):
            yield f"{within}sim.parameters.{parameter.name}", parameter.unit
        mechanism = view.sim.make_mechanism()
        for joint in mechanism.moving_joints:
            yield f"position.{within}{joint.name}", joint.unit
            yield f"velocity.{within}{joint.name}", f"{joint.unit}/s"
            yield f"beyond.{within}{joint.name}", joint.unit
            yield f"too_fast.{within}{joint.name}", f"{joint.unit}/s"
        for actuator in mechanism.actuators:
            for kind in ("peak", "rms"):
                yield f"load.{within}{actuator.name}.{kind}", actuator.unit


def _of_nodes(plan: Plan) -> Iterator[tuple[str, str]]:
    for node in plan.nodes:
        hints = get_type_hints(load_class(node.run, plan.folder).Params, include_extras=True)
        for key, hint in hints.items():
            for one in ranges_of(hint):
                yield f"{node.name}.{key}", one.unit
                break

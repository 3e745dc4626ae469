"""Runs one node in this process, beside a live launch or, where that makes sense, alone in its domain."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nodes.client import Client, NotLiveError
from nodes.runtime.loading import load_class, locate
from nodes.runtime.node import Node
from nodes.runtime.plan import PLAN_FILE, NodePlan, Plan, PlanError, SimPlan, convert, read_plan
from nodes.wire.domain import default_domain, domain_folder
from nodes.wire.messages import Description
from nodes.wire.registry import Registry, RegistryError
from nodes.wire.service import ServiceError

DESCRIPTION_WAIT_S = 2.0
BESIDE_PERIOD_S = 0.05


def run_node(
    run: str,
    *,
    name: str | None = None,
    robot: str | None = None,
    params: Mapping[str, Any] | None = None,
    domain: int | None = None,
    alone: bool = False,
    beside: Callable[[Client, str], None] | None = None,
    ended: Callable[[Node], None] | None = None,
) -> int:
    """Run the node "path/to/file.py:Class" until it is asked to stop; the exit code.

    name   in the registry; from the class when not given ("MyLogger" -> "my_logger")
    robot  whose topics it speaks and hears; the live simulation's when not given
    alone  True: where no launch is live, open the domain for as long as the node runs
    beside called with (client, name) on a thread of its own once the node is there, to watch or to end it
    ended  called with the node when it has ended
    """
    domain = default_domain() if domain is None else domain
    path, class_name = locate(run, Path.cwd())
    cls = load_class(f"{path}:{class_name}")
    name = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
    node_plan = NodePlan(name=name, run=f"{path}:{class_name}", params=dict(params or {}))
    convert(node_plan.params, cls.Params, f"node {name!r}: params")
    with contextlib.ExitStack() as stack:
        sim = _live_simulation(domain, robot)
        if sim is None:
            if not alone:
                Client(domain).close()  # says in its own words that no launch is live
                raise NotLiveError(f"no simulation is live in domain {domain}; name the robot with --robot")
            stack.enter_context(Registry(domain))
            sim = SimPlan(robot=robot or "")
        plan = Plan(name=name, sim=sim, nodes=[node_plan], domain=domain, folder=str(Path.cwd()))
        from nodes.runtime.runner import Runner

        logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s", level=logging.INFO)
        node = cls()
        runner = Runner(plan, node_plan, node, told=_live_plan(domain))
        if beside is not None:
            threading.Thread(target=_stand_beside, args=(beside, domain, name), daemon=True).start()
        runner.run()
        if ended is not None:
            ended(node)
    return 0


def _stand_beside(beside: Callable[[Client, str], None], domain: int, name: str) -> None:
    """Call `beside` when the node is at the registry; that the node or its domain ends meanwhile is no error."""
    with contextlib.suppress(ServiceError, RegistryError, NotLiveError), Client(domain) as client:
        while all((entry.name, entry.pid) != (name, os.getpid()) for entry in client.nodes()):
            time.sleep(BESIDE_PERIOD_S)
        beside(client, name)


def _live_plan(domain: int) -> Plan | None:
    """The plan of the launch that is live in the domain; a file without a live server is one that ended."""
    with contextlib.suppress(NotLiveError, PlanError), Client(domain) as client:
        if any(entry.name == "sim" for entry in client.nodes()):
            return read_plan(domain_folder(domain) / PLAN_FILE)
    return None


def _live_simulation(domain: int, robot: str | None) -> SimPlan | None:
    """What a node needs to know of the live simulation; None where nothing is live or nobody describes."""
    with contextlib.suppress(NotLiveError), Client(domain) as client:
        described = [topic.name for topic in client.topics() if topic.name.endswith("/description")]
        wanted = [f"{robot}/description"] if robot is not None else described
        for topic in wanted:
            for _, message in client.stream(topic, timeout_s=DESCRIPTION_WAIT_S):
                if isinstance(message, Description):
                    return SimPlan(robot=message.robot, step_ms=1e3 * message.step_s or 1.0)
        if robot is not None:
            return SimPlan(robot=robot)
    return None

"""Process of one node: `python -P -m nodes.framework.launching.process --plan PLAN.json --node NAME`.

Exit codes: 0 after a request to stop; 1 after a failure, which a traceback or one line explains; 2 for an invalid plan,
address, domain or registry.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import zmq

from nodes.framework.hosting.runner import Runner
from nodes.framework.hosting.session import finish
from nodes.framework.hosting.timing.clock import DeadlineMissedError
from nodes.framework.hosting.timing.scheduling import arrange
from nodes.framework.hosting.turns import LockstepError
from nodes.framework.launching.logs import WARNING
from nodes.framework.launching.supervisor import RESTARTS
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan, read_plan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.plan.programs import ProgramNode, arguments
from nodes.framework.simulation.restart.snapshots import Restart, require_robot
from nodes.framework.transport.domain import DomainError, domain_folder
from nodes.framework.transport.registry import RegistryError
from nodes.framework.transport.sockets import AddressError
from sim_core.errors import InvalidRequest, SimulationError
from sim_core.support.extras import install_hint

PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the node until it is asked to stop; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -P -m nodes.framework.launching.process", description=__doc__)
    parser.add_argument("--plan", required=True, help="file of the plan, JSON")
    parser.add_argument("--node", required=True, help="name of the node to run; 'sim' is the simulation server")
    parser.add_argument(
        "--parent", type=int, default=os.getppid(), help="process id of the launch, with which this process ends"
    )
    parser.add_argument("--begin", default="", help="file with a recorded state from which the server continues")
    given = parser.parse_args(arguments)
    die_with_parent(given.parent)
    print_warnings_plainly()
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s", level=logging.INFO)
    try:
        run_node(read_plan(given.plan), given.node, given.begin)
    except (PlanError, RegistryError, AddressError, DomainError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        print(traceback_text(error), file=sys.stderr)
        return 1
    finally:
        finish(zmq.Context.instance())
    return 0


def print_warnings_plainly() -> None:
    """Print the project's own warnings as one line without the code location, each text once."""
    usual, printed = warnings.showwarning, set()

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if category.__module__ != "sim_core.errors":
            usual(message, category, *rest, **more)
        elif str(message) not in printed:
            printed.add(str(message))
            print(f"{WARNING}{message}", file=sys.stderr, flush=True)

    warnings.showwarning = show


def traceback_text(error: Exception) -> str:
    """Text of an error's traceback.

    For an error in a node's own code, the stack frames of the project that called the node are left out.
    """
    package = Path(__file__).resolve().parents[1]
    ours = {package / room for room in ("hosting", "launching", "simulation", "simulation/replay")}
    frames = traceback.extract_tb(error.__traceback__)
    inside = [index for index, frame in enumerate(frames) if Path(frame.filename).resolve().parent in ours]
    own = frames[inside[-1] + 1 :] if inside else frames
    if not own and not isinstance(error, TypeError):  # a TypeError raised by the project describes an error of the node
        own = frames
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(own)] if own else []
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip() + install_hint(error)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent `parent` dies, so that no process outlives a launch."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before prctl took effect
        sys.exit(1)


def run_node(plan: Plan, name: str, begin: str = "") -> None:
    """Run one node of the plan, or the plan's simulation server, in this thread until it is asked to stop.

    begin  file with the state of a recorded run from which the server continues; "" for the robot's start
    """
    if name == "sim":
        _run_simulation(plan, begin)
        return

    node_plan = plan.node(name)
    cls = load_class(node_plan.run, plan.folder)
    if issubclass(cls, ProgramNode):
        become(cls, plan, node_plan)
    Runner(plan, node_plan, cls(), is_restart=os.environ.get(RESTARTS, "0") != "0").run()


def become(cls: type[ProgramNode], plan: Plan, node_plan: NodePlan) -> NoReturn:
    """Replace this process by the program of a node; the process keeps its core, its priority and its parent."""
    for line in arrange(node_plan.cpu, node_plan.realtime_priority):
        print(f"WARNING {node_plan.name}: {line}", file=sys.stderr, flush=True)
    os.execv(cls.file, arguments(cls, plan, node_plan, domain_folder(plan.domain)))


def _run_simulation(plan: Plan, begin: str) -> None:
    from nodes.framework.simulation.event_loop import SimHost
    from nodes.framework.simulation.server import SimServer

    try:
        server, point = SimServer(plan), None
        if begin:
            point = Restart.decode(Path(begin).read_bytes())
            try:
                require_robot(point, server.code_hash)
            except ValueError as error:
                raise PlanError(str(error)) from None
        SimHost(plan, server, point).run()
    except InvalidRequest as error:
        raise PlanError(f"plan {plan.name!r}: [sim]: {error}") from error
    except (SimulationError, LockstepError, DeadlineMissedError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())

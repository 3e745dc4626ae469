"""The four walks through the architecture as data, and their diagrams. A test checks that every name exists in the
code.

A step is (lane, name, description); a lane is a process, or a part of one. A name is "module:object", or a plain word
for an object outside this project.
"""

from __future__ import annotations

import itertools
from html import escape
from typing import NamedTuple

INK, LINE, PAPER = "#1f2933", "#7b8794", "#ffffff"
FILLS = ("#e3eefb", "#fdf0dc", "#e6f4ea", "#f3e8fb", "#f1f1f1")
WIDTH, HEIGHT, ROW, GAP, TOP = 300, 44, 66, 24, 56


class Step(NamedTuple):
    """One step of a walk."""

    lane: str
    name: str
    does: str


class Walk(NamedTuple):
    """A walk through the code: its page, title, and steps in order."""

    page: str
    title: str
    steps: tuple[Step, ...]


CONTROLLER, SERVER, CORE = (
    "controller's process",
    "server's process: nodes/framework/simulation",
    "server's process: sim_core",
)
COMMAND = Walk(
    "command_to_kernel",
    "From a command to a kernel",
    (
        Step(CONTROLLER, "nodes.node:Node.on_message", "yields a JointCommand"),
        Step(CONTROLLER, "nodes.framework.hosting.outgoing:NodePublisher.publish", "checks, stamps and encodes it"),
        Step(CONTROLLER, "nodes.framework.transport.bus:Publisher.send", "frames: topic, MessagePack"),
        Step(
            SERVER, "nodes.framework.hosting.subscriptions:Subscriptions.take_new", "decodes what came before the step"
        ),
        Step(SERVER, "nodes.framework.simulation.commands:CommandHandler.receive", "into the inbox, with its sender"),
        Step(SERVER, "nodes.framework.simulation.robot:RobotSimulation.step", "empties the inbox, takes one step"),
        Step(SERVER, "nodes.framework.simulation.actuation:Actuation.accept", "one commander for each actuator"),
        Step(SERVER, "nodes.framework.simulation.actuation:Actuation.drive", "limits; servos; efforts"),
        Step(CORE, "sim_core.simulation.simulation:Simulation.advance", "calls the stepper's compiled loop"),
        Step(CORE, "sim_core.integrators.methods.runge_kutta:explicit_step", "the stages of one step"),
        Step(CORE, "sim_core.integrators.step:accelerate", "U, then the kernel by its address"),
        Step(CORE, "machine code", "M a + J' lam = f,  J a = gamma - U"),
    ),
)
DESCRIPTION, SYMBOLS, MACHINE = "description", "symbolic equations", "machine code"
CONSTRAINT = Walk(
    "constraint_to_machine_code",
    "From a constraint to machine code",
    (
        Step(DESCRIPTION, "sim_core.mechanism.constraints:Distance", "names and numbers"),
        Step(DESCRIPTION, "sim_core.mechanism.validation:validate", "refuses what makes no sense"),
        Step(DESCRIPTION, "sim_core.system:assemble", "loads the kernels of an earlier start, or:"),
        Step(SYMBOLS, "sim_core.derivation.equations:derive", "all kernels of a mechanism"),
        Step(SYMBOLS, "sim_core.mechanism.constraints:Distance.rows", "Phi of one constraint"),
        Step(SYMBOLS, "sim_core.derivation.constraints:rows_for", "J and gamma by differentiation"),
        Step(SYMBOLS, "sim_core.derivation.solving.constrained:factorize_constrained", "M, S = J M⁻¹ J' without loops"),
        Step(SYMBOLS, "sim_core.derivation.making:KernelMaker.add", "one function for each kernel"),
        Step(MACHINE, "sim_core.kernels.program:program_of", "a graph; equal operations once"),
        Step(MACHINE, "sim_core.kernels.emit:module_of", "LLVM IR, pairs of lanes"),
        Step(MACHINE, "sim_core.kernels.machine_code.side_by_side:objects_of", "object code, kept on disk"),
        Step(MACHINE, "sim_core.integrators.workspace:Calls", "the addresses that loops call"),
    ),
)
VIEWER = "viewer's process"
STATE = Walk(
    "state_to_plot",
    "From a state to a plot",
    (
        Step(CORE, "sim_core.integrators.step:end_step", "a finished step; events; violations"),
        Step(CORE, "sim_core.monitoring.readings:Readings", "joints, energy, outputs in one buffer"),
        Step(SERVER, "nodes.framework.simulation.robot:RobotSimulation.step", "at rate_hz: a state is due"),
        Step(SERVER, "nodes.framework.simulation.payload:Payload.stamped", "numbers into encoded bytes"),
        Step(SERVER, "nodes.framework.transport.bus:Publisher.send", "XPUB; waits for no subscriber"),
        Step(VIEWER, "nodes.framework.client:Client.stream", "subscribes and decodes"),
        Step(VIEWER, "viewer.data.live:LiveFeed", "a thread of its own"),
        Step(VIEWER, "viewer.data.live_store:LiveStore.add", "rows of numbers by topic"),
        Step(VIEWER, "viewer.window.run_window:RunWindow.refresh", "curves and bodies, each frame"),
    ),
)
COMMAND_LINE, FORK_SERVER, CHILD = "armswing launch", "fork server", "process of a node"
KEY = Walk(
    "launch_key_to_effect",
    "From a launch key to its effect",
    (
        Step(COMMAND_LINE, "nodes.framework.plan.files.file:load_plan", "TOML, then --set"),
        Step(COMMAND_LINE, "nodes.framework.plan.launch_plan:SimPlan", "a field for each key: type, default"),
        Step(COMMAND_LINE, "nodes.framework.plan.checks:check_plan", "names, numbers, classes, parameters"),
        Step(COMMAND_LINE, "nodes.framework.plan.launch_plan:save_plan", "the whole plan as JSON"),
        Step(COMMAND_LINE, "nodes.framework.launching.supervisor:Supervisor.start", "a process for each node"),
        Step(FORK_SERVER, "nodes.framework.launching.fork_server:ForkServer.start", "a copy with all modules imported"),
        Step(CHILD, "nodes.framework.launching.process:run_node", "reads the plan"),
        Step(CHILD, "nodes.framework.simulation.robot:RobotSimulation", "step_ms, stepper, robot: a Simulation"),
        Step(CHILD, "nodes.framework.hosting.hosted:HostedNode", "params: the node's Params"),
        Step(CHILD, "nodes.framework.simulation.event_loop:SimHost.run", "mode, speed, deadline, cpu: the loop"),
    ),
)
WALKS = (COMMAND, CONSTRAINT, STATE, KEY)


def picture(walk: Walk) -> str:
    """The walk as SVG: a column for each lane, a box for each step, arrows in their order."""
    lanes = list(dict.fromkeys(step.lane for step in walk.steps))
    width = len(lanes) * (WIDTH + GAP) + GAP
    height = TOP + len(walk.steps) * ROW
    parts = [_opening(walk.title, width, height)]
    for number, lane in enumerate(lanes):
        x = GAP + number * (WIDTH + GAP)
        parts.append(
            f'<rect x="{x - 8}" y="8" width="{WIDTH + 16}" height="{height - 16}" rx="8" fill="{FILLS[number]}"/>'
        )
        parts.append(_text(x + WIDTH / 2, 32, lane, 14, bold=True))
    places = [(GAP + lanes.index(step.lane) * (WIDTH + GAP), TOP + k * ROW) for k, step in enumerate(walk.steps)]
    for (x, y), (next_x, next_y) in itertools.pairwise(places):
        if x == next_x:
            path = f"M {x + WIDTH / 2} {y + HEIGHT} V {next_y - 3}"
        else:
            side = x + WIDTH if next_x > x else x
            path = f"M {side} {y + HEIGHT / 2} H {next_x + WIDTH / 2} V {next_y - 3}"
        parts.append(f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.5" marker-end="url(#end)"/>')
    for (x, y), step in zip(places, walk.steps, strict=True):
        parts.append(_box(x, y, step.name.rpartition(":")[2], step.does))
    return "\n".join([*parts, "</svg>\n"])


def processes() -> str:
    """The processes of a launch, their threads and sockets, as SVG."""
    width, height = 3 * WIDTH + 4 * GAP, 470
    parts = [_opening("Processes, threads and sockets of a launch", width, height)]
    boxes = {
        "launch": (
            GAP,
            20,
            "armswing launch",
            ("main: watches, sums up", "registry: answers calls", "registry link: follows changes"),
        ),
        "server": (
            2 * GAP + WIDTH,
            190,
            "simulation server (sim)",
            ("main: steps and paces", "services: takes calls", "registry link"),
        ),
        "nodes": (GAP, 330, "a node: controller, recorder ...", ("main: one poll loop", "registry link")),
        "viewer": (3 * GAP + 2 * WIDTH, 330, "viewer", ("main: window", "viewer-feed: subscribes")),
        "fork server": (3 * GAP + 2 * WIDTH, 20, "fork server", ("main: forks the server and nodes",)),
    }
    arrows = (
        ((GAP + WIDTH, 60), (3 * GAP + 2 * WIDTH, 60), "name of a node, its plan", "middle"),
        ((GAP + 60, 330), (GAP + 60, 140), "register; news", "start"),
        ((2 * GAP + WIDTH + 60, 190), (GAP + WIDTH - 20, 140), "register; news", "start"),
        ((GAP + WIDTH, 400), (2 * GAP + WIDTH + 90, 310), "command", "start"),
        ((2 * GAP + WIDTH, 250), (GAP + WIDTH - 60, 330), "state", "end"),
        ((2 * GAP + 2 * WIDTH, 250), (3 * GAP + 2 * WIDTH + 90, 330), "state, body_poses", "start"),
    )
    for (x1, y1), (x2, y2), label, anchor in arrows:
        parts.append(f'<path d="M {x1} {y1} L {x2} {y2}" stroke="{LINE}" stroke-width="1.5" marker-end="url(#end)"/>')
        right, up = {"start": (14, 0), "end": (-14, 0), "middle": (0, 8)}[anchor]
        parts.append(_text((x1 + x2) / 2 + right, (y1 + y2) / 2 - up, label, 12, anchor=anchor))
    for number, (x, y, title, threads) in enumerate(boxes.values()):
        parts.append(
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="120" rx="8" fill="{FILLS[number]}" stroke="{LINE}"/>'
        )
        parts.append(_text(x + 14, y + 26, title, 14, bold=True, anchor="start"))
        parts += [_text(x + 14, y + 52 + 22 * k, thread, 12, anchor="start") for k, thread in enumerate(threads)]
    return "\n".join([*parts, "</svg>\n"])


def table(walk: Walk) -> list[tuple[str, str, str]]:
    """(lane, name, description) of each step."""
    return [(step.lane, step.name, step.does) for step in walk.steps]


def _opening(title: str, width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" role="img"><title>{escape(title)}</title>\n'
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>\n'
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M 0 0 L 8 4 L 0 8 z" fill="{LINE}"/></marker></defs>'
    )


def _box(x: float, y: float, name: str, does: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{PAPER}" stroke="{LINE}"/>\n'
        + _text(x + WIDTH / 2, y + 18, name, 13, bold=True)
        + _text(x + WIDTH / 2, y + 35, does, 12)
    )


def _text(x: float, y: float, text: str, size: int, bold: bool = False, anchor: str = "middle") -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{INK}" text-anchor="{anchor}"{weight}>{escape(text)}</text>\n'
    )

"""What two shortcuts of the server's step buy: payloads that are written in place, kernels bound to their arrays.

    python tests/benchmarks/shortcuts.py [--json FILE]

payload  a state as bytes, for each robot: written into the encoded message, beside one that is made and encoded
bound    the kernel of the joints: called without arguments, beside a ctypes call with the two addresses

Each figure is the median over REPEATS of the mean over CALLS; the two ways alternate.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bars import json_file

from nodes.framework.messages import Message, RobotState
from nodes.framework.messages.codec import encode
from nodes.framework.simulation.payload import state_payload
from robots.registry import build
from sim_core.kernels.bound import pointer_table
from sim_core.simulation import Simulation
from sim_core.system import assemble

ROBOTS = ("rotary_pendulum", "charmie")
REPEATS, CALLS = 31, 2000
TOPIC = "robot/state"


def beside(*ways: Callable[[], object]) -> list[float]:
    """Time of one call of each, in us."""
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(REPEATS):
        for way, each in zip(ways, taken, strict=True):
            began = time.perf_counter()
            for _ in range(CALLS):
                way()
            each.append(1e6 * (time.perf_counter() - began) / CALLS)
    return [statistics.median(each) for each in taken]


def payload(robot: str) -> list[float]:
    """A state as bytes: written in place, and made anew, us."""
    system = assemble(build(robot))
    simulation = Simulation(system)
    readings, names, outputs = simulation.readings, list(system.joint_names), list(system.output_names)
    readings.read()
    buffer, n, stamp = readings.buffer, len(names), Message(timestamp=1.0, seq=1, sent_ns=1)
    made = state_payload(names, outputs, buffer, TOPIC)

    def in_place() -> bytes:
        made.write()
        return made.stamped(stamp)

    def anew() -> bytes:
        numbers = buffer.tolist()
        state = RobotState(timestamp=1.0, seq=1, sent_ns=1, name=names, position=numbers[:n])
        state.velocity, state.effort = numbers[n : 2 * n], numbers[2 * n : 3 * n]
        state.phi, state.phidot, state.energy = numbers[3 * n : 3 * n + 3]
        state.outputs = dict(zip(outputs, numbers[3 * n + 3 :], strict=True))
        return encode(state, TOPIC)

    assert in_place() == anew()
    return beside(in_place, anew)


def bound(robot: str) -> list[float]:
    """The kernel of the joints: bound, and by ctypes with its two arguments, us."""
    system = assemble(build(robot))
    state = Simulation(system).state
    inputs = [np.array([0.0]), state.q.copy(), state.v.copy(), state.u.copy(), system.default_parameters()]
    n = len(system.joint_names)
    outputs = [np.zeros(n), np.zeros(n)]
    kernel = system.bind("joints", inputs, outputs)
    address, tables = kernel._calls[0], (pointer_table(inputs), pointer_table(outputs))
    call = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
    first, second = (table.ctypes.data for table in tables)
    return beside(kernel, partial(call, first, second))


def main(json_path: str | None = None) -> dict[str, Any]:
    """Print both ways of each; they are returned too."""
    found: dict[str, Any] = {}
    for robot in ROBOTS:
        for name, measure in (("payload", payload), ("bound", bound)):
            ours, plain = found[f"{name}_{robot}"] = measure(robot)
            print(f"  {name:8} {robot:16} {ours:6.2f} us   {plain:6.2f} us   {plain / ours:4.1f} times")
    if json_path:
        Path(json_path).write_text(json.dumps(found))
    return found


if __name__ == "__main__":
    main(json_file(__doc__))

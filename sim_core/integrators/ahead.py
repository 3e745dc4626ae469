"""Compilation of a stepping loop in another process, while this process derives a mechanism and compiles its kernels.

A loop depends on the stepper and not on the mechanism. If the loop is not cached, its compilation takes longer than
everything else before the first state of a run. The other process writes the compiled loop to the cache, from which
`Simulation.warm_up` loads it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from sim_core.integrators.steppers import Stepper, stepper_named
from sim_core.integrators.workspace import LAW_SOLVE, SOLVE_RESIDUAL, Memory
from sim_core.kernels.machine_code.native import compiling
from sim_core.kernels.stepping import compile_loop, is_loop_cached

LONGEST_S = 300.0  # time after which the process is given up; the loop is then compiled here


def example_arguments(stepper: Stepper) -> tuple[Any, ...]:
    """Arguments of the types with which a Simulation calls a stepper's loop; the types are the same for all systems."""
    dimensions = {"state": 2, "rows": 2, "stages": 3, "angles": 2, "guards": 2, "history": 2}
    memory = Memory(**{name: np.zeros((1,) * dimensions.get(name, 1)) for name in Memory._fields})
    calls = np.zeros((SOLVE_RESIDUAL + 1, 3), dtype=np.int64)
    law = np.zeros(LAW_SOLVE + 1, dtype=np.int64)
    return (0, 1.0, 0, memory, calls, law, *stepper.arguments(1))


@contextmanager
def loop_compiled_ahead(stepper: str | Mapping[str, Any]) -> Iterator[None]:
    """Context in which another process compiles the loop of a stepper; leaving the context waits for the other process.

    No process is started if the loop is cached, or if the load average of the last minute shows that no core is idle:
    the imports of the process take 1.5 s of processor time. If there is no process or it fails, and the loop is not
    cached, the loop is compiled at its first call.

    stepper  name, or a mapping of name and options, as in a launch file
    """
    table = {"name": stepper} if isinstance(stepper, str) else dict(stepper)
    found = stepper_named(**table)
    if _is_cached(found) or os.getloadavg()[0] > len(os.sched_getaffinity(0)) - 1:
        yield
        return
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-m", __name__, json.dumps(table)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
            if process.poll() is None:
                with compiling(f"the loop of {found.name!r}"):
                    process.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            process.kill()


def _is_cached(stepper: Stepper) -> bool:
    return is_loop_cached(stepper.loop(), example_arguments(stepper))


def main(text: str) -> None:
    """Compile the loop of a stepper, given as a JSON object of name and options, and write it to the cache."""
    compile_stepper(stepper_named(**json.loads(text)))


def compile_stepper(stepper: Stepper) -> None:
    """Compile the loop of a stepper into the cache."""
    compile_loop(stepper.loop(), example_arguments(stepper))


if __name__ == "__main__":
    main(sys.argv[1])

"""Compiles the loops that launch files use, once per installation: `python -m nodes.launching.installation`.

`make install` runs this. Every cache folder starts with these loops, so that no first launch waits for them; the
kernels of a robot depend on its parameters and are compiled by the first launch that uses them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from sim_core.kernels.installed import VARIABLE, installed_loops, replace_folder

# one stepper of each loop, the loops that take longest first
STEPPERS = ("implicit_midpoint", "tr_bdf2", "dopri5_dense", "dopri5_adaptive", "rk4", "abm4", "semi_implicit")
NATIVE = (
    "sim_core.kernels.quaternions",
    "sim_core.monitoring.reading_kernels",
    "sim_core.servos.kernels",
    "sim_core.stabilization.laws",
    "nodes.simulation.payload",
)


def compile_stepper(name: str) -> None:
    """Compile the loop of a stepper into the cache."""
    from sim_core.integrators.ahead import argument_types
    from sim_core.integrators.steppers import stepper_named

    stepper = stepper_named(name)
    stepper.loop().compile(argument_types(stepper))


def rollout_types() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The loops of batches and of the swing planner by name, each with the numba types of its arguments."""
    from numba import float64, int64

    from nodes.planning.brachiation.rollout import _roll, over_limit
    from sim_core.integrators.lanes import advance_lanes

    one, two, three, addresses = float64[::1], float64[:, ::1], float64[:, :, ::1], int64[::1]
    lanes = (addresses, one, one, one, one, one, two, float64, int64, int64, three)
    roll = (int64, float64, float64, float64, one, addresses, one, two, two, one, two)
    return {
        "advance_lanes": (advance_lanes, lanes),
        "_roll": (_roll, roll),
        "over_limit": (over_limit, (one, int64, float64)),
    }


def compile_rollouts() -> None:
    """Compile the loops of batches and of the swing planner into the cache."""
    for compiled, types in rollout_types().values():
        compiled.compile(types)


def compile_native() -> None:
    """Compile stabilizer laws, servos, readings and payloads into the cache."""
    from sim_core.kernels.compiled import NativeFunction

    for name in NATIVE:
        for each in vars(import_module(name)).values():
            if isinstance(each, NativeFunction):
                _ = each.address


TASKS: dict[str, Callable[[], None]] = {
    **{name: lambda name=name: compile_stepper(name) for name in STEPPERS},  # type: ignore[misc]
    "rollouts": compile_rollouts,
    "native functions": compile_native,
}


def install_loops() -> Path:
    """Compile everything, as many processes at a time as there are processors; returns the folder of the loops."""
    target = installed_loops()
    if target is None:
        raise SystemExit(f"{VARIABLE} is empty: there is no folder to install compiled loops in")
    shutil.rmtree(target.parent, ignore_errors=True)  # those of other sources
    target.parent.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="armswing-loops-") as cache:
        environment = os.environ | {"XDG_CACHE_HOME": cache, VARIABLE: ""}

        def carry_out(task: str) -> None:
            subprocess.run([sys.executable, "-P", "-m", __spec__.name, task], env=environment, check=True)

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(carry_out, TASKS))
        (found,) = Path(cache, "armswing", "loops").iterdir()
        replace_folder(target, found)
    return target


if __name__ == "__main__":
    if len(sys.argv) > 1:
        TASKS[sys.argv[1]]()
    else:
        install_loops()

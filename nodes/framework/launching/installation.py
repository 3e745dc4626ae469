"""Compiles the stepping loops of the integrators, once per installation.

`make install` runs this module: `python -m nodes.framework.launching.installation`. A launch that finds no
folder of compiled code copies the compiled loops into a new one, so that the first launch need not compile these loops.
The compiled functions of a robot's equations depend on the robot's parameters; the first launch with these parameters
compiles these functions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sim_core.kernels.machine_code.installed import VARIABLE, installed_loops, replace_folder

# one stepper of each loop, the loops that take longest first
STEPPERS = ("implicit_midpoint", "tr_bdf2", "dopri5_dense", "dopri5_adaptive", "rk4", "abm4", "semi_implicit")


def compile_loop_of(name: str) -> None:
    """Compile the stepping loop of a stepper into the cache."""
    from sim_core.integrators.ahead import compile_stepper
    from sim_core.integrators.steppers import stepper_named

    compile_stepper(stepper_named(name))


def rollout_types() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Functions to compile in addition to the stepping loops, as {name: (function, numba types of its arguments)}.

    The planner of a gibbon's swings uses them.
    """
    from numba import float64, int64

    from nodes.planning.brachiation.rollout import _roll, over_limit

    one, two, addresses = float64[::1], float64[:, ::1], int64[::1]
    roll = (int64, float64, float64, float64, one, addresses, one, two, two, one, two)
    return {
        "_roll": (_roll, roll),
        "over_limit": (over_limit, (one, int64, float64)),
    }


def compile_rollouts() -> None:
    """Compile the functions of `rollout_types` into the cache."""
    for compiled, types in rollout_types().values():
        compiled.compile(types)


def compile_native() -> None:
    """Compile all native functions, such as stabilizer laws and servos, into the cache."""
    from nodes.framework.simulation import payload
    from sim_core.kernels import quaternions
    from sim_core.kernels.compiled import NativeFunction
    from sim_core.monitoring import differences, reading_kernels
    from sim_core.servos import kernels
    from sim_core.stabilization import laws

    for module in (quaternions, differences, reading_kernels, kernels, laws, payload):
        for each in vars(module).values():
            if isinstance(each, NativeFunction):
                _ = each.address


TASKS: dict[str, Callable[[], None]] = {
    **{name: lambda name=name: compile_loop_of(name) for name in STEPPERS},  # type: ignore[misc]
    "rollouts": compile_rollouts,
    "native functions": compile_native,
}


def install_loops() -> Path:
    """Compile everything in TASKS, with one process per available processor; return the folder of the compiled code."""
    target = installed_loops()
    if target is None:
        raise SystemExit(
            f"{VARIABLE} is empty and names no folder for the compiled loops; unset it, or set it to a folder"
        )
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

"""Time and memory that the compilation of a mechanism's kernels takes, estimated from the instructions of the kernels.

The numbers are those of serial chains of 10 to 60 links, in joint and in absolute coordinates, on one core of a server
of 2020; the estimates of these chains are within a factor of 1.6.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from sim_core.errors import InvalidRequest
from sim_core.mechanism.description import GROUND, Mechanism

LIMIT_S, LIMIT_BYTES = 60.0, 2e9
PER_INSTRUCTION_S = 75e-6  # of a kernel of up to LARGE instructions; LLVM's time per instruction grows beyond
LARGE, GROWTH = 10_000, 0.4
AT_START_BYTES, PER_INSTRUCTION_BYTES = 150e6, 3e3  # of a process that compiles, by its largest kernel
MATRICES = 4  # matrices of the size of the mass matrix that the start of a simulation holds at a time
DERIVED_BYTES = 500.0  # per instruction of all kernels, in the process that derives them
MORE = "to compile all the same, give compile_limit_s to assemble or, in a launch file, in [sim], or --yes to a command"


@dataclass(frozen=True)
class Effort:
    """Estimated effort of a compilation.

    instructions  number of instructions of all kernels
    seconds       time, s, with one process per core, at most two
    memory        memory of all processes, bytes
    """

    instructions: int
    seconds: float
    memory: float


class CompilationTooLarge(InvalidRequest):
    """A mechanism whose compilation would take more time or memory than is permitted.

    effort  the estimated effort
    """

    def __init__(self, owner: str, effort: Effort, limit_s: float, advice: str = MORE, at_least: bool = False) -> None:
        self.effort = effort
        about = "at least" if at_least else "about"
        super().__init__(
            f"{owner}: compiling its kernels of {effort.instructions:,} instructions would take {about} "
            f"{effort.seconds:.2g} s and {effort.memory / 1e9:.2g} GB, and the limits are {limit_s:g} s and "
            f"{LIMIT_BYTES / 1e9:g} GB; {advice}"
        )


def effort_of(sizes: Iterable[int]) -> Effort:
    """Effort to compile kernels, given the number of instructions of each kernel."""
    largest = sorted(sizes, reverse=True) or [0]
    total = sum(largest)
    each = [PER_INSTRUCTION_S * n * max(1.0, n / LARGE) ** GROWTH for n in largest]
    processes = min(len(os.sched_getaffinity(0)), 2)
    memory = DERIVED_BYTES * total + sum(AT_START_BYTES + PER_INSTRUCTION_BYTES * n for n in largest[:processes])
    return Effort(total, max(each[0], sum(each) / processes), memory)


def least_sizes(mechanism: Mechanism) -> list[int]:
    """Lower bounds of the numbers of instructions of a mechanism's two largest kernels, without derivation.

    They are the operations of the factorization of the mass matrix of a tree in joint coordinates, [Featherstone2008,
    ch. 6], which is sparse: each row has one entry per coordinate between the link and the ground. For other
    coordinates, the bounds are 0.
    """
    if not mechanism.has_joint_coordinates:
        return [0, 0]
    depth, operations = {GROUND: 0}, 0
    for joint in mechanism.joints:
        before = depth[joint.parent]
        depth[joint.child] = before + len(joint.coordinates)
        operations += sum(k * k for k in range(before, depth[joint.child]))
    return [operations, operations]


def check_least_effort(mechanism: Mechanism, limit_s: float, advice: str = MORE) -> None:
    """Raise CompilationTooLarge as `check_effort` does, by a lower bound that needs no derivation."""
    check_effort(mechanism, least_sizes(mechanism), limit_s, advice, at_least=True)


def check_effort(
    mechanism: Mechanism, sizes: Iterable[int], limit_s: float, advice: str = MORE, at_least: bool = False
) -> None:
    """Raise CompilationTooLarge if the compilation takes longer than `limit_s`.

    With a limit of at most LIMIT_S, memory beyond LIMIT_BYTES is refused, too.

    sizes     number of instructions of each kernel
    advice    end of the message of the error: what to do instead
    at_least  whether the sizes are lower bounds
    """
    effort = effort_of(sizes)
    if effort.seconds > limit_s or (effort.memory > LIMIT_BYTES and limit_s <= LIMIT_S):
        raise CompilationTooLarge(f"mechanism {mechanism.name!r}", effort, limit_s, advice, at_least)


def check_memory(mechanism: Mechanism, limit_s: float) -> None:
    """Raise InvalidRequest if mass matrix and Jacobian of a mechanism need more memory than LIMIT_BYTES.

    limit_s  limit of the time to compile; above LIMIT_S any memory is permitted
    """
    n = mechanism.coordinate_count
    rows = len(mechanism.constraints) + 2 * len(mechanism.joints) * mechanism.has_body_coordinates
    memory = 8.0 * MATRICES * n * (n + rows)
    if memory > LIMIT_BYTES and limit_s <= LIMIT_S:
        raise InvalidRequest(
            f"mechanism {mechanism.name!r}: a simulation of its {n:,} coordinates would take about "
            f"{memory / 1e9:.2g} GB for mass matrices, and the limit is {LIMIT_BYTES / 1e9:g} GB; to assemble it all "
            f"the same, give a compile_limit_s above {LIMIT_S:g} to assemble or, in a launch file, in [sim]"
        )

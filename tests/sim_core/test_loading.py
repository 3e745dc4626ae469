"""Kernels are loaded in processes whose memory is large and has gaps, as in a notebook with arrays of gigabytes."""

from __future__ import annotations

import subprocess
import sys

import pytest

GAPS = """
import ctypes, sys
from sim_core import Simulation, assemble
from armswing import build

RESERVED = 0x22 | 0x4000  # MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *3 * [ctypes.c_int], ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def reserve(size):
    return libc.mmap(None, size, 0, RESERVED, -1, 0)

assemble(build("rotary_pendulum"))  # all modules are loaded
gap = int(sys.argv[1]) * 4096
while reserve(gap) - reserve(gap) != gap:  # until the next free places are neighbours
    pass
blocks = [reserve(gap) for _ in range(200)]
reserve(5 << 30)
for block in blocks[::2]:
    libc.munmap(block, gap)
simulation = Simulation(assemble(build("charmie")))
simulation.step(100)
print(simulation.time)
"""


@pytest.mark.parametrize("pages", [1, 4])
def test_kernels_load_where_free_memory_is_gigabytes_apart(pages: int) -> None:
    ran = subprocess.run([sys.executable, "-c", GAPS, str(pages)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "0.1\n"), ran.stderr

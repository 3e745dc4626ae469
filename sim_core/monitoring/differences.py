"""Central differences of the results of a kernel, by a compiled loop."""

from __future__ import annotations

import numpy as np

from sim_core.kernels.bound import BoundKernel, pointer_table
from sim_core.kernels.compiled import call_kernel, native_function


class Differences:
    """Central differences of the results y (n,) of a bound kernel with respect to one of its inputs x (n,)."""

    def __init__(self, kernel: BoundKernel, x: np.ndarray, y: np.ndarray) -> None:
        n = len(x)
        self._call = np.array([*kernel.addresses, 0, n], dtype=np.int64)
        self._directions, self._found = np.zeros((n, n)), np.zeros((n, n))
        arrays = [x, y, self._directions, self._found, np.zeros(n)]
        table = pointer_table(arrays)
        self._compute = BoundKernel.of_blocks(_differences.address, self._call, table, (kernel, arrays, table))

    def __call__(self, directions: np.ndarray) -> np.ndarray:
        """y(x + d) - y(x - d) for each direction d, as a view (m, n) that the next call overwrites; x is unchanged.

        directions  (m, n), with m <= n
        """
        m = self._call[3] = len(directions)
        self._directions[:m] = directions
        self._compute()
        return self._found[:m]


@native_function("void(CPointer(int64), CPointer(CPointer(float64)))")
def _differences(call, arrays):  # type: ignore[no-untyped-def]
    """Compute y(x + d) - y(x - d) for m directions d, where a kernel computes y(x); x is unchanged at the end.

    call    [addresses of the kernel, of its table of inputs, and of its table of outputs; m; size n of x and of y]
    arrays  pointers to five arrays: x (n,), which the kernel reads; y (n,), which the kernel writes; directions d
            (m, n); differences (m, n), which are written; working memory (n,)
    """
    x, y, directions, found, center = arrays[0], arrays[1], arrays[2], arrays[3], arrays[4]
    m, n = call[3], call[4]
    for i in range(n):
        center[i] = x[i]
    for k in range(m):
        row = k * n
        for i in range(n):
            x[i] = center[i] + directions[row + i]
        call_kernel(call[0], call[1], call[2])
        for i in range(n):
            found[row + i] = y[i]
            x[i] = center[i] - directions[row + i]
        call_kernel(call[0], call[1], call[2])
        for i in range(n):
            found[row + i] -= y[i]
    for i in range(n):
        x[i] = center[i]

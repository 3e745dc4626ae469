"""Compiled conversion of rotation matrices to quaternions; `spatial.quaternions_from_rotations` is the numpy form."""

from __future__ import annotations

import math

from sim_core.kernels.compiled import native_function


@native_function("void(CPointer(CPointer(float64)), CPointer(CPointer(float64)))")
def quaternions(given, found):  # type: ignore[no-untyped-def]
    """Compute unit quaternions w x y z from n rotation matrices.

    In each quaternion, the entry of largest absolute value is positive.

    given  two pointers: to an array with the single number n, and to the rotation matrices (9 n,), row by row
    found  one pointer: to the quaternions (4 n,), which are written
    """
    for n in range(int(given[0][0])):
        r, q = 9 * n, 4 * n
        R, Q = given[1], found[0]
        trace = R[r] + R[r + 4] + R[r + 8]
        # the largest entry of 4 q q' on the diagonal is the best conditioned. [Shepperd1978]
        best, largest = 0, 1.0 + trace
        for i in range(3):
            entry = 1.0 + 2.0 * R[r + 4 * i] - trace
            if entry > largest:
                best, largest = i + 1, entry
        Q[q + best] = largest
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            with_w = R[r + 3 * k + j] - R[r + 3 * j + k]
            between = R[r + 3 * i + j] + R[r + 3 * j + i]
            if best == 0:
                Q[q + i + 1] = with_w
            else:
                if best == i + 1:
                    Q[q] = with_w
                    Q[q + j + 1] = between
                elif best == j + 1:
                    Q[q + i + 1] = between
        length = math.sqrt(Q[q] ** 2 + Q[q + 1] ** 2 + Q[q + 2] ** 2 + Q[q + 3] ** 2)
        for i in range(4):
            Q[q + i] /= length

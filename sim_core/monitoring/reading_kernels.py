"""Compiled parts of the readings: unwrapping of angles, effort per joint, sums over the rows."""

from __future__ import annotations

import math

from numba import types

from sim_core.kernels.compiled import native_function

TURN = 2 * math.pi
SIGNATURE = types.void(*2 * [types.CPointer(types.CPointer(types.float64))])


@native_function(SIGNATURE)
def unwrap(given, buffer):  # type: ignore[no-untyped-def]
    """Add the counted whole turns to wrapped angles.

    given   [n], index of each angle in the buffer, index of its count in `turns`, turns
    buffer  angles, changed in place
    """
    for k in range(int(given[0][0])):
        buffer[0][int(given[1][k])] += TURN * given[3][int(given[2][k])]


@native_function(SIGNATURE)
def summed_up(given, buffer):  # type: ignore[no-untyped-def]
    """Sum the effort per joint, the violations and the energy.

    given  [number of joints, rows of phi, rows of phidot], index of each joint's first entry in the list of actuators
           (then the list's length), that list, u, phi, phidot, kinetic and potential energy
    buffer  effort of each joint, then [|Phi|_1, |Phidot|_1, energy]
    """
    first, actuator, u = given[1], given[2], given[3]
    for joint in range(int(given[0][0])):
        begin, end = int(first[joint]), int(first[joint + 1])
        # starting the sum from zero would lose the sign of -0.0
        effort = u[int(actuator[begin])] if end > begin else 0.0
        for k in range(begin + 1, end):
            effort += u[int(actuator[k])]
        buffer[0][joint] = effort
    for row in range(2):
        violation = 0.0
        for k in range(int(given[0][1 + row])):
            violation += abs(given[4 + row][k])
        buffer[1][row] = violation
    buffer[1][2] = given[6][0] + given[6][1]

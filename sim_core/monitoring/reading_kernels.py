"""Compiled functions of `Readings`: unwrapping of angles, effort per joint, sums of violations and energies."""

from __future__ import annotations

import math

from sim_core.kernels.compiled import native_function

TURN = 2 * math.pi
SIGNATURE = "void(CPointer(CPointer(float64)), CPointer(CPointer(float64)))"


@native_function(SIGNATURE)
def unwrap(given, buffer):  # type: ignore[no-untyped-def]
    """Add the counted whole revolutions to wrapped angles, in place.

    given   pointers to four arrays: [number n of angles]; (n,) index of each angle in the array of `buffer`; (n,) index
            of each angle's number of revolutions in the fourth array; numbers of revolutions
    buffer  pointer to the array that contains the angles
    """
    for k in range(int(given[0][0])):
        buffer[0][int(given[1][k])] += TURN * given[3][int(given[2][k])]


@native_function(SIGNATURE)
def summed_up(given, buffer):  # type: ignore[no-untyped-def]
    """Compute the total actuator effort of each joint, the 1-norms of the violations, and the total energy.

    given   pointers to seven arrays: [number of joints, size of Phi, size of Phidot]; `first` and `actuator`, such that
            the actuators of joint k have the indices actuator[first[k]:first[k + 1]]; efforts u; violations Phi; rates
            Phidot; [kinetic energy, potential energy]
    buffer  pointers to two arrays that are written: effort of each joint; [|Phi|_1, |Phidot|_1, energy]
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

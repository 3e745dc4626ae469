"""Compiled part of the actuator servos: commands, efforts of one step, load statistics, ranges.

Compiled because a server that wakes every millisecond finds cold caches, which makes Python code twice as slow.
"""

from __future__ import annotations

from numba import types

from sim_core.kernels.compiled import native_function

EFFORT, VELOCITY, POSITION = range(3)
SIGNATURE = types.void(*2 * [types.CPointer(types.CPointer(types.float64))])


@native_function(SIGNATURE)
def servo_efforts(given, buffer):  # type: ignore[no-untyped-def]
    """Compute the efforts of the step that begins now, as defined in `Servos`; advances the targets by one step.

    given  [n, h], joint index of each actuator, joint positions, joint velocities, then per actuator stiffness,
           damping, effort limit, velocity limit, lower and upper position limit, slack (effort limit / stiffness)
    buffer  mode, value and target of each actuator (kept between steps); effort of each
    """
    n, h = int(given[0][0]), given[0][1]
    for k in range(n):
        mode, value, before = buffer[0][k], buffer[1][k], buffer[2][k]
        if mode == EFFORT:
            buffer[3][k] = value
            continue
        joint = int(given[1][k])
        x, v = given[2][joint], given[3][joint]
        limit, reach, slack = given[6][k], given[7][k] * h, given[10][k]
        way = value * h if mode == VELOCITY else min(max(value - before, -reach), reach)
        # a target beyond a limit may stay or come back
        target = min(max(before + way, min(given[8][k], before)), max(given[9][k], before))
        rate = (target - before) / h if mode == VELOCITY else 0.0
        target = min(max(target, x - slack), x + slack)
        effort = given[4][k] * (target - x) + given[5][k] * (rate - v)
        buffer[2][k] = target
        buffer[3][k] = min(max(effort, -limit), limit)


@native_function(SIGNATURE)
def add_loads(given, sums):  # type: ignore[no-untyped-def]
    """Add a number of steps with the present effort to the load statistics, then set the next effort.

    given  two arrays: [number of actuators, number of steps to add]; next effort of each actuator
    sums   three arrays by actuator: largest square, sum of squares, present effort
    """
    steps = given[0][1]
    for k in range(int(given[0][0])):
        if steps > 0.0:
            square = sums[2][k] * sums[2][k]
            sums[0][k] = max(sums[0][k], square)
            sums[1][k] += steps * square
        sums[2][k] = given[1][k]


@native_function(SIGNATURE)
def take_commands(given, buffer):  # type: ignore[no-untyped-def]
    """Write commanded values, clipped to their limits, into the array of all actuators.

    given   [n], index, lower limit, upper limit and value of each command
    buffer  values of all actuators
    """
    for k in range(int(given[0][0])):
        buffer[0][int(given[1][k])] = min(max(given[4][k], given[2][k]), given[3][k])


@native_function(SIGNATURE)
def widen(given, buffer):  # type: ignore[no-untyped-def]
    """Widen ranges to include given numbers.

    given   [n], numbers
    buffer  lowest, highest of each
    """
    for k in range(int(given[0][0])):
        buffer[0][k] = min(buffer[0][k], given[1][k])
        buffer[1][k] = max(buffer[1][k], given[1][k])

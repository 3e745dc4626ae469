"""Compiled functions of the actuator servos: commands, efforts of one time step, load statistics, recorded ranges.

In a server that runs one step every millisecond, with cold processor caches, Python code for this takes twice as long.
"""

from __future__ import annotations

from sim_core.kernels.compiled import native_function

EFFORT, VELOCITY, POSITION = range(3)
SIGNATURE = "void(CPointer(CPointer(float64)), CPointer(CPointer(float64)))"


@native_function(SIGNATURE)
def servo_efforts(given, buffer):  # type: ignore[no-untyped-def]
    """Compute the efforts for the next time step, as defined in `Servos`, and advance the targets by one time step.

    given   pointers to 11 arrays that are read: [number n of actuators, step size h in s]; index of each actuator's
            joint (n,); joint positions; joint velocities; then, (n,) each: stiffness; damping; effort limit; velocity
            limit; lower position limit; upper position limit; effort limit / stiffness, which is the largest distance
            of the target from the joint position
    buffer  pointers to four arrays (n,): command mode; commanded value; target, which is updated; effort, which is
            written
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
    """Update the load statistics for time steps with the current efforts, then replace these efforts by the next.

    given  pointers to two arrays: [number n of actuators, number of time steps to count]; next efforts (n,)
    sums   pointers to three arrays (n,): largest squared effort; sum of the squared efforts of all time steps; current
           effort, which is replaced by the next effort
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
    """Write n commanded values, clipped to their limits, to the array of the commanded values of all actuators.

    given   pointers to [number n of commands] and to four arrays (n,): indices of the actuators, lower limits, upper
            limits, commanded values
    buffer  pointer to the commanded values of all actuators
    """
    for k in range(int(given[0][0])):
        buffer[0][int(given[1][k])] = min(max(given[4][k], given[2][k]), given[3][k])


@native_function(SIGNATURE)
def widen(given, buffer):  # type: ignore[no-untyped-def]
    """Widen each of n ranges, if necessary, so that range k includes number k.

    given   pointers to an array of one element, n, and to the numbers (n,)
    buffer  pointers to the lower and the upper ends (n,) of the ranges
    """
    for k in range(int(given[0][0])):
        buffer[0][k] = min(buffer[0][k], given[1][k])
        buffer[1][k] = max(buffer[1][k], given[1][k])

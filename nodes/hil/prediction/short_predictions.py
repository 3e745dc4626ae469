"""Predictions of a recording that has measured states alone, as of an imported log: the model is simulated from the
measured state for a short time with the measured efforts, again and again.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import numpy as np

from nodes.framework.plan.launch_plan import SimPlan
from nodes.hil.alignment.streams import Floats, Stream, StreamError, at_times, segments
from robots.registry import build, with_joint_coordinates
from sim_core.errors import SimulationDiverged, StepTooLargeWarning
from sim_core.simulation import Simulation
from sim_core.system import assemble

HORIZON_S = 0.1  # length of a prediction; errors of an unstable motion grow with it
FEW = 3  # least number of samples in a prediction
FINER, LEAST_STEP_MS = 4.0, 0.1  # divisor of the time step after a model diverged, and step that is not divided


def predicted(measured: Stream, sim: SimPlan, horizon_s: float = HORIZON_S) -> Stream:
    """States of the model at the stamps of the measurement, from predictions over `horizon_s` (s).

    Each prediction starts at a measured state. Within it, the measured efforts act, linear between the samples. A
    prediction ends at a gap. If the model diverges, all are made anew with a smaller time step. Raises StreamError for
    a robot with loops or in absolute coordinates, and if joints, velocities or efforts of the model are not measured.
    """
    mechanism = build(sim.robot, **with_joint_coordinates(sim.robot, sim.parameters))
    if mechanism.constraints or not mechanism.has_joint_coordinates:
        raise StreamError(
            f"robot {sim.robot!r} has loops or absolute coordinates; the recording has no states of the model, and "
            "they are predicted from measured ones only for a tree of joints"
        )
    free = tuple(dataclasses.replace(actuator, effort_limit=None) for actuator in mechanism.actuators)
    system = assemble(dataclasses.replace(mechanism, actuators=free))
    if missing := [name for name in system.joint_names if name not in measured.names]:
        raise StreamError(f"joint {missing[0]!r} of the model is not measured; lock it (`locked`) or measure it")
    stream = measured.only(system.joint_names)
    if stream.velocity is None or stream.effort is None:
        lacking = "velocities" if stream.velocity is None else "efforts"
        raise StreamError(f"the measurement has no {lacking}, with which the model's states are predicted")
    driven = [system.joint_names.index(each.joint) if each.joint else -1 for each in mechanism.actuators]
    position, velocity = stream.position.copy(), stream.velocity.copy()
    at_joints = stream.effort * mechanism.gains(stream.names)
    with _step_notes() as step_notes:
        simulation = Simulation(system, step_s=sim.step_s, stepper=sim.make_stepper(), stabilizer=sim.make_stabilizer())
        for first, last in _parts(stream.time, horizon_s):
            start, stop = stream.time[first], stream.time[last]
            steps = np.arange(start, stop + 0.5 * sim.step_s, sim.step_s)
            efforts = at_times(steps + 0.5 * sim.step_s, stream.time[first : last + 1], at_joints[first : last + 1])
            try:
                found = _simulated(simulation, stream.position[first], stream.velocity[first], efforts, driven)
            except SimulationDiverged as error:
                if sim.step_ms > LEAST_STEP_MS:
                    finer = msgspec.structs.replace(sim, step_ms=sim.step_ms / FINER)
                    return predicted(measured, finer, horizon_s)
                raise StreamError(f"the model diverged from t = {start:g} s on: {error.line}") from None
            times = start + sim.step_s * np.arange(len(steps) + 1)
            inner = slice(first + 1, last + 1)
            position[inner] = at_times(stream.time[inner], times, found[0])
            velocity[inner] = at_times(stream.time[inner], times, found[1])
    note = (
        f"predicted by the model for {horizon_s:g} s at a time in steps of {sim.step_ms:g} ms, each from a measured "
        "state, with the measured efforts"
    )
    return Stream(stream.time, stream.names, position, velocity, stream.effort, (note, *step_notes))


@contextmanager
def _step_notes() -> Iterator[list[str]]:
    """List that has, after the `with` statement, one line about all predictions for which the time step is too large.

    Without it, each of hundreds of predictions would warn.
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    large = [str(each.message) for each in caught if issubclass(each.category, StepTooLargeWarning)]
    for each in caught:
        if not issubclass(each.category, StepTooLargeWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if large:
        notes.append(
            f"in {len(large)} predictions, the time step is too large, as in: {large[0]} (`step_ms` of the log)"
        )


def _parts(time: Floats, horizon_s: float) -> Iterator[tuple[int, int]]:
    """Yield (first, last) sample of each prediction; the last sample of one is the first of the next."""
    for part in segments(time):
        first = part.start
        while part.stop - first >= FEW:
            last = int(np.searchsorted(time[: part.stop], time[first] + horizon_s, side="right")) - 1
            last = min(max(last, first + 1), part.stop - 1)
            yield first, last
            first = last


def _simulated(
    simulation: Simulation, q: Floats, v: Floats, efforts: Floats, driven: list[int]
) -> tuple[Floats, Floats]:
    """Positions and velocities (n + 1, k) of a simulation from q and v (k,) with efforts (n, k) along the joints.

    driven  joint of each actuator, or -1
    """
    simulation.reset(q, v)
    states = [simulation.joints()[:2]]
    for effort in efforts:
        if driven:
            simulation.set_effort([effort[joint] if joint >= 0 else 0.0 for joint in driven])
        simulation.step()
        states.append(simulation.joints()[:2])
    return np.array([each[0] for each in states]), np.array([each[1] for each in states])

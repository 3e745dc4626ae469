"""Errors of diverged runs: each error explains the divergence and names a file with the last states.

Files of earlier diverged runs are deleted, except the latest few.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from sim_core.errors import SimulationDiverged
from sim_core.flexible.elements import BeamModel, beam_model
from sim_core.integrators.steppers import Stepper
from sim_core.integrators.workspace import DIVERGED, NOT_CONVERGED, STEP_TOO_SMALL
from sim_core.mechanism.beams import Beam
from sim_core.mechanism.checks.angles import NEAR, nutations
from sim_core.mechanism.constraints import BeamContact
from sim_core.stabilization.stabilizers import Stabilizer, largest_step
from sim_core.system import System

PREFIX, SUFFIX = "armswing-diverged-", ".npz"
KEPT = 5
PASSING = ("rk4", "dopri5"), ("sampled_fuzzy", "projection")  # steppers and stabilizers that pass change points
GROWS = 1e-3  # growth per step: a mode that grows by less did not cause the divergence
WHAT_ENDED = {  # status: (reason, explanation for the message)
    DIVERGED: ("not finite", "a state is no longer finite"),
    STEP_TOO_SMALL: ("step went to zero", "its adaptive step went to zero"),
    NOT_CONVERGED: ("solver did not converge", "its implicit stage equations did not converge; try a shorter step"),
}
NEARBY = 1e-2  # change of the coordinates, rad or m, to a state nearby
DEPENDENT, APART = 1e-8, 1e-3  # ratio of singular values of dependent rows, and of independent ones, at least
LEAP = 0.05  # share of a beam's length: a larger displacement in one step is divergence, not motion


def divergence(
    status: int,
    time: float,
    history: np.ndarray,
    system: System,
    idle: Collection[str],
    stepper: Stepper,
    step_s: float,
    law: str,
    recent: str = "",
    cause: str = "",
) -> SimulationDiverged:
    """The SimulationDiverged error for a run that cannot continue; writes the history to a file.

    status   why the run ended: one of the codes in WHAT_ENDED, such as DIVERGED
    time     simulation time of the last finite state, s
    history  (n, 1 + 2 n_q): t, q, v of the last steps
    idle     names of the switched constraints that are inactive
    law      name of the stabilizer
    recent   text about recently changed parameters; "" for none
    cause    text about the cause that the last states show; "" for none
    """
    how = f"{stepper.name} and {law} at {step_s * 1e3:.4g} ms"
    reason, words = WHAT_ENDED[status]
    words = explained(system, idle, history) or "; ".join(filter(None, (words, cause)))
    words = "; ".join(filter(None, (words, too_fast(system.mechanism.beams, stepper, step_s), recent)))
    file = write_history(history, system.coordinate_names)
    line = f"{system.mechanism.name!r} diverged at t = {time:.6g} s with {how}: {words}"
    return SimulationDiverged(line, time, history, file, reason)


def change_point_line(names: Sequence[str], time: float, stepper: Stepper, stabilizer: Stabilizer) -> str:
    """Clause of a message: which constraints almost lost rank before a run diverged or lost energy, and a remedy.

    names  names of the constraints
    time   simulation time at which they almost lost rank, s
    """
    passes = stepper.name in PASSING[0] and stabilizer.name in PASSING[1]
    remedy = f"{' and '.join(PASSING[0])} with {' or '.join(PASSING[1])} take steps there in parts"
    return (
        f"{' and '.join(map(repr, names))} almost lost rank at t = {time:.6g} s, near a change point; "
        f"{'use a shorter step' if passes else remedy}"
    )


def repetition(names: Sequence[str], time: float, history: np.ndarray, system: System) -> SimulationDiverged:
    """The SimulationDiverged error for guards that undo each other in one time step; writes the history to a file."""
    file = write_history(history, system.coordinate_names)
    called = " and ".join(map(repr, names))
    fire = f"guards {called} undo each other, and would fire" if len(names) > 1 else f"guard {called} would fire"
    line = (
        f"{system.mechanism.name!r} stopped at t = {time:.6g} s: {fire} repeatedly in one step; "
        "give guards conditions that exclude each other"
    )
    return SimulationDiverged(line, time, history, file, "guards repeat")


def write_history(history: np.ndarray, coordinates: Sequence[str]) -> Path:
    """Write the last states to a new file and return the path of this file; old history files are deleted.

    history      (n, 1 + 2 n_q): t, q, v, stored as the array `t_q_v`
    coordinates  names of the coordinates
    """
    with tempfile.NamedTemporaryFile(prefix=PREFIX, suffix=SUFFIX, delete=False) as stream:
        np.savez(stream, t_q_v=history, coordinates=np.array(coordinates))
    written = Path(stream.name)
    _prune(written)
    return written


def too_fast(beams: Sequence[Beam], stepper: Stepper, step_s: float) -> str:
    """One-line message if a beam's fastest mode, taken alone, is unstable with the stepper and step size; else ""."""
    found = [(_fastest(beam_model(beam)), beam.name) for beam in beams]
    if not found or max(found)[0] == 0.0 or _growth(stepper, max(found)[0], step_s) <= 1.0:
        return ""
    omega, name = max(found)
    return (
        f"the fastest mode of beam {name!r}, {omega:.4g} rad/s, needs steps below "
        f"{longest_step(beams, stepper) * 1e3:.3g} ms with {stepper.name}; "
        "implicit_midpoint and generalized_alpha have no limit"
    )


def longest_step(beams: Sequence[Beam], stepper: Stepper) -> float:
    """Largest step size, s, at which the fastest mode of each beam, taken alone, is stable with the stepper.

    The result is inf if every step size is stable, without beams, and for a stepper that adapts its step size.
    """
    omega = max((_fastest(beam_model(beam)) for beam in beams), default=0.0)
    if stepper.adaptive or omega == 0.0:
        return float("inf")
    return largest_step(partial(_growth, stepper, omega))


def _growth(stepper: Stepper, omega: float, step: float) -> float:
    """Growth of an undamped mode's amplitude in one time step, as a fraction of the permitted growth.

    Both are factors; a result above 1 means that the mode is unstable with the stepper.

    omega  circular frequency of the mode, rad/s
    step   step size, s
    """
    return stepper.growth(omega**2, 0.0, step) / (1.0 + GROWS)


def _fastest(model: BeamModel) -> float:
    """Highest natural frequency of a beam, rad/s."""
    squares = np.linalg.eigvals(np.linalg.solve(model.M, model.K)).real
    return float(np.sqrt(max(squares.max(initial=0.0), 0.0)))


def explained(system: System, idle: Collection[str], history: np.ndarray) -> str:
    """One-line text with the cause of a divergence, if the last states show it; otherwise "".

    idle     names of the switched constraints that are inactive
    history  (n, 1 + 2 n_q): t, q, v of the last steps
    """
    found = [_slid_off(system, contact, history[-3:]) for contact in _contacts(system, idle)]
    found.append(_at_singular_angles(system, history[-20:]))
    found.append(_at_lost_rank(system, history[0]))
    return "; ".join(filter(None, found))


def _contacts(system: System, idle: Collection[str]) -> list[BeamContact]:
    """The beam contacts that are active, which are those whose names are not in `idle`."""
    contacts = [c for c in system.mechanism.constraints if isinstance(c, BeamContact)]
    return [c for c in contacts if c.name not in idle]


def _slid_off(system: System, contact: BeamContact, states: np.ndarray) -> str:
    """One-line text if a contact point slid off the end of its beam in the last states; otherwise "".

    The point is taken to have slid off if its displacement in the last time step, continued for two further time steps,
    passes an end of the beam. A displacement of more than LEAP times the beam's length in one time step is not taken as
    sliding, but as divergence.
    """
    beam = next(beam for beam in system.mechanism.beams if beam.name == contact.beam)
    found = []
    for row in states:
        q, v = np.split(row[1:], 2)
        p_WB, R_WB = (poses[_place(system, contact.body)] for poses in system.poses(row[0], q, v))
        found.append((row[0], np.dot(beam.axis, p_WB + R_WB @ np.array(contact.point) - np.array(beam.origin))))
    known = [(float(t), float(x)) for t, x in found if np.isfinite(x)]  # beyond the end x may not be finite
    if len(known) < 2:
        return ""
    (t, before), (time, now) = known[-2:]
    if not abs(now - before) <= LEAP * beam.length or 0.0 <= now + 2.0 * (now - before) <= beam.length:
        return ""  # a leap is not sliding, and a point well inside has not left
    return (
        f"contact {contact.name!r} slid off the end of beam {beam.name!r}, which is {beam.length:g} m long: at "
        f"t = {time:.6g} s it was at x = {now:.4g} m, at {(now - before) / (time - t):.3g} m/s"
    )


def _at_singular_angles(system: System, states: np.ndarray) -> str:
    """One-line text if a body's ZXZ angles came near their singularity; otherwise "".

    At the singularity, the rates of the angles are unbounded.
    """
    nearest: dict[str, tuple[float, float]] = {}
    for row in states:
        q = row[1 : 1 + system.n_q]
        for body, sine in nutations(system.mechanism, q.tolist()) if np.all(np.isfinite(q)) else ():
            nearest[body.name] = min(nearest.get(body.name, (2.0, 0.0)), (sine, float(row[0])))
    near = [(sine, time, name) for name, (sine, time) in nearest.items() if sine < NEAR]
    if not near:
        return ""
    sine, time, name = min(near)
    return (
        f"body {name!r} came to |sin theta| = {sine:.2g} at t = {time:.6g} s, near the singularity of its ZXZ angles; "
        "orientation='euler_parameters' has no singularity"
    )


def _at_lost_rank(system: System, state: np.ndarray) -> str:
    """One-line text if constraint rows depend on one another in a state, but not in states nearby; otherwise "".

    An example is an arm that is stretched between its ends. The forces that the constraints need grow without bound
    near such a state.

    state  (1 + 2 n_q,): t, q, v
    """
    if not system.max_rows or not np.all(np.isfinite(state)):
        return ""
    time, q, v = float(state[0]), state[1 : 1 + system.n_q], state[1 + system.n_q :]
    nearby = q + NEARBY * np.cos(np.arange(system.n_q))
    here, there = (system.terms(time, place, v)[2] for place in (q, nearby))
    sizes = np.linalg.norm(there, axis=1, keepdims=True)
    if not np.all(np.isfinite(here)) or not np.all(np.isfinite(there)) or not sizes.all():
        return ""
    (rows, values, _), others = np.linalg.svd(here / sizes), np.linalg.svd(there / sizes, compute_uv=False)
    if len(values) < system.max_rows or values[-1] > DEPENDENT * values[0] or others[-1] < APART * others[0]:
        return ""
    part = np.abs(rows[:, -1])
    row_names = system.constraint_modes[0].row_names
    names = dict.fromkeys(name for name, share in zip(row_names, part, strict=True) if share > 0.1 * part.max())
    return (
        f"constraint rows of {' and '.join(map(repr, names))} depend on one another at t = {time:.6g} s, as those of a "
        "stretched arm do; start from another position"
    )


def _place(system: System, body: str) -> int:
    return [one.name for one in system.mechanism.bodies].index(body)


def _prune(newest: Path) -> None:
    """Delete this user's old history files except the latest few.

    Another process may delete files at the same time.
    """
    found = []
    for file in newest.parent.glob(f"{PREFIX}*{SUFFIX}"):
        with contextlib.suppress(OSError):
            if (status := file.stat()).st_uid == os.getuid() and file != newest:
                found.append((status.st_mtime_ns, file))
    for _, file in sorted(found)[: -(KEPT - 1)]:
        with contextlib.suppress(OSError):
            file.unlink()

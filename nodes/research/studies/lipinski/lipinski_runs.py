"""Runs of the study of Lipinski's paper as data, and comparisons between them. [Lipinski2023]"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nodes.research.studies.framework.claims import at_common_times
from nodes.research.studies.framework.methods import NONE, RK4, SAMPLED
from nodes.research.studies.framework.runs import Method, Options, Run, Stepping
from nodes.research.studies.framework.study import Results

ROBOT = "lipinski_pendulum"
MIDPOINT = Stepping("implicit midpoint", "implicit_midpoint")
ALPHA = Stepping("generalized-α, ρ 0.9", "generalized_alpha")
BAUMGARTE = Method("Baumgarte (1/h, √2/h)", "baumgarte")
FINE, REAL_TIME, MODAL = 2e-5, 1e-3, 1e-4  # steps, s
SWEEP = (2.5e-4, 5e-4, 2e-3)
FIRST = 1.0  # duration that the claims are about, s
WATCH = ("outputs", "joints", "energy")
PARTITIONED = "partitioned"
# formulation and stabilizer of the runs whose coordinates are all nodes of the beam
FORMS: dict[str, tuple[str, Method]] = {
    PARTITIONED: ("partitioned", NONE),
    "augmented, Baumgarte": ("augmented", BAUMGARTE),
    "augmented, sampled fuzzy": ("augmented", SAMPLED),
    "Schur complement, sampled fuzzy": ("schur", SAMPLED),
}
POSES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# Reference, case A by RK4 at 1 us with all 98 modes, at POSES: mid-span, contact, q3, q4, contact force (to 0.05 N)
CASE_A = (
    (0.4738284, 2.5, -0.2240931, 1.7948894, 399.462),
    (0.3648650, 2.7034129, -0.0227115, 1.194554, 309.256),
    (0.4092331, 2.9669545, 0.4344421, -0.3998654, 325.207),
    (0.4761528, 2.1364827, -0.203462, -0.1415963, 458.795),
    (0.5845047, 2.1709009, -0.0961052, -0.6977883, 606.721),
    (0.5540690, 2.7869787, 0.37652, -0.9781759, 404.36),
)


@dataclass(frozen=True)
class Spans:
    """Extent of a study.

    seconds   simulated duration, s
    elements  number of finite elements of the beam in the runs of `Runs.nodal`
    """

    seconds: float
    elements: int


SPANS = {"full": Spans(1.2, 50), "quick": Spans(1.2, 16), "tiny": Spans(0.06, 4)}


@dataclass(frozen=True)
class Runs:
    """Runs of the study, grouped by purpose; `all` lists every run."""

    spans: Spans

    def _run(self, case: str, stepping: Stepping, method: Method, step: float, options: Options) -> Run:
        watch = (*WATCH, "coordinates") if stepping == MIDPOINT else WATCH
        return Run(case, ROBOT, stepping, method, step, self.spans.seconds, options, watch=watch)

    def nodal(self, form: str) -> Run:
        """Run with RK4 and a step size of 20 us; the coordinates of the beam are displacement and slope of every node.

        form  key of FORMS, which names a formulation and a stabilizer
        """
        formulation, method = FORMS[form]
        options: Options = (("modes", 0), ("elements", self.spans.elements), ("formulation", formulation))
        return self._run(f"all nodes, {formulation}", RK4, method, FINE, options)

    def modal(self, formulation: str = "partitioned", supports: str = "clamped") -> Run:
        """Run with RK4 and a step size of 0.1 ms; the coordinates of the beam are the amplitudes of 20 modes.

        formulation  "partitioned", "augmented", "schur" or "partitioned_as_printed", see
                     `robots/benchmarks/lipinski.py`
        supports     supports of the beam's ends, "clamped" or "simple"
        """
        options: Options = (("formulation", formulation), ("supports", supports))
        return self._run(f"20 modes, {formulation}, {supports}", RK4, NONE, MODAL, options)

    def real_time(
        self, stepping: Stepping = MIDPOINT, modes: int = 20, step: float = REAL_TIME, supports: str = "clamped"
    ) -> Run:
        """Run of the formulation for real time: modes of the beam, minimal coordinates and an implicit stepper.

        modes     number of modes of the beam
        step      step size, s
        supports  supports of the beam's ends, "clamped" or "simple"
        """
        options: Options = (("modes", modes),)
        if supports == "clamped":
            return self._run(f"{modes} modes, partitioned", stepping, NONE, step, options)
        name = f"{modes} modes, partitioned, {supports}"
        return self._run(name, stepping, NONE, step, (*options, ("supports", supports)))

    @property
    def supported(self) -> dict[str, Run]:
        """{"clamped" or "simple supports": run of the real-time formulation with these supports of the beam's ends}."""
        return {"clamped": self.real_time(), "simple supports": self.real_time(supports="simple")}

    @property
    def reference(self) -> Run:
        """Reference run for comparisons: the partitioned formulation, with displacement and slope of all nodes of the
        beam.
        """
        return self.nodal(PARTITIONED)

    def swept(self) -> dict[str, list[Run]]:
        """{implicit stepper: runs of the real-time formulation with this stepper, one for each step size}."""
        steps = sorted((*SWEEP, REAL_TIME))
        return {s.label: [self.real_time(s, step=step) for step in steps] for s in (MIDPOINT, ALPHA)}

    @property
    def forms(self) -> dict[str, Run]:
        """{formulation: run with displacement and slope of all nodes of the beam as its coordinates}."""
        return {form: self.nodal(form) for form in FORMS}

    @property
    def all(self) -> tuple[Run, ...]:
        """All runs, without repetition."""
        found = [*self.forms.values(), self.modal(), self.modal(supports="simple")]
        found.append(self.modal("partitioned_as_printed"))
        found += [self.real_time(modes=modes) for modes in (10, 30)]
        found += self.supported.values()
        found += [run for runs in self.swept().values() for run in runs]
        return tuple(dict.fromkeys(found))

    @property
    def measured(self) -> tuple[Run, ...]:
        """Runs whose computing time is measured."""
        return (*self.forms.values(), self.modal(), *[run for runs in self.swept().values() for run in runs])


def rows_of(outcome: Any) -> np.ndarray:
    """Series (n, 5) of an outcome: mid-span deflection (m), contact position (m), angles q3 and q4 of the pendulum's
    two arms (rad), contact force (N).
    """
    outputs, joints = outcome.watched["outputs"], outcome.watched["joints"]
    return np.column_stack([outputs[:, :2], joints[:, 2:], outputs[:, 2]])


def apart(results: Results, one: Run, other: Run, until: float = FIRST) -> np.ndarray:
    """Largest differences (5,) between two runs, for the quantities of `rows_of`.

    The runs are compared at the instants that are sampled in both of them, up to the time `until` in s.
    """
    a, b = results[one], results[other]
    t, outputs, theirs = at_common_times(a, b, "outputs")
    _, joints, their_joints = at_common_times(a, b, "joints")
    early = t <= until + 1e-9
    both = [np.column_stack([o[:, :2], j[:, 2:], o[:, 2]]) for o, j in ((outputs, joints), (theirs, their_joints))]
    largest: np.ndarray = np.abs(both[0] - both[1])[early].max(axis=0)
    return largest


def from_table(outcome: Any) -> tuple[np.ndarray, int]:
    """Compare an outcome with CASE_A, a table of reference values at the instants POSES.

    Returns (largest differences (5,) for the quantities of `rows_of`, number of reference instants that the run
    reached).
    """
    rows, found = rows_of(outcome), []
    for time, due in zip(POSES, CASE_A, strict=True):
        (places,) = np.nonzero(np.abs(outcome.t - time) < 1e-9)
        if len(places):
            found.append(np.abs(rows[places[0]] - due))
    return np.max(found, axis=0), len(found)


def drift(outcome: Any, until: float = FIRST) -> np.ndarray:
    """Energy minus initial energy (J) at the samples up to the time `until` in s."""
    energy = outcome.watched["energy"][outcome.t <= until + 1e-9]
    change: np.ndarray = energy - energy[0]
    return change

"""A study as data (runs, claims and plots), and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from nodes.research.studies.framework.claims import Claim, Finding, Verdict
from nodes.research.studies.framework.runs import Outcome, Run


@dataclass(frozen=True)
class Plot:
    """One plot, which the function `draw(results, figure)` fills. The series of the runs in `curves` are also written
    as a table."""

    file: str
    caption: str
    draw: Callable[[Any, Any], None]
    curves: tuple[tuple[str, Run], ...] = ()
    size: tuple[float, float] = (10.5, 5.6)


class Column(NamedTuple):
    """Presentation of a table column on the page: heading with unit, and factor that converts a stored number to that
    unit."""

    heading: str
    factor: float = 1.0

    def text(self, value: Any) -> str:
        """A value as text for the study's page; numbers are multiplied by `factor`, and None gives a dash."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int | float):
            return f"{value * self.factor:.4g}"
        return "–" if value is None else str(value)


@dataclass(frozen=True)
class Table:
    """A table in the study's folder, as CSV and JSON under `file`, and on the page if `shown`.

    columns  {name in the files: presentation on the page}
    """

    file: str
    caption: str
    rows: Callable[[Any], list[dict[str, Any]]]
    columns: Mapping[str, Column] = field(default_factory=dict)
    shown: bool = True

    def column(self, name: str) -> Column:
        """Presentation of a column on the page; a column without an entry in `columns` has its name as heading."""
        return self.columns.get(name, Column(name.replace("_", " ")))


@dataclass(frozen=True)
class Part:
    """A computation of a study that is not a run. The function `make` returns the result, which is stored under `name`.

    alone  whether nothing else may be computed at the same time, because the computation measures times
    """

    name: str
    make: Callable[[], Any]
    alone: bool = True


@dataclass(frozen=True)
class Section:
    """A section of a study's page: heading, introductory text, plots and tables."""

    key: str
    title: str
    text: str
    plots: tuple[Plot, ...]
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Assumption:
    """A quantity that the paper does not state, the value assumed here, and the reason for this value."""

    what: str
    value: str
    basis: str


@dataclass(frozen=True)
class Study:
    """One paper's study: its runs, claims and page.

    measured   runs whose computing time is measured, one after the other, in trials of about `trial_s` seconds each
    longest    the runs of the full study; a quick study simulates some of these runs for a shorter time
    shortened  text that says what a quick study reduces apart from simulated times; the page shows this text as a
               reservation beside verdicts
    unshortened  names of the parts that a quick study computes in full
    compared   introductory text that says which numbers of the paper are compared with computed ones
    own        whether the study follows no paper, so that all its claims are the project's own
    """

    name: str
    title: str
    paper: str
    summary: str
    readings: Mapping[str, str]
    assumptions: tuple[Assumption, ...]
    runs: tuple[Run, ...]
    claims: tuple[Claim, ...]
    sections: tuple[Section, ...]
    measured: tuple[Run, ...] = ()
    longest: tuple[Run, ...] = ()
    parts: tuple[Part, ...] = ()
    shortened: str = ""
    unshortened: tuple[str, ...] = ()
    compared: str = ""
    own: bool = False
    quick: bool = False
    trial_s: float = 0.1
    dpi: int = 150


def pace(quick: bool, spans: str) -> dict[str, Any]:
    """Keyword arguments `trial_s` (duration of a time measurement, s) and `dpi` (resolution of plots) for `Study`.

    quick  whether to return the values of a quick study instead of a full one
    spans  "tiny" for the values of a minimal study for tests, which overrides `quick`
    """
    if spans == "tiny":
        return {"trial_s": 1e-3, "dpi": 50}
    return {"trial_s": 0.02, "dpi": 100} if quick else {"trial_s": 0.1, "dpi": 150}


@dataclass(frozen=True)
class Cost:
    """Processor time of a run on this computer, s.

    per_tick    time per time step of the simulation
    per_second  time per simulated second
    """

    per_tick: float
    per_second: float


@dataclass
class Results:
    """Results of a study.

    outcomes  outcome of each run
    costs     processor time of each measured run that did not fail
    parts     {name of a part: its result}
    """

    outcomes: dict[Run, Outcome]
    costs: dict[Run, Cost] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, run: Run) -> Outcome:
        return self.outcomes[run]

    def cost(self, run: Run) -> Cost | None:
        """Processor time of a run; None for a run that failed or was not measured."""
        return self.costs.get(run)

    def peak(self, run: Run, level: str = "phi") -> float | None:
        """Peak of the constraint violation |Phi| or of its rate |Phidot| in a run; None for a run that failed.

        level  "phi" or "phidot"
        """
        found = self.outcomes[run]
        return float(getattr(found, f"peak_{level}")) if found.held else None

    def judged(self, study: Study) -> list[Judged]:
        """All claims of a study, each with its verdicts and the simulated times of the runs on which it is based."""
        spans: dict[Run, set[float]] = {}
        for run in study.longest:
            spans.setdefault(replace(run, seconds=0.0), set()).add(run.seconds)
        found = []
        for claim in study.claims:
            recorded = _RecordedResults(self)
            findings = claim.findings(recorded)
            seconds = tuple(sorted({run.seconds for run in recorded.runs}))
            short = [run for run in recorded.runs if self.outcomes[run].held]
            full = {run: spans.get(replace(run, seconds=0.0), {run.seconds}) for run in short}
            cut = max((max(full[run]) for run in short if run.seconds not in full[run]), default=None)
            found.append(Judged(claim, findings, seconds, cut, _notes(study, claim, seconds, cut, recorded.read)))
        return found


def _notes(
    study: Study, claim: Claim, seconds: tuple[float, ...], cut: float | None, read: set[str]
) -> tuple[str, ...]:
    """Reservations about a claim's verdict, as lines of text for the page.

    seconds  simulated times of the runs on which the claim is based, s
    cut      longest simulated time (s), in the full study, of those runs that this study simulates for a shorter time;
             None if there are no such runs
    read     names of the parts on which the claim is based
    """
    found = []
    in_full = bool(read) and read.issubset(study.unshortened)
    stands_on_shortened = claim.met != Verdict.BUILT_IN and bool(seconds or not study.runs)
    if cut is not None:
        found.append(f"the full study simulates {cut:g} s, which may change this verdict")
    elif study.quick and study.shortened and stands_on_shortened and not in_full:
        found.append(f"--quick reduces the study ({study.shortened}), which may change this verdict")
    if claim.timed:
        found.append(TIMED)
    return tuple(found)


TIMED = "the verdict depends on times of this computer, which differ from run to run"


class _RecordedParts(dict[str, Any]):
    """Results of parts; the name of each part that is read is added to the set `read`."""

    def __init__(self, parts: Mapping[str, Any], read: set[str]) -> None:
        super().__init__(parts)
        self._read = read

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return super().__getitem__(name)


class _RecordedResults(Results):
    """Results that record which outcomes and parts are read.

    The record shows on which runs and parts a claim is based.
    """

    def __init__(self, results: Results) -> None:
        self.read: set[str] = set()
        self.runs: list[Run] = []
        super().__init__(results.outcomes, results.costs, _RecordedParts(results.parts, self.read))

    def __getitem__(self, run: Run) -> Outcome:
        self.runs.append(run)
        return super().__getitem__(run)


class Judged(NamedTuple):
    """A claim with the result of judging it.

    findings  one result for each interpretation of the paper, or for each case
    seconds   simulated times of the runs on which the claim is based, s
    cut       longest simulated time (s), in the full study, of the runs on which the claim is based and which this
              study simulates for a shorter time. Runs that failed do not count; None if there are no such runs
    notes     reasons why the verdict may change, such as a longer study or another computer
    """

    claim: Claim
    findings: list[Finding]
    seconds: tuple[float, ...]
    cut: float | None
    notes: tuple[str, ...] = ()

    @property
    def span(self) -> str:
        """Simulated times (s) as text, such as "2" or "2 to 20"."""
        return " to ".join(f"{s:g}" for s in dict.fromkeys((self.seconds[0], self.seconds[-1]))) if self.seconds else ""

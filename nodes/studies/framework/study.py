"""A study as data: runs, claims, pictures. And its results by run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from nodes.studies.framework.claims import Claim, Finding, Verdict
from nodes.studies.framework.runs import Outcome, Run


@dataclass(frozen=True)
class Plot:
    """One picture: draw(results, figure) fills it. `curves` are the runs whose series are written beside it."""

    file: str
    caption: str
    draw: Callable[[Any, Any], None]
    curves: tuple[tuple[str, Run], ...] = ()
    size: tuple[float, float] = (10.5, 5.6)


class Column(NamedTuple):
    """How the page shows a column: its heading in words with the unit, and how much a number grows by that unit."""

    heading: str
    factor: float = 1.0

    def text(self, value: Any) -> str:
        """A value as the page has it."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int | float):
            return f"{value * self.factor:.4g}"
        return "–" if value is None else str(value)


@dataclass(frozen=True)
class Table:
    """Rows beside the pictures: as CSV and JSON under `file`, and on the page where they are `shown`.

    columns  {name in the files: how the page shows it}
    """

    file: str
    caption: str
    rows: Callable[[Any], list[dict[str, Any]]]
    columns: Mapping[str, Column] = field(default_factory=dict)
    shown: bool = True

    def column(self, name: str) -> Column:
        """How the page shows a column; one that nobody said anything of by its name."""
        return self.columns.get(name, Column(name.replace("_", " ")))


@dataclass(frozen=True)
class Part:
    """What a study works out besides runs: `make` gives what is kept under its name.

    alone  nothing else computes meanwhile, so that it may measure times
    """

    name: str
    make: Callable[[], Any]
    alone: bool = True


@dataclass(frozen=True)
class Section:
    """A heading of the page, what one should know before its pictures, the pictures, and tables."""

    key: str
    title: str
    text: str
    plots: tuple[Plot, ...]
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Assumption:
    """A number that the paper does not state, and where ours is from."""

    what: str
    value: str
    basis: str


@dataclass(frozen=True)
class Study:
    """One paper: what is run, what is claimed, what is drawn.

    measured  runs whose time is measured too, one after the other, each for about trial_s
    longest   the runs of the full study, which this one may cut short
    shortened what a quick study has less of than the full one besides time, and all verdicts with it
    compared  what of the paper's own numbers is compared, where that should be said first
    own       it runs no paper's example: claims and numbers are all ours
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
    compared: str = ""
    own: bool = False
    quick: bool = False
    trial_s: float = 0.1
    dpi: int = 150


def pace(quick: bool, spans: str) -> dict[str, Any]:
    """How long times are measured and how fine pictures are: thoroughly, quickly, or for a test."""
    if spans == "tiny":
        return {"trial_s": 1e-3, "dpi": 50}
    return {"trial_s": 0.02, "dpi": 100} if quick else {"trial_s": 0.1, "dpi": 150}


@dataclass(frozen=True)
class Cost:
    """Time that a run takes on this machine: seconds of the processor per tick, and per simulated second."""

    per_tick: float
    per_second: float


@dataclass
class Results:
    """Outcomes by run; costs of the runs that were measured and held; a study's own parts by name."""

    outcomes: dict[Run, Outcome]
    costs: dict[Run, Cost] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, run: Run) -> Outcome:
        return self.outcomes[run]

    def cost(self, run: Run) -> Cost | None:
        """The cost of a run, None where it was lost or not measured."""
        return self.costs.get(run)

    def peak(self, run: Run, level: str = "phi") -> float | None:
        """Largest |Phi| or |Phidot| of a run that held, None of one that was lost."""
        found = self.outcomes[run]
        return float(getattr(found, f"peak_{level}")) if found.held else None

    def judged(self, study: Study) -> list[Judged]:
        """Every claim with what came out, and the simulated times it stands on."""
        spans: dict[Run, set[float]] = {}
        for run in study.longest:
            spans.setdefault(replace(run, seconds=0.0), set()).add(run.seconds)
        found = []
        for claim in study.claims:
            seen = _Seen(self)
            findings = claim.findings(seen)
            seconds = tuple(sorted({run.seconds for run in seen.runs}))
            short = [run for run in seen.runs if self.outcomes[run].held]
            full = {run: spans.get(replace(run, seconds=0.0), {run.seconds}) for run in short}
            cut = max((max(full[run]) for run in short if run.seconds not in full[run]), default=None)
            found.append(Judged(claim, findings, seconds, cut, _notes(study, claim, seconds, cut)))
        return found


def _notes(study: Study, claim: Claim, seconds: tuple[float, ...], cut: float | None) -> tuple[str, ...]:
    """What one should know of a claim's verdict."""
    found = []
    stands_on_shortened = claim.met != Verdict.BUILT_IN and bool(seconds or not study.runs)
    if cut is not None:
        found.append(f"the full study goes on to {cut:g} s, which may change this verdict")
    elif study.quick and study.shortened and stands_on_shortened:
        found.append(f"with --quick {study.shortened}, which may change this verdict")
    if claim.timed:
        found.append(TIMED)
    return tuple(found)


TIMED = "it rests on times of this computer, which differ from run to run"


class _Seen(Results):
    """Results that note which runs are looked at."""

    def __init__(self, results: Results) -> None:
        super().__init__(results.outcomes, results.costs, results.parts)
        self.runs: list[Run] = []

    def __getitem__(self, run: Run) -> Outcome:
        self.runs.append(run)
        return super().__getitem__(run)


class Judged(NamedTuple):
    """A claim and what came out.

    seconds  the simulated times of the runs it stands on
    cut      s, where one of them held to its end and the full study goes on with it for so long; else None
    notes    what may change its verdicts: a longer study, another computer
    """

    claim: Claim
    findings: list[Finding]
    seconds: tuple[float, ...]
    cut: float | None
    notes: tuple[str, ...] = ()

    @property
    def span(self) -> str:
        """Its simulated times in words."""
        return " to ".join(f"{s:g}" for s in dict.fromkeys((self.seconds[0], self.seconds[-1]))) if self.seconds else ""

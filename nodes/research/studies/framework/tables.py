"""Tables of a study as CSV and JSON.

Measured times have tables of their own, because all other numbers are the same on every run.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from nodes.research.studies.framework.figures import envelope
from nodes.research.studies.framework.study import Judged, Plot, Results, Study

Rows = list[dict[str, Any]]


def runs_table(study: Study, results: Results) -> Rows:
    """One row per run, with its settings and results.

    Times are in s. The constraint violation |Phi| is a sum over all constraint equations, each in its own unit.
    """
    rows = []
    for run in study.runs:
        found = results[run]
        rows.append(
            {
                "case": run.case,
                "robot": run.robot,
                "stepper": run.stepping.label,
                "stabilizer": run.method.label,
                "dt_s": run.dt,
                "tick_s": run.step_s,
                "seconds": run.seconds,
                "held": found.held,
                "lost_at_s": found.lost_at,
                "reason": found.reason,
                "characteristic_length_m": found.length,
                "peak_phi": found.peak_phi,
                "peak_phidot": found.peak_phidot,
                "end_phi": float(found.phi[-1]),
                "end_phidot": float(found.phidot[-1]),
                "evaluations": found.evaluations,
                "stability_limit_s": found.limit_s,
            }
        )
    return rows


def claims_table(judged: Sequence[Judged], timed: bool) -> Rows:
    """One row per claim and interpretation of the paper.

    timed  true for the claims that depend on measured times, false for all other claims

    If the full study simulates a longer time than this study, the verdict may change, and the column full_study_s has
    the longer time (s). The column notes has all reservations about the verdict as text.
    """
    return [
        {
            "claim": claim.key,
            "where": claim.where,
            "paper_says": claim.statement,
            "rule": claim.rule,
            "reading": finding.reading,
            "here": finding.result,
            "verdict": str(finding.verdict),
            "simulated_s": span,
            "full_study_s": cut,
            "notes": "; ".join(notes),
            "figures": dict(finding.figures),
        }
        for claim, findings, span, cut, notes in ((j.claim, j.findings, j.span, j.cut, j.notes) for j in judged)
        if claim.timed == timed
        for finding in findings
    ]


def timing_table(study: Study, results: Results) -> Rows:
    """One row per measured run that did not fail, with processor times (s) on this computer."""
    return [
        {
            "case": run.case,
            "stepper": run.stepping.label,
            "stabilizer": run.method.label,
            "dt_s": run.dt,
            "tick_s": run.step_s,
            "per_tick_s": cost.per_tick,
            "per_simulated_second_s": cost.per_second,
        }
        for run in study.measured
        if (cost := results.cost(run)) is not None
    ]


def curves_table(plot: Plot, results: Results) -> Rows:
    """Table rows of the curves of a plot.

    Each curve is divided into sections of consecutive samples. A row has the time at the end of a section, and the
    largest constraint violation |Phi| and the largest rate |Phidot| in the section.
    """
    rows = []
    for label, run in plot.curves:
        found = results[run]
        t, phi = envelope(found.t, found.phi)
        _, phidot = envelope(found.t, found.phidot)
        for time, position, velocity in zip(t.tolist(), phi.tolist(), phidot.tolist(), strict=True):
            row = {"curve": label, "stepper": run.stepping.label, "dt_s": run.dt, "t_s": time}
            rows.append(row | {"phi": position, "phidot": velocity})
    return rows


def plain(value: Any) -> Any:
    """Copy of a value in which None replaces every non-finite number, also inside mappings and lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value


def as_json(rows: Rows) -> str:
    """Rows as indented JSON. Non-finite numbers are written as null."""
    return json.dumps(plain(rows), indent=1, ensure_ascii=False) + "\n"


def as_csv(rows: Rows) -> str:
    """Rows as CSV with a header. Nested tables are written as JSON, and missing values as empty cells."""
    if not rows:
        return ""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {
                key: json.dumps(plain(value), ensure_ascii=False) if isinstance(value, dict) else plain(value)
                for key, value in row.items()
            }
        )
    return stream.getvalue()

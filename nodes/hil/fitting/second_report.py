"""Report on the held-out part of a recording, with the corrected model in place of the recorded one."""

from __future__ import annotations

import warnings
from pathlib import Path

from nodes.hil.alignment.streams import StreamError
from nodes.hil.fitting.reading import FitCase
from nodes.hil.report import folder as reports
from nodes.hil.report.reading import read_case
from nodes.hil.report.verdict import Compared, limits_of
from sim_core.errors import DescriptionWarning
from sim_core.identification.design import HELD_OUT
from sim_core.identification.result import FitResult


def report_on_held_out(case: FitCase, result: FitResult, corrections: Path, folder: Path) -> str:
    """One line about the report that was written to the folder, or about why there is none.

    corrections  file of the corrected robot
    """
    if len(case.topics) > 1:
        return "no second report: it is made of one recording only"
    if useless := [*result.apart, *result.refused]:
        return (
            f"no second report: it simulates the corrected model with the measured efforts, and those of "
            f"{', '.join(useless)} are not this model's"
        )
    prediction = result.prediction
    start_s = float(prediction.time[prediction.block == HELD_OUT][0])
    sim = {"robot": case.robot, "parameters": {**case.parameters, "corrections": str(corrections.resolve())}}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DescriptionWarning)  # the same as those of the model before
            compared_case = read_case(Path(next(iter(case.topics))), None, sim=sim, start_s=start_s)
            if not (compared_case.starts_measured or compared_case.predicted.driven):
                return (
                    "no second report: the recording has no applied commands with which the corrected model could run"
                )
            compared = Compared(compared_case, limits_of(compared_case, {}))
            reports.write(compared, folder)
    except StreamError as error:
        return f"no second report: {error}"
    return f"report of the corrected model from {start_s:.4g} s on: {compared.verdict.outcome}, {folder / 'index.html'}"

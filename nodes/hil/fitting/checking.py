"""Checks of the recordings of a fit, and the joints whose efforts must not be fitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from nodes.framework.recording.reader import read_recording
from nodes.hil.alignment.streams import StreamError
from nodes.hil.fitting.reading import IMPORT, FitCase, gains_of, read_fit_case
from nodes.hil.logs.checks import NO_EFFORTS, check_log, driven_joints, samples_of
from nodes.hil.logs.findings import LogFinding

OF_EFFORTS = (  # kinds of findings about the efforts of a joint; the other joints can be fitted without it
    "exchanged efforts",
    "few values",
    "gravity not seen",
    "sign of effort",
    "size of effort",
    "unit of effort",
)
NO_UNIT = "no unit"  # kind of a finding about the whole log
OF_THE_LOG = (NO_EFFORTS, NO_UNIT)  # with these, nothing can be fitted
Findings = Mapping[str, Sequence[LogFinding]]


def check_case(case: FitCase) -> dict[str, list[LogFinding]]:
    """{file: findings} of the recordings of a fit."""
    found = {}
    for path, topic in case.topics.items():
        samples = samples_of(read_recording(path, warn=False), topic)
        at_joints = dataclasses.replace(samples, effort=samples.effort * gains_of(case.mechanism, samples.names, topic))
        without = _without_unit(driven_joints(samples, case.mechanism), case.unit_unknown)
        found[path] = [*without, *check_log(at_joints, case.mechanism, case.unit_unknown)]
    return found


def _without_unit(driven: Sequence[str], unit_unknown: Collection[str]) -> Iterator[LogFinding]:
    """A log in which the efforts of all joints with a motor have an unknown unit."""
    if driven and set(driven) <= set(unit_unknown):
        text = (
            "the efforts of all joints have an unknown unit, and without one no inertia or friction has a size; give "
            "the unit, or `gain` with `gain_sigma`, of at least one joint, and the others are fitted apart"
        )
        yield LogFinding(kind=NO_UNIT, joint="", value=len(driven), text=text, refuses=True)


def refused_in_log(path: Path) -> list[str]:
    """What the checks refuse in an imported log, one line each; nothing for other recordings.

    A report needs neither efforts nor their unit.
    """
    if IMPORT not in read_recording(path, warn=False).metadata:
        return []
    try:
        found = check_case(read_fit_case([path]))
    except ValueError:  # a log that cannot be fitted; a report does not depend on it
        return []
    every = (each for findings in found.values() for each in findings if each.refuses)
    return [each.text for each in every if each.kind not in OF_THE_LOG]


def joints_left_out(found: Findings, names: Collection[str]) -> dict[str, str]:
    """{joint: reason} of the joints among `names` whose efforts a finding refuses.

    Raises StreamError if a recording has no efforts, or none of a known unit, and if a finding refuses the positions of
    a joint, on which the efforts of the others depend.
    """
    left_out: dict[str, str] = {}
    for path, findings in found.items():
        for finding in findings:
            if finding.kind in OF_THE_LOG:
                raise StreamError(f"{path}: {finding.text}")
            joints = [joint for joint in finding.joint.split(", ") if joint in names]
            if not finding.refuses or not joints:
                continue
            if finding.kind not in OF_EFFORTS:
                raise StreamError(
                    f"{path}: {finding.text}; the efforts of the other joints depend on this joint's motion, so "
                    "nothing is fitted"
                )
            for joint in joints:
                left_out.setdefault(joint, finding.text.removeprefix(f"{finding.joint}: "))
    return left_out

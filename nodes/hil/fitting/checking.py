"""Checks of the recordings of a fit, and the joints whose efforts must not be fitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from nodes.framework.recording.reader import read_recording
from nodes.hil.alignment.streams import StreamError
from nodes.hil.fitting.reading import IMPORT, FitCase, gains_of, read_fit_case
from nodes.hil.logs.checks import check_log, samples_of
from nodes.hil.logs.findings import LogFinding

OF_EFFORTS = (  # kinds of findings about the efforts of a joint; the other joints can be fitted without it
    "exchanged efforts",
    "few values",
    "gravity not seen",
    "sign of effort",
    "size of effort",
    "unit of effort",
)
OF_UNITS = ("size of effort", "unit of effort")
Findings = Mapping[str, Sequence[LogFinding]]


def check_case(case: FitCase) -> dict[str, list[LogFinding]]:
    """{file: findings} of the recordings of a fit."""
    found = {}
    for path, topic in case.topics.items():
        samples = samples_of(read_recording(path, warn=False), topic)
        at_joints = dataclasses.replace(samples, effort=samples.effort * gains_of(case.mechanism, samples.names, topic))
        found[path] = check_log(at_joints, case.mechanism)
    return found


def refused_in_log(path: Path) -> list[str]:
    """What the checks refuse in an imported log, one line each; nothing for other recordings."""
    if IMPORT not in read_recording(path, warn=False).metadata:
        return []
    try:
        found = check_case(read_fit_case([path]))
    except ValueError:  # a log that cannot be fitted; a report does not depend on it
        return []
    return [each.text for findings in found.values() for each in findings if each.refuses]


def joints_left_out(found: Findings, names: Collection[str], unit_unknown: Collection[str]) -> dict[str, str]:
    """{joint: reason} of the joints among `names` whose efforts a finding refuses.

    unit_unknown  joints whose efforts have an unknown unit: the size of their efforts refuses nothing
    Raises StreamError if a finding refuses the positions of a joint, on which the efforts of the others depend.
    """
    left_out: dict[str, str] = {}
    for path, findings in found.items():
        for finding in findings:
            joints = [joint for joint in finding.joint.split(", ") if joint in names]
            is_unit = finding.kind in OF_UNITS and finding.joint in unit_unknown
            if not finding.refuses or not joints or is_unit:
                continue
            if finding.kind not in OF_EFFORTS:
                raise StreamError(
                    f"{path}: {finding.text}; the efforts of the other joints depend on this joint's motion, so "
                    "nothing is fitted"
                )
            for joint in joints:
                left_out.setdefault(joint, finding.text.removeprefix(f"{finding.joint}: "))
    return left_out

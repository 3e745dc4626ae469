"""All checks on a log: times, channels, and efforts by the robot's model.

samples = samples_of(read_recording("log.mcap"))
for finding in check_log(samples, build("ricmonk")):
    print(finding.text)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from nodes.framework.recording.reader import Recording
from nodes.hil.alignment.streams import StreamError
from nodes.hil.logs.channel_checks import channel_findings, time_findings
from nodes.hil.logs.findings import Floats, LogFinding, LogSamples
from nodes.hil.logs.model_checks import ModelChecks
from sim_core.identification.loops import dependent_joints
from sim_core.identification.signals import LEAST_MOVING_S, Recorded, moving_s, sampled, too_little_motion
from sim_core.mechanism.description import Mechanism

LEAF = "measured_state"
NO_EFFORTS = "no efforts"  # kind of a finding about the whole log
MERGED = {  # kinds of findings that one sentence names together
    "filtered velocity": "velocities are the positions' derivatives behind a filter, time constant about {value:.3g} s",
    "degrees": "positions go up to {value:.3g} rad beyond the joints' limits; degrees, or other joints'?",
}


def samples_of(recording: Recording, topic: str | None = None) -> LogSamples:
    """The measured states of a recording, as recorded. Raises StreamError for a recording without them.

    topic  topic of the states; None: the first one named "<robot>/measured_state"
    """
    topic = topic or next((each for each in recording.topics if each.rpartition("/")[2] == LEAF), None)
    if topic is None or recording[topic]["name"].ndim != 2:
        raise StreamError(f"{recording.path} has no topic '<robot>/{LEAF}' with one set of joints")
    columns = recording[topic]
    names = tuple(str(name) for name in columns["name"][0])
    position = np.asarray(columns["position"], dtype=float)
    described = {} if recording.description is None else {each.name: each for each in recording.description.joints}

    def limits(side: str, without: float) -> Floats:
        found = [getattr(described.get(name), side, None) for name in names]
        return np.array([without if each is None else each for each in found], dtype=float)

    def channel(name: str) -> Floats:
        values = np.asarray(columns[name], dtype=float) if name in columns else np.zeros((0, 0))
        return values if values.shape == position.shape else np.full_like(position, np.nan)

    return LogSamples(
        names,
        np.asarray(columns["timestamp"], dtype=float),
        position,
        channel("velocity"),
        channel("effort"),
        limits("lower", -np.inf),
        limits("upper", np.inf),
        np.array([getattr(described.get(name), "unit", "rad") == "m" for name in names]),
    )


def check_log(samples: LogSamples, mechanism: Mechanism, unit_unknown: Collection[str] = ()) -> list[LogFinding]:
    """All findings about a log of a robot, those that refuse a joint first.

    mechanism     the robot in joint coordinates; with closed loops, efforts are not compared with its model, nor with
                  refused positions, of which they would only show the consequences
    unit_unknown  joints whose efforts have an unknown unit; the size of these is not judged
    """
    rising = samples.with_rising_times()
    found = [*time_findings(samples), *channel_findings(rising)]
    if not any(each.kind == "unit of time" for each in found):
        found += _short(rising)
    found += _without_efforts(samples, mechanism)
    motion_is_wrong = any(each.refuses and each.kind != "few values" for each in found)
    if len(rising.time) >= 100 and not motion_is_wrong and not dependent_joints(mechanism, samples.names):
        found += ModelChecks(mechanism, rising, unit_unknown).findings()
    return sorted(_merged(found), key=lambda finding: not finding.refuses)


def _short(samples: LogSamples) -> Iterator[LogFinding]:
    """A log with less motion than a fit needs."""
    seconds = moving_s(sampled(Recorded(samples.time, samples.position, samples.effort)))
    if seconds < LEAST_MOVING_S:
        yield LogFinding(kind="little motion", joint="", value=seconds, text=too_little_motion(seconds), refuses=True)


def driven_joints(samples: LogSamples, mechanism: Mechanism) -> list[str]:
    """Joints of a log that have a motor."""
    driven = {actuator.joint for actuator in mechanism.actuators}
    return [name for name in samples.names if name in driven]


def _without_efforts(samples: LogSamples, mechanism: Mechanism) -> Iterator[LogFinding]:
    """A log with no effort of any joint that has a motor."""
    driven = driven_joints(samples, mechanism)
    if driven and not np.isfinite(samples.effort[:, [samples.joint(name) for name in driven]]).any():
        text = f"no efforts of {', '.join(driven)} were recorded; a fit needs positions and efforts"
        yield LogFinding(kind=NO_EFFORTS, joint="", value=len(driven), text=text, refuses=True)


def _merged(found: list[LogFinding]) -> list[LogFinding]:
    """The findings, with one in place of those of one kind in several joints."""
    kept = [each for each in found if each.kind not in MERGED]
    for kind, text in MERGED.items():
        same = [each for each in found if each.kind == kind]
        if len(same) < 3:
            kept += same
            continue
        value = float(np.median([each.value for each in same]))
        joints = ", ".join(each.joint for each in same)
        line = f"{joints}: {text.format(value=value)}"
        kept.append(LogFinding(kind=kind, joint=joints, value=value, text=line, refuses=any(s.refuses for s in same)))
    return kept

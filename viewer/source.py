"""One run that is shown, live or recorded: its signals for the scene, and its fields for the plots."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from nodes.framework.recording.growing import GrowingRecording, pieces
from nodes.framework.recording.integrity.warning import RecordingWarning
from nodes.framework.recording.reader import Recording, read_recording, uncollected
from viewer.data.reading import PIECE_BYTES, BackgroundReading
from viewer.data.series import Floats
from viewer.data.signals import Signals, Store
from viewer.data.store import EventMark
from viewer.layout import Curve
from viewer.recorded import describe

FIRST_BYTES = 16 << 20  # length of a recording that is read before the window opens; the rest is read in the background


@dataclass
class Source:
    """One run that is shown.

    label       name of the run in legends, such as the name of its file
    live        whether the run goes on while it is shown
    path        file of the run; "" for a live run
    run         number of the run in the file, from 1
    plan        name of the recorded launch plan; "" where it is not known
    duration_s  simulation time at which the recorded plan ends; None for a plan without an end
    share       share of the run that was read so far, estimated by bytes; 1 for a run that was read to its end
    offset      time that is added to the run's times so that overlaid runs start together, s
    """

    label: str
    signals: Signals
    live: bool = False
    offset: float = 0.0
    path: str = ""
    run: int = 1
    plan: str = ""
    duration_s: float | None = None
    share: float = 1.0

    @property
    def store(self) -> Store:
        """Numeric fields of all topics."""
        return self.signals.store

    @property
    def span(self) -> tuple[float, float]:
        """First and last time of the states, s, on the window's time axis (time of the run plus `offset`)."""
        times = self.signals.times
        return (float(times[0]) + self.offset, float(times[-1]) + self.offset) if len(times) else (0.0, 0.0)

    @property
    def unread(self) -> tuple[float, float] | None:
        """(last time that was read, estimated end of the run); None for a run that was read to its end.

        Both times are in s on the window's time axis.
        """
        start, end = self.span
        if self.share >= 1.0 or end <= start:
            return None
        return end, start + (end - start) / self.share

    @property
    def events(self) -> list[EventMark]:
        """Events of the run, on the window's time axis."""
        if not self.offset:
            return list(self.store.events)
        return [msgspec.structs.replace(mark, time=mark.time + self.offset) for mark in self.store.events]

    def column(self, curve: Curve) -> tuple[Floats, Floats] | None:
        """(times in s on the window's time axis, values) of a curve; None if the run does not have the curve."""
        found = self.store.column(curve.topic, curve.field)
        if found is None or not self.offset:
            return found
        return found[0] + self.offset, found[1]


def align(sources: list[Source], by: str = "auto") -> bool:
    """Set the offsets of all sources. Returns whether the runs have equal simulation times.

    by  "time" for equal simulation times; "start" for starts at the same place of the time axis; "auto" for equal
        simulation times if each run shares some with the first run, or if the first run is live, since the first state
        that a window receives need not be the first of the run; otherwise for equal starts
    """
    for source in sources:
        source.offset = 0.0
    first, last = sources[0].span
    spans = [source.span for source in sources[1:]]
    shares = all(start <= last and end >= first for start, end in spans)
    if by == "time" or (by == "auto" and (shares or sources[0].live)):
        return True
    for source, (start, _) in zip(sources[1:], spans, strict=True):
        source.offset = first - start
    return False


def difference(first: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """(times of the first curve, other curve minus first curve); the other curve is interpolated at these times.

    The difference is NaN at times at which the other curve has no value: before its start, after its end, and in its
    gaps, which contain a NaN.
    """
    times, values = first
    if len(other[0]) == 0:
        return times, np.full(len(times), np.nan)
    return times, np.interp(times, *other, left=np.nan, right=np.nan) - values


def read_source(file: str, fields: Sequence[str], run_number: int | None) -> tuple[Source, str, str]:
    """(recording as a Source, subtitle that describes it, text to show if the recording has no robot state)."""
    recording = read_recording(file, run=-1 if run_number is None else run_number)
    signals, subtitle, waiting = describe(file, recording, fields)
    return _source(file, recording, signals), subtitle, waiting


def _source(file: str, recording: Recording, signals: Signals) -> Source:
    source = Source(Path(file).name, signals, path=file, run=recording.run or 1)
    source.plan, source.duration_s = _plan_of(recording)
    return source


@dataclass
class ReadPart:
    """The part of a recording that was read so far, as the window shows it.

    subtitle  line below the title
    waiting   text to show if this part has no robot state
    warning   one line that says what is missing in a recording that was read to its end; "" if nothing is missing
    """

    source: Source
    subtitle: str
    waiting: str
    warning: str


def open_source(
    file: str, fields: Sequence[str], run_number: int | None
) -> tuple[ReadPart, BackgroundReading[ReadPart] | None]:
    """(first part of a recording, reading of the whole recording in the background).

    A recording of at most FIRST_BYTES bytes is read to its end; the second value is then None. Raises ValueError with a
    one-line message for a file that is not a recording.
    """
    run, reading = -1 if run_number is None else run_number, None
    if os.path.exists(file) and os.path.getsize(file) > FIRST_BYTES:  # starts while this process reads the first part
        reading = BackgroundReading(file, run, FIRST_BYTES, lambda growing, found: _part(file, (), growing, found))
    try:
        growing = GrowingRecording(Path(file), run)
        with uncollected():
            for piece in pieces(file, PIECE_BYTES):
                growing.add(piece)
                if reading is not None and piece.read >= FIRST_BYTES:
                    break
        part = _part(file, fields, growing, growing.recording())
    except Exception:
        if reading is not None:
            reading.close()
        raise
    if growing.whole and reading is not None:  # a little longer than FIRST_BYTES
        reading.close()
        reading = None
    if reading is None:
        warn_of(part)
    return part, reading


def warn_of(part: ReadPart) -> None:
    """Warn of what is missing in a recording that was read to its end."""
    if part.warning:
        warnings.warn(part.warning, RecordingWarning, stacklevel=2)


def _part(file: str, fields: Sequence[str], growing: GrowingRecording, recording: Recording) -> ReadPart:
    signals, subtitle, waiting = describe(file, recording, fields)
    source = _source(file, recording, signals)
    source.share = growing.share
    if not growing.whole:
        waiting = f"{subtitle.partition(':')[0]}: no state of a robot was read yet ..."
    return ReadPart(source, subtitle, waiting, recording.warning)


def read_overlaid(file: str, first: Source) -> tuple[Source, str]:
    """(recording to overlay on the recording `first`, subtitle that describes it).

    Raises ValueError with a one-line message for a recording without states, or of another robot.
    """
    if first.live and not first.signals.states:
        raise ValueError(f"no robot is live to compare {file} with; open it with File, Open recording ...")
    source, subtitle, missing = read_source(file, (), None)
    if source.signals.states == 0:
        raise ValueError(missing)
    if source.signals.robot != first.signals.robot:
        raise ValueError(
            f"{file} is a recording of robot {source.signals.robot!r}, and {first.path or 'the live run'} of robot "
            f"{first.signals.robot!r}; overlay only recordings of the same robot"
        )
    return source, subtitle


def _plan_of(recording: Recording) -> tuple[str, float | None]:
    """(name of the recorded launch plan, its duration_s); ("", None) for a recording without a readable plan."""
    try:
        plan = json.loads(recording.metadata.get("plan", "{}"))
    except ValueError:
        return "", None
    return str(plan.get("name", "")), plan.get("duration_s")

"""Reads a recording as `Signals`, with one line that describes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nodes.framework.recording.reader import Recording, read_recording
from viewer.data.signals import Signals, diverged_text, from_recording
from viewer.panels import check_curves, choose_fields


def read_signals(file: str, fields: Sequence[str], run_number: int | None) -> tuple[Signals, str, str]:
    """(signals of a recording, subtitle that describes it, text to show if the recording has no robot state)."""
    return describe(file, read_recording(file, run=-1 if run_number is None else run_number), fields)


def describe(file: str, recording: Recording, fields: Sequence[str]) -> tuple[Signals, str, str]:
    """(signals of a recording, subtitle that describes it, text to show if the recording has no robot state).

    file  path of the recording, for the texts
    """
    signals = from_recording(recording)
    chosen = choose_fields(fields, signals)
    if signals.states:
        check_curves(chosen, signals)
    cut = _missing(recording)
    topics = ", ".join(recording.topics) or "none"
    waiting = f"{Path(file).name} holds no state of a robot{cut}; its topics: {topics}"
    kind = "states" if signals.states_topic == "state" else "measured states"
    shown = f"{signals.states} {kind} in {_length(signals)}{_which(recording)}{cut}{diverged_text(signals)}"
    return signals, f"{Path(file).name}: {shown}", waiting


def _missing(recording: Recording) -> str:
    """Text about the gaps in a recording, for the subtitle; the reader's warning lists all gaps."""
    holes = [hole for hole in recording.holes if hole.cause != "cut off"]
    spans = f", messages missing in {', '.join(hole.span for hole in holes[:2])}" if holes else ""
    more = f" and {len(holes) - 2} more" if len(holes) > 2 else ""
    return f"{spans}{more}{', cut off before its end' if recording.cut_off else ''}"


def _which(recording: Recording) -> str:
    """Number of the shown run, as ", run 2 of 3", for a recording with several runs; else ""."""
    if len(recording.runs) < 2 or recording.run is None:
        return ""
    run = recording.runs[recording.run - 1]
    return f", run {run.number} of {len(recording.runs)}" + (f" ({run.began})" if run.began else "")


def _length(signals: Signals) -> str:
    times = signals.times
    return f"{float(times[-1] - times[0]) if len(times) else 0.0:.2f} s"

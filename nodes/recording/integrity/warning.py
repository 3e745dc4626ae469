"""The warning of a recording that lacks messages; on its own, as the command line knows it before it reads one."""

from __future__ import annotations


class RecordingWarning(UserWarning):
    """A recording lacks messages or is damaged; its text is one line for a person."""

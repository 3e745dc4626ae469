"""The warning class for recordings that lack messages. A module of its own, so that the command line starts fast."""

from __future__ import annotations


class RecordingWarning(UserWarning):
    """A recording lacks messages or is damaged. The text is one line for the user."""

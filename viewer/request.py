"""What the viewer is asked to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """Runs to show, and how.

    file        path of the recording; None for a live domain
    domain      number of the live domain; None for the usual one
    fields      names of the fields to plot; empty for the default fields
    plane       viewing plane of the bodies: auto, xy, xz, yz or space
    run_number  number of the run in the file, from 1; None for the last
    others      further recordings, overlaid
    layout      file of a layout to show
    """

    file: str | None = None
    domain: int | None = None
    fields: Sequence[str] = ()
    plane: str = "auto"
    run_number: int | None = None
    others: Sequence[str] = ()
    layout: str | None = None

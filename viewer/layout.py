"""Layout of the window: camera, plots and time range as plain data, saved as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from sim_core.support.limited import read_limited

SUFFIX = ".layout.json"
LARGEST_BYTES = 1_000_000  # of a file
SMALLEST = 1e-17  # smaller values are drawn as this on a logarithmic axis


class Camera(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Orthographic camera of the 3-D scene.

    Two angles give the direction from the target to the eye, which is the position of the viewer.

    azimuth_deg    angle of this direction about the vertical, deg: 0 for the side view, -90 for the front view
    elevation_deg  angle of this direction above the horizontal, deg, in -90 .. 90
    target         point in the middle of the picture, m, in world coordinates; with `follow`, the vector from the
                   origin of the followed body to this point, in world axes
    height         height of the picture, m
    follow         name of the body that the camera follows; "" if it follows no body
    """

    azimuth_deg: float
    elevation_deg: float
    target: tuple[float, float, float]
    height: float
    follow: str = ""


class Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One curve: a numeric field of a topic, such as `position.elbow` of `charmie/state`."""

    topic: str
    field: str


class PlotSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One plot.

    title  text above the plot; "" for the names of its fields
    unit   unit of the value axis
    log    whether the value axis is logarithmic
    span   lowest and highest value shown (decimal exponents on a logarithmic axis); None for a range that fits the
           curves
    words  labels of the values 0, 1, 2 ..., which the axis shows instead of numbers
    """

    curves: tuple[Curve, ...] = ()
    title: str = ""
    unit: str = ""
    log: bool = False
    span: tuple[float, float] | None = None
    words: tuple[str, ...] = ()


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's choices for the view.

    camera      camera of the scene; None for the automatic view
    plots       plots; None for the plots that suit the robot
    time        first and last time shown, s; None for all of a recording, or the latest seconds of a live run
    window      number of the latest seconds of a live run that are shown; None for 20
    difference  whether plots show each further recording minus the first
    align       times of overlaid recordings: "time" for equal simulation times, "start" for starts at the same place,
                "auto" for equal simulation times where the runs share some, otherwise for equal starts
    measured    whether the measured robot is drawn over the model
    theme       colours, "light" or "dark"; None for the colours with which the window opened
    panels      names of the panels to show; None to leave the shown panels as they are
    """

    camera: Camera | None = None
    plots: tuple[PlotSpec, ...] | None = None
    time: tuple[float, float] | None = None
    window: float | None = None
    difference: bool = False
    panels: tuple[str, ...] | None = None
    measured: bool = True
    theme: Literal["light", "dark"] | None = None
    align: Literal["auto", "time", "start"] = "auto"


class LayoutError(ValueError):
    """Raised for a file that is not a layout. The message is one line for the user."""


def save_layout(layout: Layout, path: str | Path) -> None:
    """Write a layout to a file. Raises OSError if the file cannot be written."""
    Path(path).write_bytes(msgspec.json.format(msgspec.json.encode(layout), indent=2) + b"\n")


def load_layout(path: str | Path) -> Layout:
    """The layout in a file. Raises LayoutError if the file cannot be read or is not a layout."""
    try:
        return msgspec.json.decode(read_limited(path, LARGEST_BYTES), type=Layout)
    except OSError as error:
        raise LayoutError(
            f"{path} cannot be read: {error.strerror or error}; choose another layout file ({SUFFIX})"
        ) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LayoutError(
            f"{path} is not a layout of the viewer: {error}; choose a file that the viewer has saved"
        ) from None

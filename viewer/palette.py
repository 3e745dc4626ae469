"""Colours as text, without Qt: dark ink on white, colours that stay apart for colour-blind eyes and in print."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Sequence

INK = "#1c2430"
MUTED = "#5c6773"
FAINT = "#d5dae0"
PAPER = "#ffffff"
PANEL = "#f5f7f9"
ACCENT = "#0b62a8"
ALARM = "#c4161c"
GOLDEN = 0.6180339887498949  # of a turn between hues: the next always falls into a wide gap
CURVES = (
    *("#0072b2", "#d55e00", "#00845f", "#b0488a", "#a87400", "#3a9bd0", "#6b4fb3", "#4d4d4d"),
    *("#e6194b", "#7bb32e", "#00a6a6", "#f28ab2", "#8c4a1f", "#1f2f8f", "#d1b000", "#9aa3ad"),
    *("#7a0033", "#5c6b10", "#005468", "#d92fd0", "#ff9a5c", "#7fb5ff", "#b49be0", "#0b3d24"),
    *("#2222e0", "#00c000", "#ff1199", "#bb00ff", "#bbaa77", "#00cc77", "#cc0000", "#0055ff"),
)
# beyond as many curves as are told apart by hue alone, pictures dash them: mark of the legend, pattern in widths
HUES = 8
DASHES: tuple[tuple[str, list[float]], ...] = (
    ("━━", []),
    ("━\u2004━", [5.0, 2.5]),
    ("┉┉", [1.2, 1.8]),
    ("━┉", [7.0, 2.0, 1.2, 2.0]),
)
LINE, STILL, SPRING, OVERLAY, FORCE = "#37424e", "#8b95a1", "#7a4a12", "#1f5fd0", "#c4161c"  # beside the bodies
BODIES = ("#4f7cac", "#d9703a", "#3f9a78", "#b0689a", "#b08a30", "#5aa9cf", "#8573bd", "#7a7a7a")
AXIS_COLORS = ("#b3261e", "#1b7a3d", "#0b62a8")  # x, y, z as in every robot's manual
CHANGES = {"grip": "#00845f", "release": "#d55e00", "fall": "#c4161c"}
OTHER_CHANGES = ("#6b4fb3", "#a87400", "#3a9bd0", "#4d4d4d")
NAMED = {  # the colour names of HTML 4
    **{"black": "#000000", "silver": "#c0c0c0", "gray": "#808080", "white": "#ffffff", "maroon": "#800000"},
    **{"red": "#ff0000", "purple": "#800080", "fuchsia": "#ff00ff", "green": "#008000", "lime": "#00ff00"},
    **{"olive": "#808000", "yellow": "#ffff00", "navy": "#000080", "blue": "#0000ff", "teal": "#008080"},
    **{"aqua": "#00ffff", "orange": "#ffa500"},
}


def curve_color(index: int) -> str:
    """The colour of the index-th curve of a plot: no other has the same."""
    if index < len(CURVES):
        return CURVES[index]
    hue, light = (index * GOLDEN) % 1.0, 0.4 + 0.5 * ((index * GOLDEN**2) % 1.0)
    return _hex([255.0 * part for part in colorsys.hsv_to_rgb(hue, 0.85, light)])


def curve_dash(index: int) -> tuple[str, list[float]]:
    """How the index-th curve of a picture is dashed: its mark in a legend, and the pattern, empty for none."""
    return DASHES[index // HUES % len(DASHES)]


def change_colors(changes: Sequence[tuple[float, str]]) -> dict[str, str]:
    """The colour of each kind of the changes (time, kind), in the order of their first."""
    kinds = list(dict.fromkeys(kind for _, kind in changes))
    others = [kind for kind in kinds if kind not in CHANGES]
    return {k: CHANGES.get(k) or OTHER_CHANGES[others.index(k) % len(OTHER_CHANGES)] for k in kinds}


def solid_color(index: int, wanted: str = "") -> str:
    """The colour of a body as #rrggbb: the one that its shape asks for, else one of ours by its place in the list."""
    wanted = NAMED.get(wanted.lower(), wanted.lower())
    if re.fullmatch("#[0-9a-f]{3}", wanted):
        wanted = "#" + "".join(2 * digit for digit in wanted[1:])
    return wanted if re.fullmatch("#[0-9a-f]{6}", wanted) else BODIES[index % len(BODIES)]


def darker(color: str, percent: float) -> str:
    """#rrggbb with its brightness divided by percent / 100; below 100 it gets lighter, up to full brightness."""
    parts = [int(color[place : place + 2], 16) for place in (1, 3, 5)]
    scale = min(100.0 / percent, 255.0 / max(1, *parts))
    return _hex([scale * part for part in parts])


def _hex(parts: Sequence[float]) -> str:
    return "#" + "".join(f"{round(part):02x}" for part in parts)

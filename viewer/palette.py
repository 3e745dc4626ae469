"""Colours as text, independent of Qt, for a light or a dark background.

Colour-blind readers can tell the curves' colours apart. Other modules read a colour as `palette.INK` each time they
draw, because `use` changes the colours.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Sequence

THEMES: dict[str, dict[str, str]] = {
    "light": {
        **{"INK": "#1c2430", "MUTED": "#5c6773", "FAINT": "#d5dae0", "PAPER": "#ffffff", "PANEL": "#f5f7f9"},
        **{"ACCENT": "#0b62a8", "ALARM": "#c4161c", "FORCE": "#c4161c", "LINE": "#37424e", "OVERLAY": "#1f5fd0"},
        **{"MEASURED": "#00939c", "PUSH": "#8a2be2"},
    },
    "dark": {
        **{"INK": "#e6eaf0", "MUTED": "#9aa5b1", "FAINT": "#3a434e", "PAPER": "#171b21", "PANEL": "#232932"},
        **{"ACCENT": "#4aa3e8", "ALARM": "#ff6b6b", "FORCE": "#ff6b6b", "LINE": "#aeb9c5", "OVERLAY": "#7aa7ff"},
        **{"MEASURED": "#35d3dc", "PUSH": "#c48bff"},
    },
}
DIMMEST = 0.52  # least lightness, 0 .. 1, of curves and bodies on a dark ground
INK, MUTED, FAINT, PAPER, PANEL, ACCENT, ALARM, FORCE, LINE, OVERLAY, MEASURED, PUSH = THEMES["light"].values()
DEFAULT = "light"  # theme of pictures and films, and of windows before the user chose another
theme = DEFAULT
GOLDEN = 0.6180339887498949  # turns between successive hues: each new hue falls into a wide gap between earlier ones
CURVES = (
    *("#0072b2", "#d55e00", "#00845f", "#b0488a", "#a87400", "#3a9bd0", "#6b4fb3", "#4d4d4d"),
    *("#e6194b", "#7bb32e", "#00a6a6", "#f28ab2", "#8c4a1f", "#1f2f8f", "#d1b000", "#9aa3ad"),
    *("#7a0033", "#5c6b10", "#005468", "#d92fd0", "#ff9a5c", "#7fb5ff", "#b49be0", "#0b3d24"),
    *("#2222e0", "#00c000", "#ff1199", "#bb00ff", "#bbaa77", "#00cc77", "#cc0000", "#0055ff"),
)
# from the curve of this index on, pictures also dash the curves: (mark in the legend, dash pattern in line widths)
HUES = 8
DASHES: tuple[tuple[str, list[float]], ...] = (
    ("━━", []),
    ("━\u2004━", [5.0, 2.5]),
    ("┉┉", [1.2, 1.8]),
    ("━┉", [7.0, 2.0, 1.2, 2.0]),
)
# colours of things other than bodies
STILL, SPRING = "#8b95a1", "#7a4a12"
BODIES = ("#4f7cac", "#d9703a", "#3f9a78", "#b0689a", "#b08a30", "#5aa9cf", "#8573bd", "#7a7a7a")
AXES = ("#b3261e", "#1b7a3d", "#0b62a8")  # x red, y green, z blue, as is usual in robotics
CHANGES = {"grip": "#00845f", "release": "#d55e00", "fall": "#c4161c"}
OTHER_CHANGES = ("#6b4fb3", "#a87400", "#3a9bd0", "#4d4d4d")
NAMED = {  # the colour names of HTML 4
    **{"black": "#000000", "silver": "#c0c0c0", "gray": "#808080", "white": "#ffffff", "maroon": "#800000"},
    **{"red": "#ff0000", "purple": "#800080", "fuchsia": "#ff00ff", "green": "#008000", "lime": "#00ff00"},
    **{"olive": "#808000", "yellow": "#ffff00", "navy": "#000080", "blue": "#0000ff", "teal": "#008080"},
    **{"aqua": "#00ffff", "orange": "#ffa500"},
}


def use(name: str) -> None:
    """Use the colours of the theme `name` from now on. Raises ValueError for a name that is not in THEMES."""
    global theme
    check_theme(name)
    theme = name
    globals().update(THEMES[name])


def check_theme(name: str) -> None:
    if name not in THEMES:
        raise ValueError(f"theme {name!r} is unknown; choose one of {', '.join(THEMES)}")


def visible(color: str) -> str:
    """The colour #rrggbb, lightened where it would be too dark on a dark background."""
    if theme == "light":
        return color
    hue, light, saturation = colorsys.rgb_to_hls(*(int(color[place : place + 2], 16) / 255.0 for place in (1, 3, 5)))
    if light >= DIMMEST:
        return color
    return _hex([255.0 * part for part in colorsys.hls_to_rgb(hue, DIMMEST + 0.25 * light, saturation)])


def still_shade() -> float:
    """Factor on the brightness of surfaces that do not move; below 1 on a dark background."""
    return 1.0 if theme == "light" else 0.35


def axis_colors() -> tuple[str, ...]:
    return tuple(visible(color) for color in AXES)


def curve_color(index: int) -> str:
    """Colour of the curve with this index in a plot; no two indices have the same colour."""
    if index < len(CURVES):
        return visible(CURVES[index])
    hue, light = (index * GOLDEN) % 1.0, 0.4 + 0.5 * ((index * GOLDEN**2) % 1.0)
    return visible(_hex([255.0 * part for part in colorsys.hsv_to_rgb(hue, 0.85, light)]))


def curve_dash(index: int) -> tuple[str, list[float]]:
    """(legend mark, dash pattern) of the curve with this index. The pattern is empty for a solid line."""
    return DASHES[index // HUES % len(DASHES)]


def change_colors(changes: Sequence[tuple[float, str]]) -> dict[str, str]:
    """{kind: its colour} for changes (time, kind) of the constraint mode, in the order of first occurrence."""
    kinds = list(dict.fromkeys(kind for _, kind in changes))
    others = [kind for kind in kinds if kind not in CHANGES]
    return {k: visible(CHANGES.get(k) or OTHER_CHANGES[others.index(k) % len(OTHER_CHANGES)]) for k in kinds}


def solid_color(index: int, requested: str = "") -> str:
    """Colour of a body as #rrggbb.

    index   index of the body, for the colour from the palette
    requested  name or hexadecimal value of a colour, which is used instead of the palette's if it is valid
    """
    requested = NAMED.get(requested.lower(), requested.lower())
    if re.fullmatch("#[0-9a-f]{3}", requested):
        requested = "#" + "".join(2 * digit for digit in requested[1:])
    return visible(requested if re.fullmatch("#[0-9a-f]{6}", requested) else BODIES[index % len(BODIES)])


def darker(color: str, percent: float) -> str:
    """The colour #rrggbb with its brightness divided by percent / 100.

    A percentage below 100 lightens the colour, at most to full brightness.
    """
    parts = [int(color[place : place + 2], 16) for place in (1, 3, 5)]
    scale = min(100.0 / percent, 255.0 / max(1, *parts))
    return _hex([scale * part for part in parts])


def _hex(parts: Sequence[float]) -> str:
    return "#" + "".join(f"{round(part):02x}" for part in parts)

"""The line or two above a plot: title, unit, and a legend of as many curves as there is room for."""

from __future__ import annotations

import html
from collections.abc import Sequence

import pyqtgraph as pg
from pyqtgraph.Qt import QtWidgets

from viewer import theme

LETTER_WIDTH = 7.6  # pixels, of the font above a plot
GAP = "&nbsp;&nbsp;"


class Title(pg.GraphicsWidget):
    """Rich text that asks for no width: a long legend must not widen its plot. `indent` in pixels."""

    def __init__(self, indent: float) -> None:
        super().__init__()
        self.text = ""
        self._item = QtWidgets.QGraphicsTextItem(self)
        self._item.setFont(theme.font(10.0))
        self._item.setPos(indent, 0.0)

    def set_html(self, text: str, lines: int) -> None:
        """Replace the text and make room for its lines."""
        if text != self.text:
            self.text = text
            self._item.setHtml(text)
        self.setFixedHeight(10.0 + 17.0 * lines)


def compose(
    title: str, unit: str, curves: Sequence[tuple[str, str]], dashed: bool, remark: str, width: float
) -> tuple[str, int]:
    """The rich text and its number of lines, for `width` pixels.

    curves  (label, colour), named in order as far as they fit
    dashed  whether references are drawn
    remark  said where there is no curve to name
    """
    head = f"<span style='color:{theme.INK};font-weight:bold'>{html.escape(title)}</span>"
    head += f"{GAP}<span style='color:{theme.MUTED}'>[{html.escape(unit)}]</span>"
    after = len("reference") + 3 if dashed else 0
    length = sum(len(label) + 3 for label, _ in curves) + after + len(remark)
    if length == 0:
        return head, 1
    one_line = LETTER_WIDTH * (len(title) + len(unit) + 5 + length) <= width
    named = len(curves) if one_line else _fitting([label for label, _ in curves], after, width)
    keys = [_key(color, "━", label) for label, color in curves[:named]]
    if named < len(curves):
        keys.append(_muted(f"and {len(curves) - named} more"))
    if dashed:
        keys.append(_key(theme.INK, "╍", "reference"))
    if remark:
        keys.append(_muted(remark))
    return head + (GAP if one_line else "<br>") + " &nbsp;".join(keys), 1 if one_line else 2


def _fitting(labels: Sequence[str], after: int, width: float) -> int:
    """How many labels fit in a line of their own, with `after` letters and a count of the others behind."""
    letters = int(width / LETTER_WIDTH) - after
    if sum(len(label) + 3 for label in labels) <= letters:
        return len(labels)
    letters -= len("and 99 more")
    for count, label in enumerate(labels):
        letters -= len(label) + 3
        if letters < 0:
            return count
    return len(labels)


def _key(color: str, mark: str, label: str) -> str:
    text = f"<span style='color:{theme.INK}'>{html.escape(label)}</span>"
    return f"<span style='color:{color}'>{mark}</span>&nbsp;{text}"


def _muted(text: str) -> str:
    return f"<span style='color:{theme.MUTED}'>{html.escape(text)}</span>"

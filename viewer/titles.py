"""The line or two above a plot: title, unit, and a legend of as many curves as there is room for."""

from __future__ import annotations

import html
from collections.abc import Sequence

import pyqtgraph as pg
from pyqtgraph.Qt import QtWidgets

from viewer import theme

LETTER_WIDTH = 7.6  # pixels, of the font above a plot
Entry = tuple[int, str]  # letters, rich text
LEGEND_LINES = 2  # at most, below the title
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
    keys = [(len(label) + 3, _key(color, "━", label)) for label, color in curves]
    behind = [(len("reference") + 3, _key(theme.INK, "╍", "reference"))] if dashed else []
    behind += [(len(remark), _muted(remark))] if remark else []
    if one_line:
        return head + GAP + _joined([*keys, *behind]), 1
    rows = _rows(keys, behind, int(width / LETTER_WIDTH))
    return "<br>".join([head, *(_joined(row) for row in rows)]), 1 + len(rows)


def _rows(keys: Sequence[Entry], behind: Sequence[Entry], letters: int) -> list[list[Entry]]:
    """The entries in lines of so many letters, in order; keys that find no room are counted instead."""
    for named in range(len(keys), -1, -1):
        more = f"and {len(keys) - named} more"
        counted = [] if named == len(keys) else [(len(more) + 3, _muted(more))]
        rows: list[list[Entry]] = [[]]
        for entry in [*keys[:named], *counted, *behind]:
            if rows[-1] and sum(length for length, _ in rows[-1]) + entry[0] > letters:
                rows.append([])
            rows[-1].append(entry)
        if len(rows) <= LEGEND_LINES:
            return rows
    return [[*counted, *behind]]


def _joined(entries: Sequence[Entry]) -> str:
    return " &nbsp;".join(text for _, text in entries)


def _key(color: str, mark: str, label: str) -> str:
    text = f"<span style='color:{theme.INK}'>{html.escape(label)}</span>"
    return f"<span style='color:{color}'>{mark}</span>&nbsp;{text}"


def _muted(text: str) -> str:
    return f"<span style='color:{theme.MUTED}'>{html.escape(text)}</span>"

"""Titles of plots with unit and legend, and a table of curve names below the plots, for legends that do not fit."""

from __future__ import annotations

import html
from collections.abc import Sequence

import pyqtgraph as pg
from pyqtgraph.Qt import QtWidgets

from viewer.curves import REFERENCE
from viewer.qt import theme

LETTER_WIDTH = 7.6  # pixels, of the font above a plot
Entry = tuple[int, str]  # letters, rich text
Curve = tuple[str, str, str]  # label, colour, mark
MOST_NAMES = 60  # in the table below the plots; the others are counted
LEGEND_LINES = 2  # at most, below the title
GAP = "&nbsp;&nbsp;"
ELLIPSIS = "…"  # in the place of the middle of a text that is too long
SHORTEST = 8  # letters to which a text is shortened at least
MARK = 4  # letters that the mark of a curve and the gap behind its name need


class Title(pg.GraphicsWidget):
    """Rich text above a plot. It has no minimum width, because a long legend must not widen the plot.

    indent  distance from the left edge, pixels
    """

    def __init__(self, indent: float) -> None:
        super().__init__()
        self.text = ""
        self._item = QtWidgets.QGraphicsTextItem(self)
        self._item.setFont(theme.font(10.0))
        self._item.setPos(indent, 0.0)

    def set_html(self, text: str, lines: int, whole: str = "") -> None:
        """Replace the text and set the height for its number of lines.

        whole  text that is shown while the pointer rests on the title; "" for none
        """
        if text != self.text:
            self.text = text
            self._item.setHtml(text)
        self._item.setToolTip(whole)
        self.setFixedHeight(10.0 + 17.0 * lines)


def compose(
    title: str, unit: str, curves: Sequence[Curve], dashed: bool, remark: str, width: float, below: bool = True
) -> tuple[str, int, bool]:
    """(rich text of a title for `width` pixels, number of lines, whether the text names all curves).

    curves  curves to name, in this order; if the names do not fit, the title has only the number of curves. A name or
            title that is longer than a line is shortened in its middle
    dashed  whether the plot also has reference curves, which are drawn dashed; they get one legend entry, "reference"
    remark  text that is shown if there is no curve to name
    below   whether curves that the title does not name are named below the plots
    """
    letters = int(width / LETTER_WIDTH)
    title = shortened(title, letters)
    head = f"<span style='color:{theme.INK};font-weight:bold'>{html.escape(title)}</span>"
    unit_text = _muted(f"[{unit}]")
    if is_narrow := LETTER_WIDTH * (len(title) + len(unit) + 5) > width:  # the unit gets a line of its own
        head += f"<br>{unit_text}"
    else:
        head += GAP + unit_text
    first = 2 if is_narrow else 1  # lines of the title and its unit
    behind = [(len("reference") + 3, _key(theme.INK, "┉", "reference"))] if dashed else []
    behind += [(len(remark), _muted(remark))] if remark else []
    named = [(shortened(label, letters - MARK), color, mark) for label, color, mark in curves]
    keys = [(len(label) + MARK, _key(color, mark, label)) for label, color, mark in named]
    length = sum(entry[0] for entry in (*keys, *behind))
    if length == 0:
        return head, first, True
    if LETTER_WIDTH * (len(title) + len(unit) + 5 + length) <= width:
        return head + GAP + _joined([*keys, *behind]), 1, True
    rows = _rows([*keys, *behind], letters)
    if len(rows) > LEGEND_LINES:
        counted = f"{len(curves)} curves, named below"
        if not below or LETTER_WIDTH * (len(counted) + 3) > width:
            counted = f"{len(curves)} curves"
        entries = [(len(counted) + 3, _muted(counted)), *behind]
        if LETTER_WIDTH * (len(title) + len(unit) + 5 + sum(entry[0] for entry in entries)) <= width:
            return head + GAP + _joined(entries), 1, False
        rows = _rows(entries, letters)
        return "<br>".join([head, *(_joined(row) for row in rows)]), first + len(rows), False
    return "<br>".join([head, *(_joined(row) for row in rows)]), first + len(rows), True


def table(curves: Sequence[Curve], width: float) -> str:
    """Rich-text table of curve names for `width` pixels, ordered down each column; "" if there are no curves.

    A name that is longer than a line is shortened in its middle. References of one style have a single entry.
    """
    if not curves:
        return ""
    references = [each for each in curves if each[0].endswith(REFERENCE)]
    if len(references) > 1 and len({(color, mark) for _, color, mark in references}) == 1:
        curves = [*(each for each in curves if each not in references), ("references", *references[0][1:])]
    if (more := len(curves) - MOST_NAMES) > 1:  # no colours can be told apart
        curves = [*curves[:MOST_NAMES], (f"and {more} more", theme.INK, "")]
    curves = [(shortened(label, int(width / LETTER_WIDTH) - MARK), color, mark) for label, color, mark in curves]
    widest = LETTER_WIDTH * (max(len(label) for label, *_ in curves) + 5)
    columns = max(1, min(len(curves), int(width / widest)))
    height = -(-len(curves) // columns)
    rows = [[_key(color, mark, label) for label, color, mark in curves[row::height]] for row in range(height)]
    cells = ["".join(f"<td style='padding-right:12px'>{entry}</td>" for entry in row) for row in rows]
    return "<table cellspacing='0'>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def shortened(text: str, letters: int) -> str:
    """The text, with an ellipsis in place of its middle if it has more than max(letters, SHORTEST) letters.

    The end keeps more letters than the start, because names that begin with the same path differ there.
    """
    letters = max(letters, SHORTEST)
    if len(text) <= letters:
        return text
    start = (letters - 1) // 3
    return text[:start] + ELLIPSIS + text[len(text) - (letters - 1 - start) :]


def _rows(entries: Sequence[Entry], letters: int) -> list[list[Entry]]:
    """The legend entries, distributed in order over lines of at most `letters` letters each."""
    rows: list[list[Entry]] = [[]]
    for entry in entries:
        if rows[-1] and sum(length for length, _ in rows[-1]) + entry[0] > letters:
            rows.append([])
        rows[-1].append(entry)
    return rows


def _joined(entries: Sequence[Entry]) -> str:
    return " &nbsp;".join(text for _, text in entries)


def _key(color: str, mark: str, label: str) -> str:
    text = f"<span style='color:{theme.INK}'>{html.escape(label)}</span>"
    return f"<span style='color:{color}'>{mark}</span>&nbsp;{text}"


def _muted(text: str) -> str:
    return f"<span style='color:{theme.MUTED}'>{html.escape(text)}</span>"

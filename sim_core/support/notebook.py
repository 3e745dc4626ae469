"""HTML of objects that a notebook displays (`_repr_html_`): a title, one line of short facts, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 30  # rows shown; further ones are counted

_CELL = "padding:0.15em 0.9em 0.15em 0;text-align:left;vertical-align:top"
_NUMBER = "padding:0.15em 0.9em 0.15em 0;text-align:right;font-variant-numeric:tabular-nums"
_HEAD = "font-weight:600;border-bottom:1px solid rgba(128,128,128,0.5)"


def page(title: str, facts: Sequence[str], headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """HTML of an object: title, facts and a table, in the colours of the notebook.

    Texts are escaped, and floats have 4 significant digits.
    title     kind and name of the object, in bold
    facts     short texts in one line below the title; empty texts are left out
    headings  column headings of the table
    rows      cells of the table: numbers are aligned to the right, None is an empty cell; without rows there is no
              table
    """
    found = list(rows)
    line = " · ".join(escape(fact) for fact in facts if fact)
    parts = [f'<div style="line-height:1.4"><strong>{escape(title)}</strong>']
    if line:
        parts.append(f'<div style="opacity:0.8">{line}</div>')
    if found:
        parts.append(_table(headings, found[:MOST_ROWS]))
    if len(found) > MOST_ROWS:
        parts.append(f'<div style="opacity:0.8">and {len(found) - MOST_ROWS} more</div>')
    return "\n".join([*parts, "</div>"])


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    is_number = [
        all(isinstance(row[place], int | float | None) for row in rows) and any(row[place] is not None for row in rows)
        for place in range(len(headings))
    ]
    styles = [_NUMBER if number else _CELL for number in is_number]
    head = "".join(f'<th style="{s};{_HEAD}">{escape(h)}</th>' for s, h in zip(styles, headings, strict=True))
    lines = [
        "".join(f'<td style="{style}">{escape(_text(cell))}</td>' for style, cell in zip(styles, row, strict=True))
        for row in rows
    ]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border-collapse:collapse;margin-top:0.4em"><tr>{head}</tr>\n{body}</table>'


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Count and noun, such as "1 body" or "3 joints"; "" for a count of 0."""
    if not count:
        return ""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"

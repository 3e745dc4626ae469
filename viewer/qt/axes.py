"""Axes with plain numbers: no prefixes, round distances, powers of ten on logarithmic ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyqtgraph as pg

from viewer.qt import theme
from viewer.scene.scene import nice_step


class PlainAxis(pg.AxisItem):
    """An axis in the units its label says, in quiet colours."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.setPen(theme.FAINT)
        self.setTextPen(theme.MUTED)
        self.setTickFont(theme.font(8.5))
        self.setTickDensity(0.6)  # numbers, where nobody says how far they are apart

    def name(self, text: str) -> None:
        """Put a label with its unit on the axis."""
        self.setLabel(text, color=theme.MUTED)

    def updateAutoSIPrefix(self) -> None:
        """pyqtgraph asks for this at each new range: the scale of the numbers, which would make millimetres of
        our metres. It leaves it to us to have the axis drawn anew."""
        self.autoSIPrefixScale = 1.0
        self.picture = None
        self.update()

    def space(self, span: float, least: int) -> None:
        """Numbers at round distances, at least `least` of them over `span`, and four finer lines between two."""
        step = nice_step(span / least)
        self.setTickSpacing(step, step / 5.0)


class PowerAxis(PlainAxis):
    """An axis of exponents that writes every decade as a power of ten."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.setLogMode(True)

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float | None, list[float]]]:
        """pyqtgraph asks for this: whole decades, and where they are few their parts 2 .. 9 between."""
        first, last = math.ceil(minVal), math.floor(maxVal)
        every = max(1, math.ceil((last - first) / 6))
        decades = [float(exponent) for exponent in range(first, last + 1, every)]
        if every > 1:
            return [(float(every), decades)]
        parts = [decade + math.log10(part) for decade in range(first - 1, last + 1) for part in range(2, 10)]
        return [(1.0, decades), (None, [part for part in parts if minVal <= part <= maxVal])]

    def logTickStrings(self, values: Sequence[float], scale: float, spacing: float | None) -> list[str]:
        """pyqtgraph asks for this: the text at each decade, nothing between (spacing None)."""
        return [_power(value) if spacing is not None else "" for value in values]


def _power(exponent: float) -> str:
    return "10" + f"{round(exponent)}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))

"""Plot axes with plain numbers: without SI prefixes, with round tick spacings, and with powers of ten on log axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyqtgraph as pg

from viewer.qt import theme
from viewer.scene.scene import nice_step


class PlainAxis(pg.AxisItem):
    """An axis whose numbers are always in the unit of its label, without an SI prefix. Its colours are muted."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.restyle()
        self.setTickFont(theme.font(8.5))
        self.setTickDensity(0.6)  # density of numbers while no spacing is set

    def restyle(self) -> None:
        """Use the colours of the present theme."""
        self.setPen(theme.FAINT)
        self.setTextPen(theme.MUTED)

    def name(self, text: str) -> None:
        """Set the axis label, which includes the unit."""
        self.setLabel(text, color=theme.MUTED)

    def updateAutoSIPrefix(self) -> None:
        """Override of pyqtgraph, called when the range of the axis changes.

        Keeps the scale at 1, so that no SI prefix is used, and redraws the axis, as the base class does.
        """
        self.autoSIPrefixScale = 1.0
        self.picture = None
        self.update()

    def space(self, span: float, least: int) -> None:
        """Place numbers at round intervals on the axis.

        span   length of the axis range
        least  smallest number of intervals in this range; each interval is divided by four ticks without numbers
        """
        step = nice_step(span / least)
        self.setTickSpacing(step, step / 5.0)


class PowerAxis(PlainAxis):
    """An axis for decimal exponents, labelled with powers of ten."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.setLogMode(True)

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float | None, list[float]]]:
        """Override of pyqtgraph: ticks at powers of ten and, if every power of ten has a tick, at 2 to 9 times each
        power of ten."""
        first, last = math.ceil(minVal), math.floor(maxVal)
        every = max(1, math.ceil((last - first) / 6))
        decades = [float(exponent) for exponent in range(first, last + 1, every)]
        if every > 1:
            return [(float(every), decades)]
        parts = [decade + math.log10(part) for decade in range(first - 1, last + 1) for part in range(2, 10)]
        return [(1.0, decades), (None, [part for part in parts if minVal <= part <= maxVal])]

    def logTickStrings(self, values: Sequence[float], scale: float, spacing: float | None) -> list[str]:
        """Override of pyqtgraph: labels of ticks at powers of ten; "" for other ticks, for which `spacing` is None."""
        return [_power(value) if spacing is not None else "" for value in values]


def _power(exponent: float) -> str:
    return "10" + f"{round(exponent)}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))

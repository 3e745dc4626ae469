"""Plot axes with plain numbers: no SI prefixes, round tick distances, powers of ten on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyqtgraph as pg

from viewer.qt import theme
from viewer.scene.scene import nice_step


class PlainAxis(pg.AxisItem):
    """An axis in muted colours whose numbers are always in the unit of its label, without an SI prefix."""

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
        """pyqtgraph override, called at each new range: keeps the scale at 1, so that metres never become millimetres.

        The axis has to be redrawn here, because the base class does so in the method overridden.
        """
        self.autoSIPrefixScale = 1.0
        self.picture = None
        self.update()

    def space(self, span: float, least: int) -> None:
        """Place numbers at round distances: at least `least` of them over a range `span`, with four finer lines between
        two."""
        step = nice_step(span / least)
        self.setTickSpacing(step, step / 5.0)


class PowerAxis(PlainAxis):
    """An axis of decimal exponents that labels each decade as a power of ten."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.setLogMode(True)

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float | None, list[float]]]:
        """pyqtgraph override: ticks at whole decades and, where there are few decades, at 2 .. 9 times each of them."""
        first, last = math.ceil(minVal), math.floor(maxVal)
        every = max(1, math.ceil((last - first) / 6))
        decades = [float(exponent) for exponent in range(first, last + 1, every)]
        if every > 1:
            return [(float(every), decades)]
        parts = [decade + math.log10(part) for decade in range(first - 1, last + 1) for part in range(2, 10)]
        return [(1.0, decades), (None, [part for part in parts if minVal <= part <= maxVal])]

    def logTickStrings(self, values: Sequence[float], scale: float, spacing: float | None) -> list[str]:
        """pyqtgraph override: the text at each decade; none for the ticks between (spacing None)."""
        return [_power(value) if spacing is not None else "" for value in values]


def _power(exponent: float) -> str:
    return "10" + f"{round(exponent)}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))

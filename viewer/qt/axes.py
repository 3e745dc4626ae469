"""Plot axes with plain numbers: without SI prefixes, with round tick spacings, and with powers of ten on log axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import pyqtgraph as pg

from viewer.qt import theme
from viewer.scene.scene import nice_step

NAMED_PARTS_BELOW = 2.0  # decades on a log axis below which parts of a decade have labels
LABEL_PIXELS = 13  # pixels between the labels of a value axis, at least


class PlainAxis(pg.AxisItem):
    """An axis whose numbers are always in the unit of its label, without an SI prefix. Its colours are muted."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.restyle()
        self.setTickFont(theme.font(8.5))
        self.setTickDensity(0.6)  # density of numbers while no spacing is set

    def restyle(self) -> None:
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
    """An axis for decimal exponents, labelled with powers of ten.

    If less than two decades are in view, parts of a decade have labels too, such as 2·10⁻⁹.
    """

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.setLogMode(True)

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float | None, list[float]]]:
        """Override of pyqtgraph: positions of the ticks with labels, and then of the ticks without labels.

        The ticks with labels are at powers of ten. If less than two decades are in view, they are also at multiples of
        powers of ten. Ticks without labels are at 2 to 9 times each power of ten.
        """
        first, last = math.ceil(minVal), math.floor(maxVal)
        every = max(1, math.ceil((last - first) / 6))
        decades = [float(exponent) for exponent in range(first, last + 1, every)]
        if every > 1:
            return [(float(every), decades)]
        named = decades if maxVal - minVal >= NAMED_PARTS_BELOW else _named_parts(minVal, maxVal, size)
        others = [place for place in _places(range(1, 10), minVal, maxVal) if place not in named]
        return [(1.0, named), (None, others)]

    def logTickStrings(self, values: Sequence[float], scale: float, spacing: float | None) -> list[str]:
        """Override of pyqtgraph: labels of ticks; "" for ticks without labels, for which `spacing` is None."""
        return [""] * len(values) if spacing is None else _labels(values)


def _places(parts: Iterable[int], low: float, high: float) -> list[float]:
    """Decimal exponents from `low` to `high` of the products of `parts` and powers of ten, in increasing order."""
    exponents = range(math.floor(low), math.floor(high) + 1)
    found = (exponent + math.log10(part) for exponent in exponents for part in parts)
    return [place for place in found if low <= place <= high]


def _named_parts(low: float, high: float, size: float) -> list[float]:
    """Decimal exponents at which an axis of less than two decades has labels that do not overlap.

    The labels are at 1, 2 and 5 times the powers of ten, or at as many of these as there is room for. An axis that has
    fewer than two of them has labels at multiples of a round number.

    low, high  ends of the axis, decimal exponents
    size       length of the axis, pixels
    """
    whole = math.floor(low)  # numbers are multiples of this power of ten, so that none is too large for a float
    thirds = _places((1, 2, 5), low, high)
    if len(thirds) < 2:
        least, most = 10.0 ** (low - whole), 10.0 ** (high - whole)
        step = nice_step((most - least) / 2.0)
        multiples = range(math.ceil(least / step), math.floor(most / step) + 1)
        return [whole + math.log10(multiple * step) for multiple in multiples]
    for places in (thirds, _places((1, 3), low, high), _places((1,), low, high)):
        gaps = [after - before for before, after in itertools.pairwise(places)]
        if gaps and min(gaps) * size >= LABEL_PIXELS * (high - low):
            return places
    return [thirds[0], thirds[-1]]


def _labels(exponents: Sequence[float]) -> list[str]:
    """Labels of decimal exponents, such as "10⁻⁹" and "2·10⁻⁹", with as many decimals as tell them apart."""
    least = math.floor(min(exponents, default=0.0))
    numbers = sorted(10.0 ** (exponent - least) for exponent in exponents)
    apart = min((after - before for before, after in itertools.pairwise(numbers)), default=1.0)
    found = []
    for exponent in exponents:
        whole = math.floor(exponent + 1e-9)
        part = 10.0 ** (exponent - whole)
        power = "10" + f"{whole}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        decimals = max(0, math.ceil(whole - least - math.log10(apart) - 1e-9))
        text = f"{part:.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if decimals else text
        found.append(power if text == "1" else f"{text}·{power}")
    return found

"""Picture of a run without Qt: matplotlib draws the same scene and the same plots."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colors
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Polygon
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from nodes.framework.recording.new_file import NotWrittenError, new_file
from viewer import palette
from viewer.curves import Styled, styled
from viewer.data.live import gathered
from viewer.data.series import Floats, decimated
from viewer.data.signals import Signals
from viewer.layout import SMALLEST, PlotSpec
from viewer.panels import choose_fields, default_plots
from viewer.recorded import read_signals
from viewer.request import Request
from viewer.scene.bodies import Outline
from viewer.scene.projection import check_plane
from viewer.scene.scene import Frame, Key, Scene, floor, limits, plane_letters, shortened, view_text

WIDTH, HEIGHT, DPI = 1600, 1000, 100  # pixels, and pixels per inch
POINT = 72.0 / DPI  # points per pixel
MARGIN, HEADER, CAPTION, KEY_ROW = 18, 62, 24, 20  # pixels
AXIS_LEFT, AXIS_TOP, AXIS_BOTTOM = 66, 46, 24  # pixels around a plot for its numbers, its title and legend, its numbers
TIME = 20  # height of the time axis's name, pixels
LETTER = 7.0  # width of a letter in a legend, pixels
MOST_KEYS = 30  # entries of a legend; the others are counted
KEY_MARK = 32  # width of a legend's mark and of the gap to the next entry, pixels
WIDE_COLUMNS = 4
MOST_CHANGES = 60  # most vertical lines in a plot
POINTS = 2400  # points drawn per curve
RING = 2.0
REFERENCE = "╍"  # mark of references in a legend
ABOVE_ALL = 1_000_000  # drawing order of the world axes
FONT = "DejaVu Sans"  # comes with matplotlib
Box = tuple[float, float, float, float]  # left, bottom, width and height, pixels


def write_picture(request: Request, png: str, reason: str) -> int:
    """Write the picture of one run to the file `png`, and return the exit code: 1 if there is no state to show.

    reason  why Qt does not draw it
    """
    check_plane(request.plane)
    if request.file is None:
        choose_fields(request.fields)
        signals, subtitle, waiting = gathered(request.domain, lambda: False)
    else:
        signals, subtitle, waiting = read_signals(request.file, request.fields, request.run_number)
    print(f"armswing: {png} is drawn by matplotlib, without Qt: {reason}", file=sys.stderr)
    try:
        _save(png, signals, subtitle, waiting, request.fields, request.plane)
    except OSError as error:
        print(f"armswing: {error}", file=sys.stderr)
        return 1
    if signals.states == 0:
        print(f"armswing: {png} shows no motion: {waiting}", file=sys.stderr)
        return 1
    return 0


def _save(path: str, signals: Signals, subtitle: str, waiting: str, fields: Sequence[str], plane: str) -> None:
    """Write a picture (PNG) with the last pose, earlier poses, and plots; or with the text `waiting`.

    Raises OSError if the file cannot be written.
    """
    specs, left_out = default_plots(choose_fields(fields, signals), signals, keep_empty=bool(fields))
    figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor=palette.PAPER)
    FigureCanvasAgg(figure)
    page = _Page(figure, signals)
    page.text(MARGIN, HEIGHT - 14, signals.robot.replace("_", " ") or "armswing", size=14, weight="bold")
    page.text(MARGIN, HEIGHT - 42, subtitle, size=8.6, color=palette.MUTED)
    page.text(WIDTH - MARGIN, HEIGHT - 14, f"t = {signals.time:.2f} s", size=14, weight="bold", align="right")
    scene = Scene(plane)
    cloud = scene.survey(signals)
    whole = (MARGIN, MARGIN, WIDTH - 2.0 * MARGIN, HEIGHT - HEADER - 2.0 * MARGIN)
    left, bottom, width, height = whole
    if signals.states == 0:
        page.text(WIDTH / 2, HEIGHT / 2, waiting, size=14, color=palette.MUTED, align="center")
    elif cloud is None:
        page.draw_plots(whole, specs, left_out, wide=True)
    elif scene.wide:
        high = scene.share * height
        page.draw_bodies((left, bottom + height - high, width, high), scene, cloud)
        page.draw_plots((left, bottom, width, height - high), specs, left_out, wide=True)
    else:
        broad = scene.share * width
        page.draw_bodies((left, bottom, broad, height), scene, cloud)
        page.draw_plots((left + broad, bottom, width - broad, height), specs, left_out, wide=False)
    try:
        with new_file(path) as part:
            figure.savefig(part, format="png")
    except NotWrittenError as error:
        raise OSError(f"cannot write the picture {path}: {error.strerror}") from error


class _Page:
    """A matplotlib figure that is laid out in pixels, measured from its lower left corner."""

    def __init__(self, figure: Figure, signals: Signals) -> None:
        self._figure = figure
        self._signals = signals

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        color: str | None = None,
        weight: str = "normal",
        align: str = "left",
    ) -> None:
        """Write a line of text.

        y  position of the upper edge of the text, pixels
        """
        color = palette.INK if color is None else color
        self._figure.text(
            x / WIDTH, y / HEIGHT, text, size=size, color=color, weight=weight, ha=align, va="top", family=FONT
        )

    def axes(self, box: Box) -> Any:
        left, bottom, width, height = box
        axes = self._figure.add_axes((left / WIDTH, bottom / HEIGHT, width / WIDTH, height / HEIGHT))
        axes.set_axisbelow(True)
        for side in axes.spines.values():
            side.set_color(palette.FAINT)
        axes.tick_params(labelsize=7.5, colors=palette.MUTED, color=palette.FAINT, length=3)
        return axes

    def draw_bodies(self, box: Box, scene: Scene, cloud: Floats) -> None:
        """Draw the bodies, with a legend above and a caption below."""
        left, bottom, width, height = box
        view, skeleton, signals = scene.view, scene.skeleton, self._signals
        frame = scene.frame(signals, min(signals.time, signals.sane_until), -math.inf, ghosts=True)
        if view is None or skeleton is None or frame is None:
            return
        ground = None if view.planar else floor(view, skeleton.gravity, cloud, scene.is_covered(cloud))
        held = view.project(cloud)[:, :2]
        frame_box = limits(held if ground is None else np.concatenate([held, ground.triad.reshape(-1, 2)]))
        keys = shortened(scene.keys(signals, lambda spots: _any_inside(spots, frame_box)))
        rows = self._legend(left, bottom + height, width, keys)
        numbers = (AXIS_LEFT, AXIS_BOTTOM + 12.0) if view.planar else (0.0, 0.0)
        high = height - rows * KEY_ROW - CAPTION - 8.0 - numbers[1]
        axes = self.axes((left + numbers[0], bottom + CAPTION + numbers[1], width - numbers[0] - 12.0, high))
        broad = width - numbers[0] - 12.0
        scale = max(frame_box[2] / broad, frame_box[3] / high)  # metres per pixel, equal along both axes
        middle_x, middle_y = frame_box[0] + 0.5 * frame_box[2], frame_box[1] + 0.5 * frame_box[3]
        axes.set_xlim(middle_x - 0.5 * scale * broad, middle_x + 0.5 * scale * broad)
        axes.set_ylim(middle_y - 0.5 * scale * high, middle_y + 0.5 * scale * high)
        if ground is None:
            right, up = plane_letters(view)
            axes.set_xlabel(f"{right} [m]", size=8, color=palette.MUTED)
            axes.set_ylabel(f"{up} [m]", size=8, color=palette.MUTED)
            axes.grid(color=palette.FAINT, linewidth=0.6)
        else:
            axes.set_axis_off()
            for segment in ground.grid:
                _draw_line(axes, segment, palette.FAINT, 1.0, order=0)
            for ends, letter, color in zip(ground.triad, "xyz", palette.axis_colors(), strict=True):
                _draw_line(axes, ends[:2], color, 1.2, order=ABOVE_ALL)
                axes.text(
                    *ends[2], letter, color=color, size=8, weight="bold", ha="center", va="center", zorder=ABOVE_ALL
                )
        _draw_frame(axes, frame)
        caption = f"{view_text(view, 0.0 if ground is None else ground.step)}; faint poses are earlier ones"
        self.text(left, bottom + 14, caption, size=7.5, color=palette.MUTED)

    def draw_plots(self, box: Box, specs: Sequence[PlotSpec], left_out: str, wide: bool) -> None:
        """Draw the plots in two columns (or four if `wide`), and below them a legend of the curves that no title
        names."""
        if not specs:
            return
        left, bottom, width, height = box
        columns = max(1, min(WIDE_COLUMNS if wide and len(specs) > WIDE_COLUMNS else 2, len(specs)))
        column_width = width / columns
        curves = [styled(spec.curves, self._signals.description) for spec in specs]
        unnamed = [each for each in curves if _rows(_keys(each), column_width - AXIS_LEFT) > 1]
        below = list(dict.fromkeys(key for each in unnamed for key in _keys(each) if key[0] != REFERENCE))
        changes = [("┃", kind, color) for kind, color in palette.change_colors(self._signals.changes).items()]
        footer = KEY_ROW * (_rows(below, width) + _rows(changes, width)) + (CAPTION if left_out else 0.0) + TIME
        if left_out:
            self.text(left + AXIS_LEFT, bottom + 14, left_out, size=7.5, color=palette.MUTED)
        top = bottom + footer - TIME
        top -= KEY_ROW * self._legend(left + AXIS_LEFT, top, width - AXIS_LEFT, below)
        self._legend(left + AXIS_LEFT, top, width - AXIS_LEFT, changes)
        rows = math.ceil(len(specs) / columns)
        row_height = (height - footer) / rows
        for place, (spec, each) in enumerate(zip(specs, curves, strict=True)):
            row, column = divmod(place, columns)
            span = columns - column if place == len(specs) - 1 else 1  # the last one has the rest of its row
            corner = (left + column * column_width + AXIS_LEFT, bottom + height - (row + 1) * row_height + AXIS_BOTTOM)
            size = (span * column_width - AXIS_LEFT - 12.0, row_height - AXIS_TOP - AXIS_BOTTOM)
            self._draw_plot((*corner, *size), spec, each, each in unnamed)
            if row == rows - 1:
                self.text(corner[0] + 0.5 * size[0], corner[1] - 22, "time [s]", 7.5, palette.MUTED, align="center")

    def _draw_plot(self, box: Box, spec: PlotSpec, curves: Sequence[Styled], is_unnamed: bool) -> None:
        signals = self._signals
        left, bottom, width, height = box
        axes = self.axes(box)
        axes.grid(color=palette.FAINT, linewidth=0.6)
        self.text(left, bottom + height + 40, f"{spec.title}  [{spec.unit}]", size=8.6, weight="bold")
        drawn = [self._draw_curve(axes, spec, each) for each in curves]
        keys = _keys(curves)
        if is_unnamed:
            references = [key for key in keys if key[0] == REFERENCE]
            keys = [("━", f"{len(keys) - len(references)} curves, named below", palette.MUTED), *references]
        self._legend(left, bottom + height + 24, width, keys)
        self._set_limits(axes, spec, [span for span in drawn if span is not None])
        colors = palette.change_colors(signals.changes)
        for time, kind in signals.changes if len(signals.changes) <= MOST_CHANGES else []:
            axes.axvline(time, color=colors[kind], alpha=0.45, linewidth=POINT, zorder=0)
        for start, end in signals.holes[:MOST_CHANGES]:
            axes.axvspan(start, end, color=palette.ALARM, alpha=0.12, linewidth=0)
        if signals.diverged_at is not None:
            axes.axvline(signals.diverged_at, color=palette.ALARM, linestyle="--", linewidth=1.5 * POINT)

    def _draw_curve(self, axes: Any, spec: PlotSpec, each: Styled) -> tuple[float, float] | None:
        """Draw one curve, and return (lowest value, highest value) that the value axis must show.

        Returns None for a curve without finite values, and for a reference.
        """
        column = self._signals.store.column(each.curve.topic, each.curve.field)
        if column is None:
            return None
        x, y = decimated(*column, POINTS)
        if spec.log:
            positive = y[y > 0.0]
            y = np.maximum(y, max(float(positive.min()), SMALLEST) if len(positive) else SMALLEST)
        if each.is_reference:
            axes.plot(x, y, color=palette.INK, linewidth=1.2 * POINT, linestyle=(0, (1.5, 6)), zorder=3)
            return None
        pattern = palette.curve_dash(each.place)[1]
        style: Any = (0, pattern) if pattern else "-"
        axes.plot(x, y, color=palette.curve_color(each.place), linewidth=1.6 * POINT, linestyle=style, zorder=2)
        counted = y[np.isfinite(y) & (x <= self._signals.sane_until)]
        if len(counted) == 0:
            return None
        return float(np.quantile(counted, 0.005)) if spec.log else float(counted.min()), float(counted.max())

    def _set_limits(self, axes: Any, spec: PlotSpec, spans: Sequence[tuple[float, float]]) -> None:
        times = self._signals.times
        if len(times) and times[-1] > times[0]:
            margin = 0.03 * (times[-1] - times[0])
            axes.set_xlim(times[0] - margin, times[-1] + margin)
        low, high = min((s[0] for s in spans), default=0.0), max((s[1] for s in spans), default=1.0)
        if spec.words:
            axes.set_yticks(range(len(spec.words)), spec.words)
            axes.set_ylim(-0.2, len(spec.words) - 0.8)
        elif not spans:
            axes.set_yticks([])
        elif spec.log:
            ratio = max(high / low, 10.0**1.2) ** 0.57 if low > 0.0 else 10.0
            axes.set_yscale("log")
            axes.set_ylim(math.sqrt(low * high) / ratio, math.sqrt(low * high) * ratio)
            axes.yaxis.set_major_locator(LogLocator(numticks=7))
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            largest = max(abs(low), abs(high))
            half = 0.57 * max(high - low, 0.01 * largest if largest > 1e-12 else 2.0)
            axes.set_ylim(0.5 * (low + high) - half, 0.5 * (low + high) + half)
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.ticklabel_format(useOffset=False)

    def _legend(self, left: float, top: float, width: float, keys: Sequence[Key]) -> int:
        """Draw the legend entries, marks and names, in rows below `top`, and return the number of rows."""
        x, y = left, top
        for mark, name, color in _first(keys):
            taken = KEY_MARK + LETTER * len(name)
            if x > left and x + taken > left + width:
                x, y = left, y - KEY_ROW
            self.text(x, y - 2, mark, size=8.0, color=color)
            self.text(x + 22, y - 2, name, size=8.0)
            x += taken
        return _rows(keys, width)


def _keys(curves: Sequence[Styled]) -> list[Key]:
    """Legend entries of the curves of a plot, with one for all references; none for a number without parts."""
    if len(curves) == 1 and "." not in curves[0].curve.field:
        return []
    own = [
        (palette.curve_dash(each.place)[0], each.name, palette.curve_color(each.place))
        for each in curves
        if not each.is_reference
    ]
    return [*own, (REFERENCE, "reference", palette.INK)] if len(own) < len(curves) else own


def _first(keys: Sequence[Key]) -> list[Key]:
    """The entries that a legend shows, and the number of the others."""
    more = len(keys) - MOST_KEYS
    return [*keys[:MOST_KEYS], ("", f"and {more} more", palette.INK)] if more > 1 else list(keys)


def _rows(keys: Sequence[Key], width: float) -> int:
    """Number of rows that the entries of a legend fill."""
    x, rows = 0.0, 1 if keys else 0
    for _, name, _ in _first(keys):
        taken = KEY_MARK + LETTER * len(name)
        if x > 0.0 and x + taken > width:
            x, rows = 0.0, rows + 1
        x += taken
    return rows


def _any_inside(spots: Floats, box: Box) -> bool:
    low, size = np.array(box[:2]), np.array(box[2:])
    return bool(((spots >= low) & (spots <= low + size)).all(axis=1).any())


def _draw_frame(axes: Any, frame: Frame) -> None:
    order = 2
    for layers, paths in ((frame.behind, ()), (frame.bodies, frame.paths), (frame.over, ())):
        for points, color, opacity in paths:
            _draw_line(axes, points, color, 1.0, order, alpha=opacity)
        for outlines, opacity in layers:
            for outline in outlines:
                order += 1
                draw_outline(axes, outline, opacity, order)
    for label in frame.labels:
        along = (label.tip - label.start) / max(float(np.linalg.norm(label.tip - label.start)), 1e-12)
        axes.annotate(
            label.text,
            tuple(label.tip),
            xytext=tuple(14.0 * along),
            textcoords="offset points",
            color=label.color,
            size=8,
            weight="bold",
            ha="right" if along[0] < -0.3 else "left" if along[0] > 0.3 else "center",
            va="center",
            zorder=order + 1,
            annotation_clip=False,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": palette.PAPER, "edgecolor": "none", "alpha": 0.7},
        )


def draw_outline(axes: Any, outline: Outline, opacity: float, order: int) -> None:
    """Add an outline to matplotlib axes in m; outlines with a larger `order` are drawn over the others."""
    color = palette.darker(palette.solid_color(outline.body, outline.color), 100.0 / outline.shade)
    edge = colors.to_rgba(palette.darker(color, 150.0), opacity)
    face = colors.to_rgba(color, opacity)
    if outline.radius > 0.0:
        inside: Any = face
        if outline.hollow:
            inside, edge = (palette.PAPER if opacity > 0.9 else "none"), face
        width = (RING if outline.hollow else 1.2) * POINT
        axes.add_patch(Circle(tuple(outline.corners[0]), outline.radius, fc=inside, ec=edge, lw=width, zorder=order))
    elif outline.closed:
        line, width = (edge, 1.2) if outline.edged else (face, 0.4)  # a mesh's triangles would else have gaps
        axes.add_patch(Polygon(outline.corners, closed=True, fc=face, ec=line, lw=width * POINT, zorder=order))
    elif outline.fine:
        _draw_line(axes, outline.corners, edge, 1.2, order)
    else:
        bold, thin = (outline.width, 0.45 * outline.width) if outline.width else (4.0, 2.5)
        style: Any = (0, (3, 2)) if outline.dashed else "-"
        _draw_line(axes, outline.corners, face, bold if opacity > 0.9 else thin, order, style=style)


def _draw_line(
    axes: Any, points: Floats, color: Any, width: float, order: int, style: Any = "-", alpha: float | None = None
) -> None:
    axes.add_line(
        Line2D(
            points[:, 0],
            points[:, 1],
            color=color,
            linewidth=width * POINT,
            linestyle=style,
            alpha=alpha,
            solid_capstyle="round",
            solid_joinstyle="round",
            zorder=order,
        )
    )

"""One page of a recording, with everything in one file: scene, plots and time, without a server or the network."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.framework.recording.new_file import NotWrittenError, new_file
from viewer import palette
from viewer.curves import styled, titled
from viewer.data.series import Drawn, Floats, Track, sampled
from viewer.data.signals import Signals
from viewer.layout import SMALLEST
from viewer.panels import choose_fields, default_plots
from viewer.recorded import read_signals
from viewer.request import Request
from viewer.scene.overlay import COIL_WIDTH
from viewer.scene.projection import check_plane
from viewer.scene.scene import floor_lines, nice_step, vertical_axis
from viewer.scene.space import HALF_FOV, LEAST_PATH, Instant, Space, ball

FRAMES_PER_S = 30.0
MOST_FRAMES = 3000
BINS = 1000  # intervals of a plot's time axis, of each of which the smallest and the largest value are drawn
TRAIL_S = 3.0
MOST_EVENTS = 500
ASPECT = 1.3


def write_page(request: Request, path: str, colors: str | None = None) -> None:
    """Write one page of a recording to the file `path`.

    colors  theme, "light" or "dark"; None for light

    Raises ValueError for a bad recording, field or plane, and OSError if the file cannot be written.
    """
    assert request.file is not None
    palette.use(colors or palette.DEFAULT)
    check_plane(request.plane)
    signals, subtitle, waiting = read_signals(request.file, request.fields, request.run_number)
    if not signals.states:
        raise ValueError(waiting)
    text = page(signals, subtitle, request)
    try:
        with new_file(path) as part:
            Path(part).write_text(text, encoding="utf-8")
    except NotWrittenError as error:
        raise OSError(f"cannot write the page {path}: {error.strerror}") from error


def page(signals: Signals, subtitle: str, request: Request) -> str:
    """The page as HTML."""
    numbers = _Numbers()
    data: dict[str, Any] = {"robot": signals.robot.replace("_", " "), "subtitle": subtitle}
    data["events"] = [[each.time, each.kind, each.detail] for each in signals.store.events[:MOST_EVENTS]]
    names = ("ink", "muted", "faint", "paper", "alarm", "measured")
    data["palette"] = {name: getattr(palette, name.upper()) for name in names} | {"spring": palette.SPRING}
    every_s = _add_scene(data, numbers, signals, request.plane)
    data["plots"] = _plots(numbers, signals, request.fields)
    rate = f"one pose every {every_s:.3g} s" if every_s else "every recorded pose"
    data["note"] = (
        f"{rate}; curves have the smallest and the largest value of each of {BINS} intervals. Drag turns, Shift and "
        "drag moves, the wheel zooms, two fingers move and zoom; in plots, a click goes to a time, the wheel zooms, a "
        "double click shows all."
    )
    data["layout"] = numbers.layout
    header = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    blob = len(header).to_bytes(4, "little") + header + bytes(-len(header) % 4) + b"".join(numbers.parts)
    packed = base64.b64encode(gzip.compress(blob, 9, mtime=0)).decode()
    folder = Path(__file__).parent
    text = (folder / "page.html").read_text(encoding="utf-8")
    for name in ("INK", "MUTED", "FAINT", "PAPER", "PANEL", "ACCENT", "ALARM"):
        text = text.replace(f"@{name}@", getattr(palette, name))
    text = text.replace("@TITLE@", html.escape(Path(request.file or "").name))
    script = (folder / "page.js").read_text(encoding="utf-8")
    return text.replace("@SCRIPT@", script).replace("@DATA@", packed)


class _Numbers:
    """Arrays that the page holds in one block.

    layout  {name: [kind "f" or "i", offset in bytes, number of values]}
    """

    def __init__(self) -> None:
        self.layout: dict[str, list[Any]] = {}
        self.parts: list[bytes] = []
        self._size = 0

    def add(self, name: str, values: NDArray[Any] | Sequence[Any]) -> str:
        """Add an array under a name, and return the name."""
        found = np.asarray(values)
        kind, dtype = ("i", "<i4") if found.dtype.kind in "iub" else ("f", "<f4")
        with np.errstate(over="ignore"):
            part = found.astype(dtype).tobytes()
        self.layout[name] = [kind, self._size, found.size]
        self.parts.append(part)
        self._size += len(part)
        return name


def _add_scene(data: dict[str, Any], numbers: _Numbers, signals: Signals, plane: str) -> float:
    """Add the scene, and return the time between two poses, s; 0 if every recorded pose is there."""
    space = Space(plane, 0.0)
    scene = space.scene
    cloud = scene.survey(signals)
    empty: dict[str, Any] = {"solids": [], "floor": [], "tips": [], "polylines": [], "springs": [], "texts": []}
    data |= empty | {"colors": [], "arrows": 0, "balls": 0, "bodies": 0, "trail_s": TRAIL_S, "size": scene.size}
    data["ball"] = _mesh(numbers, "ball", -1, palette.INK, *ball(1.0, np.zeros(3)))
    data["camera"] = {"position": [0, -3, 1], "target": [0, 0, 0], "up": [0, 0, 1], "half_fov": HALF_FOV}
    if cloud is None or signals.description is None or signals.poses is None or scene.skeleton is None:
        numbers.add("times", signals.times[[0, -1]])
        return 0.0
    solids = space.solids(signals.description)
    data["solids"] = [_mesh(numbers, f"s{k}", *solid) for k, solid in enumerate(solids)]
    data["bodies"], data["size"], data["coil"] = scene.skeleton.bodies, scene.size, COIL_WIDTH * scene.size
    if (camera := space.camera(cloud, ASPECT)) is not None:
        places = zip(("position", "target", "up"), camera, strict=True)
        data["camera"] |= {name: each.tolist() for name, each in places}
    if not scene.is_covered(cloud):
        vertical = vertical_axis(scene.skeleton.gravity)
        below = float(np.sign(scene.skeleton.gravity[vertical]) or -1.0)
        step = nice_step(float(np.ptp(cloud, axis=0).max()) / 8.0)
        wide = np.concatenate([cloud, cloud + 2.0 * step, cloud - 2.0 * step])
        height = below * (float((below * cloud[:, vertical]).max()) + 0.01 * scene.size)
        data["floor"] = floor_lines(wide, vertical, height, step).tolist()
    data["springs"] = [[a, p.tolist(), b, q.tolist()] for a, p, b, q in scene.stage.spring_places]
    return _add_frames(data, numbers, signals, space)


def _add_frames(data: dict[str, Any], numbers: _Numbers, signals: Signals, space: Space) -> float:
    poses, skeleton = signals.poses, space.scene.skeleton
    assert poses is not None
    assert skeleton is not None
    kept = int(np.searchsorted(poses.times, signals.sane_until, side="right"))
    times, every_s = poses.times[:kept], 0.0
    span = float(times[-1] - times[0]) if kept else 0.0
    most = min(MOST_FRAMES, int(span * FRAMES_PER_S) + 1)
    if kept > most > 1:
        every_s = span / (most - 1)
        places = np.searchsorted(times, times[0] + every_s * np.arange(most) + 1e-9, side="right") - 1
        times = times[np.unique(np.clip(places, 0, kept - 1))]
    instants = [each for time in times if (each := space.at(signals, float(time))) is not None]
    numbers.add("times", times)
    numbers.add("poses", np.array([each.poses for each in instants]))
    if any(each.measured is not None for each in instants):
        absent = np.full(len(instants[0].poses), np.nan)
        numbers.add("measured", np.array([absent if i.measured is None else i.measured for i in instants]))
    rows = poses.values[:kept][:: max(1, kept // 500)]
    tips = skeleton.tips(rows)
    reach = np.where(skeleton.visible, np.nan_to_num(np.ptp(tips, axis=0)).max(axis=1), 0.0)
    data["tips"] = [
        {
            "body": body,
            "point": skeleton.tip_points[body].tolist(),
            "color": palette.solid_color(body, skeleton.colors[body]),
        }
        for body in np.flatnonzero(reach > max(LEAST_PATH * float(reach.max()), 1e-3 * space.scene.size)).tolist()
    ]
    _add_marks(data, numbers, instants)
    for kind, track, color, width in (
        ("lines", signals.lines, palette.LINE, 3.0),
        ("overlay", signals.overlay, palette.OVERLAY, 1.8),
    ):
        data["polylines"].append({"kind": kind, "color": color, "width": width})
        _add_polylines(data, numbers, kind, track, times)
    return every_s


def _add_marks(data: dict[str, Any], numbers: _Numbers, instants: Sequence[Instant]) -> None:
    """Add the arrows of forces and the marks of grippers."""
    texts: dict[str, int] = {}
    colors: dict[str, int] = {}
    data["arrows"] = most = max((len(each.arrows) for each in instants), default=0)
    ends = np.zeros((len(instants), most, 6))
    text, color = np.full((2, len(instants), most), -1)
    data["balls"] = balls = max((len(each.balls) for each in instants), default=0)
    at, ball_color = np.zeros((len(instants), balls, 4)), np.full((len(instants), balls), -1)
    for k, instant in enumerate(instants):
        for j, arrow in enumerate(instant.arrows):
            ends[k, j] = [*arrow.start, *arrow.tip]
            text[k, j] = texts.setdefault(arrow.text, len(texts))
            color[k, j] = colors.setdefault(arrow.color, len(colors))
        for j, mark in enumerate(instant.balls):
            at[k, j] = [*mark.center, mark.radius]
            ball_color[k, j] = colors.setdefault(mark.color, len(colors))
    arrays = {"arrow_ends": ends, "arrow_text": text, "arrow_color": color, "ball_at": at, "ball_color": ball_color}
    for name, values in arrays.items():
        numbers.add(name, values)
    data["texts"], data["colors"] = list(texts), list(colors)


def _add_polylines(data: dict[str, Any], numbers: _Numbers, kind: str, track: Track, times: Floats) -> None:
    """Add the polylines of each time: all different messages, and the number of the message of each time."""
    messages: dict[int, int] = {}
    drawn: list[Drawn] = []
    of = []
    for time in times:
        found = track.at(float(time), first=kind == "lines")
        if found is not None and id(found) not in messages:
            messages[id(found)] = len(drawn)
            drawn.append(found)
        of.append(-1 if found is None else messages[id(found)])
    counts = [[len(line) for line in each.lines] for each in drawn]
    data[f"{kind}_counts"] = counts
    data[f"{kind}_starts"] = np.cumsum([0, *map(sum, counts)])[:-1].tolist()
    numbers.add(f"{kind}_of", np.array(of, dtype=np.int32))
    parts = [line for each in drawn for line in each.lines]
    numbers.add(kind, np.concatenate(parts) if parts else np.zeros((0, 3)))


def _mesh(
    numbers: _Numbers, name: str, body: int, color: str, vertices: Floats, faces: NDArray[np.int32]
) -> dict[str, Any]:
    names = numbers.add(f"{name}v", vertices), numbers.add(f"{name}f", faces)
    return {"body": body, "color": color, "vertices": names[0], "faces": names[1]}


def _plots(numbers: _Numbers, signals: Signals, fields: Sequence[str]) -> list[dict[str, Any]]:
    specs, _ = default_plots(choose_fields(fields, signals), signals, keep_empty=bool(fields))
    times = signals.times
    start, end = float(times[0]), float(min(times[-1], signals.sane_until))
    found = []
    for k, spec in enumerate(specs):
        columns = [signals.store.column(each.topic, each.field) for each in spec.curves]
        x, values = sampled(columns, start, end, BINS)
        curves = [
            {
                "name": each.name,
                "color": palette.INK if each.is_reference else palette.curve_color(each.place),
                "dash": [1, 4] if each.is_reference else [1.5 * part for part in palette.curve_dash(each.place)[1]],
                "mark": "╍" if each.is_reference else palette.curve_dash(each.place)[0],
                "y": numbers.add(f"p{k}y{j}", np.maximum(np.abs(y), SMALLEST) if spec.log else y),
            }
            for j, (each, y) in enumerate(zip(styled(spec.curves, signals.description), values, strict=True))
        ]
        plot = {"title": titled(spec), "log": spec.log, "words": list(spec.words), "x": numbers.add(f"p{k}x", x)}
        found.append({**plot, "curves": curves})
    return found

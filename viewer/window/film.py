"""Pictures and films of a window: scene and plots, drawn without a screen; ffmpeg encodes films."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from nodes.framework.recording.new_file import NotWrittenError, new_file
from viewer.film import Film
from viewer.qt import theme
from viewer.window.main import WANTED_SIZE, MainWindow

MOST_FRAMES = 200_000
PALETTE = "split[a][b];[a]palettegen=stats_mode=diff[p];[b][p]paletteuse=dither=bayer:bayer_scale=4"


class FilmError(ValueError):
    """Raised if a film cannot be made with the given settings. The message is one line for the user."""


@dataclass(frozen=True)
class Schedule:
    """Times of the frames of a film, in the recording.

    start  time of the first frame, s
    step   interval between frames, s
    count  number of frames
    """

    start: float
    step: float
    count: int


def schedule(film: Film, span: tuple[float, float]) -> Schedule:
    """Times of the frames of a film.

    span  first and last time of the recording, s

    Raises FilmError if the film's times are not in the recording, or if the film would have too many frames.
    """
    first, last = span
    start, end = first if film.start is None else film.start, last if film.end is None else film.end
    for option, time in (("--from", start), ("--to", end)):
        if not first - 1e-9 <= time <= last + 1e-9:
            raise FilmError(f"{option} {time:g} is not in the recording; choose a time from {first:g} to {last:g} s")
    if end < start or (end == start and last > first):
        raise FilmError(f"--to {end:g} must be after --from {start:g}; choose a later end or an earlier start")
    step = film.speed / film.fps
    count = math.floor((end - start) / step + 1e-9) + 1
    if count > MOST_FRAMES:
        raise FilmError(f"the film would have {count} frames, more than {MOST_FRAMES}; raise --speed, or lower --fps")
    return Schedule(start, step, count)


def write_film(
    window: MainWindow, film: Film, shown: Callable[[int, int], None], is_stopped: Callable[[], bool]
) -> bool:
    """Write the film of a window's recording. Returns whether the film was completed; otherwise no file is left.

    shown       function that is called with (number of frames so far, number of all frames)
    is_stopped  function that is called before each frame; the film ends if it returns true

    Raises FilmError for settings with which no film can be made, and OSError if the file cannot be written.
    """
    times = schedule(film, window.playback.span)
    _prepare(window, film.size)
    try:
        with new_file(film.path, _is_complete) as part, _encoder(part, film) as send:
            for number in range(times.count):
                if is_stopped():
                    raise InterruptedError
                window.playback.seek(times.start + number * times.step)
                send(_pixels(_image(window.page, film.size)))
                shown(number + 1, times.count)
    except NotWrittenError as error:
        if isinstance(error.__cause__, InterruptedError):
            return False
        raise OSError(f"cannot write the film {film.path}: {error.strerror}") from error
    return True


def write_picture(window: MainWindow, path: str) -> None:
    """Write a picture of the whole run, with its last pose. Raises OSError if the file cannot be written."""
    _prepare(window, WANTED_SIZE, is_still=True)
    image = _image(window.page, WANTED_SIZE)
    try:
        with new_file(path) as part:
            if not image.save(str(part), "PNG"):
                raise OSError("Qt could not encode the picture")
    except NotWrittenError as error:
        raise OSError(f"cannot write the picture {path}: {error.strerror}") from error


def _is_complete(path: Path) -> bool:
    """Whether ffmpeg wrote the end of a film: a GIF ends with a semicolon, and an MP4 file has an index."""
    content = path.read_bytes()
    return content.endswith(b";") if path.suffix.lower() == ".gif" else b"moov" in content


def _prepare(window: MainWindow, size: tuple[int, int], is_still: bool = False) -> None:
    """Lay out the page at the size of the film, without panels, menu and slider, and without showing the window.

    is_still  whether to show the whole run, as a picture does
    """
    window.playback.stop()
    window.docks.show_only(())
    window.menuBar().hide()
    window.timeline.hide()
    window.scene.set_smooth()
    window.plots.set_still(is_picture=is_still)
    window.setAttribute(QtCore.Qt.WidgetAttribute.WA_DontShowOnScreen)
    window.setFixedSize(*size)
    window.show()
    window.plots.show_all()
    for _ in range(3):  # sizes settle while events are processed
        QtWidgets.QApplication.processEvents()
        window.plots.lay_out_titles()
    window.show_whole_run() if is_still else window.lay_out_scene()
    QtWidgets.QApplication.processEvents()


def _image(page: QtWidgets.QWidget, size: tuple[int, int]) -> Any:
    """Picture of the page as a QImage."""
    QtWidgets.QApplication.processEvents()
    image = QtGui.QImage(*size, QtGui.QImage.Format.Format_RGB888)
    image.fill(QtGui.QColor(theme.PAPER))
    page.render(image)
    return image


def _pixels(image: Any) -> bytes:
    """A picture as bytes: rows of RGB pixels."""
    bits, width = image.constBits(), 3 * image.width()
    bits.setsize(image.sizeInBytes())
    rows = bytes(bits)
    stride = image.bytesPerLine()  # Qt pads the rows to multiples of 4
    if stride == width:
        return rows
    return b"".join(rows[row * stride : row * stride + width] for row in range(image.height()))


@contextlib.contextmanager
def _encoder(path: Path, film: Film) -> Iterator[Callable[[bytes], None]]:
    """Context manager that yields a function which adds a frame to the film.

    Raises OSError with the reason that ffmpeg gives.
    """
    import imageio_ffmpeg

    options: dict[str, Any] = {"quality": 8, "macro_block_size": 2}
    if film.is_gif:
        options = {
            "codec": "gif",
            "pix_fmt_out": "pal8",
            "quality": None,
            "macro_block_size": 1,
            "output_params": ["-filter_complex", PALETTE, "-loop", "0"],
        }
    writer = imageio_ffmpeg.write_frames(str(path), film.size, fps=film.fps, ffmpeg_log_level="error", **options)
    try:
        writer.send(None)
        yield writer.send
    except InterruptedError:  # the film was stopped
        raise
    except OSError as error:
        raise OSError(f"ffmpeg ended before it had written the film {film.path}: {error}") from error
    finally:
        writer.close()

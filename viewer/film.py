"""Settings of a film of a recording (file, time, speed, frames, size), checked without Qt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

SIZES = ((320, 240), (7680, 4320))  # pixels, smallest and largest
MOST_FPS = 120.0
MOST_GIF_FPS = 50.0  # the format counts in 1/100 s, and players slow down films of 1/100 s a frame


@dataclass(frozen=True)
class Film:
    """Settings of a film to write.

    path        file of the film, .mp4 or .gif
    start, end  first and last time of the film in the recording, s; None for the recording's first and last time
    speed       seconds of the recording per second of the film
    fps         frames per second of the film
    size        width and height, pixels

    Raises ValueError for a value that is not permitted.
    """

    path: str
    start: float | None = None
    end: float | None = None
    speed: float = 1.0
    fps: float = 30.0
    size: tuple[int, int] = (1280, 720)

    def __post_init__(self) -> None:
        if Path(self.path).suffix.lower() not in (".mp4", ".gif"):
            raise ValueError(f"{self.path!r} is not the name of a film; the name must end in .mp4 or .gif")
        for name, time in (("--from", self.start), ("--to", self.end)):
            if time is not None and not math.isfinite(time):
                raise ValueError(f"{name} {time}: the time must be a finite number of seconds")
        if not (math.isfinite(self.speed) and 1e-3 <= self.speed <= 1e3):
            raise ValueError(f"--speed {self.speed:g}: the speed must lie between 0.001 and 1000")
        most = MOST_GIF_FPS if self.is_gif else MOST_FPS
        if not 1.0 <= self.fps <= most:
            raise ValueError(
                f"--fps {self.fps:g}: the rate must lie between 1 and {most:g} for {Path(self.path).suffix}"
            )
        (least_width, least_height), (most_width, most_height) = SIZES
        width, height = self.size
        if not (least_width <= width <= most_width and least_height <= height <= most_height):
            limits = f"{least_width}x{least_height} and {most_width}x{most_height} pixels"
            raise ValueError(f"--size {width}x{height}: the size must lie between {limits}")
        if not self.is_gif and (width % 2 or height % 2):
            raise ValueError(f"--size {width}x{height}: an MP4 film requires even numbers for width and height")

    @property
    def is_gif(self) -> bool:
        """Whether the film is a GIF; otherwise it is an MP4."""
        return Path(self.path).suffix.lower() == ".gif"


def parse_size(text: str) -> tuple[int, int]:
    """(width, height), pixels, from a text such as "1280x720". Raises ValueError for another text."""
    width, cross, height = text.lower().partition("x")
    if not (cross and width.isdecimal() and height.isdecimal()):
        raise ValueError(f"--size {text!r}: write width and height in pixels, such as 1280x720")
    return int(width), int(height)

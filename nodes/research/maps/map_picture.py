"""Writes a stability map: a picture, and a file with the picture's numbers."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from nodes.research.pages.state_map import draw_state_map
from sim_core.analysis.maps import StateMap
from sim_core.analysis.stability import StateNorm
from sim_core.errors import InvalidRequest
from sim_core.solve import coordinate_scales

RUNS = ".runs"  # suffix of the file of finished runs, beside the picture


def check_output(picture: Path) -> None:
    """Raise InvalidRequest if the files of a map cannot be written."""
    if picture.suffix != ".png":
        raise InvalidRequest(f"--output {str(picture)!r}: the picture is a PNG; give it a name that ends in .png")
    if not picture.absolute().parent.is_dir():
        raise InvalidRequest(f"--output {str(picture)!r}: there is no folder {str(picture.parent)!r}; create it first")
    for path in (picture, picture.with_suffix(".npz"), picture.with_suffix(RUNS)):
        if path.is_dir():
            raise InvalidRequest(f"--output {str(picture)!r}: {str(path)!r} is a folder; give another name")
    try:
        with tempfile.TemporaryFile(dir=picture.absolute().parent):
            pass
    except OSError as error:
        raise InvalidRequest(f"--output {str(picture)!r} cannot be written: {error.strerror}") from None


def write_map(picture: Path, found: StateMap, how: dict[str, Any]) -> Path:
    """Write the picture and a file with the picture's numbers, and return the path of the file with the numbers.

    Each file appears only when it is complete.

    how  description of how the map was computed
    """
    data, (across, up) = picture.with_suffix(".npz"), found.axes
    shape = (*found.is1.shape, -1)
    numbers: dict[str, Any] = {f"axis_{name}": values for name, values in found.axes.items()}
    numbers |= {"is1": found.is1, "goes_over": found.turns_over, "about": json.dumps(how), "rows": found.peaks.rows}
    numbers |= {"low": found.peaks.low.reshape(shape), "high": found.peaks.high.reshape(shape)}
    numbers |= {"end": np.hstack([found.peaks.q, found.peaks.v]).reshape(shape)}
    if found.peaks.orientations.size:
        numbers |= {"attitudes": found.peaks.orientations.reshape(*shape[:2], -1, 4)}
    title = f"{found.norm.system.mechanism.name}: motions of {found.seconds:g} s, by their initial state"
    with tempfile.TemporaryDirectory(dir=picture.absolute().parent, prefix=".map") as folder:
        made = [Path(folder) / "map.png", Path(folder) / "map.npz"]
        units = [_unit(found.norm, name) for name in (across, up)]
        labels = f"{across} ({units[0]})", f"{up} ({units[1]})"
        places = dict(zip(found.norm.system.coordinate_names, found.norm.center, strict=False))
        about = places.get(across, 0.0), places.get(up, 0.0)  # velocities are zero
        center = "goal" if "nodes" in how else "equilibrium"
        values = [*found.axes.values()]
        of_distances = str(found.norm).replace(" (time_unit_s)", "")
        draw_state_map(made[0], title, labels, values, found.is1, found.turns_over, about, center, of_distances)
        np.savez_compressed(made[1], **numbers)
        for path, final in zip(made, (picture, data), strict=True):
            os.replace(path, final)
    return data


def _unit(norm: StateNorm, row: str) -> str:
    """Unit of the state's component `row`, as text."""
    system = norm.system
    lengths = [joint.name for joint in system.mechanism.moving_joints if joint.is_length]
    base = row.removesuffix(".velocity")
    is_length = np.isinf(coordinate_scales((base,), lengths, np.inf))[0]
    return ("m" if is_length else "rad") + ("/s" if row != base else "")

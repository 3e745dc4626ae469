"""Units of the columns of a log, as factors to SI units and radians."""

from __future__ import annotations

import math
from typing import Literal

Channel = Literal["position", "velocity", "effort", "command"]
TURN = 2.0 * math.pi

TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
ANGLES = {"rad": 1.0, "deg": math.pi / 180.0, "rev": TURN, "mrad": 1e-3}
LENGTHS = {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "in": 0.0254}
ANGULAR_RATES = {"rad/s": 1.0, "deg/s": math.pi / 180.0, "rev/s": TURN, "rpm": TURN / 60.0}
RATES = {"m/s": 1.0, "mm/s": 1e-3, "cm/s": 1e-2}
TORQUES = {"N m": 1.0, "mN m": 1e-3, "N mm": 1e-3, "N cm": 1e-2, "kgf m": 9.80665, "lbf ft": 1.3558179483}
FORCES = {"N": 1.0, "kN": 1e3, "kgf": 9.80665, "lbf": 4.4482216153}
CURRENTS = {"A": 1.0, "mA": 1e-3}  # times `gain`
COUNTS, COUNT_RATES = "counts", "counts/s"  # times a turn over `counts_per_turn`
UNKNOWN = "unknown"  # numbers of the drive; only their course counts

POSITIONS: dict[bool, dict[str, float]] = {False: ANGLES, True: LENGTHS}  # by whether the joint slides
VELOCITIES: dict[bool, dict[str, float]] = {False: ANGULAR_RATES, True: RATES}
EFFORTS: dict[bool, dict[str, float]] = {False: TORQUES, True: FORCES}


def units_of(channel: Channel, slides: bool) -> dict[str, float]:
    """{unit: factor to SI} of a channel of a joint, without encoder counts and currents."""
    if channel == "position":
        return POSITIONS[slides]
    return VELOCITIES[slides] if channel == "velocity" else EFFORTS[slides]

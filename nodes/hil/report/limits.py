"""Limits of a comparison, and text for position differences."""

from __future__ import annotations

import math

import msgspec


class Limits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Limits above which a comparison fails.

    Limits whose names end in _deg apply to rotating joints and are in degrees. Limits whose names end in _mm apply to
    sliding joints and are in millimetres.
    """

    bias_deg: float = 0.25
    rms_deg: float = 0.5
    max_deg: float = 2.0
    bias_mm: float = 1.0
    rms_mm: float = 2.0
    max_mm: float = 8.0
    delay_ms: float = 5.0
    parameter_percent: float = (
        3.0  # of a mass or gain relative to the model's, of friction relative to the measured efforts
    )

    def __post_init__(self) -> None:
        for name in Limits.__struct_fields__:
            if not (math.isfinite(value := getattr(self, name)) and value > 0.0):
                raise ValueError(f"{name} is {value}; it must be a number above 0")

    def of(self, figure: str, slides: bool) -> float:
        """Limit (rad or m) of the error measure `figure` ("bias", "rms" or "max").

        slides  whether the joint slides; otherwise it rotates
        """
        value: float = getattr(self, f"{figure}_mm" if slides else f"{figure}_deg")
        return value * 1e-3 if slides else math.radians(value)


def angle_text(value: float, slides: bool) -> str:
    """Text of a position difference, such as "0.52 deg", or "1.3 mm" for a sliding joint."""
    return f"{value * 1e3:.3g} mm" if slides else f"{math.degrees(value):.3g} deg"


def excess_text(figure: str, joint: str, value: float, limit: float, slides: bool) -> str:
    """Text of an error measure that exceeds its limit, such as "rms of elbow is 0.7 deg, at most 0.5 deg".

    figure        "bias", "rms", "max" or "delay"
    value, limit  in rad or m; for a delay in s
    """
    if figure == "delay":
        way = "late" if value > 0.0 else "early"
        return f"{joint} is {abs(value) * 1e3:.1f} ms {way}, at most {limit * 1e3:g} ms"
    return f"{figure} of {joint} is {angle_text(value, slides)}, at most {angle_text(limit, slides)}"

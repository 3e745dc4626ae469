"""Errors of a measurement's channels as data and as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import msgspec
import numpy as np

FIELDS = ("position", "velocity", "effort")
GROUPS = {
    frozenset(FIELDS): "joint",
    frozenset({"encoder", "effort"}): "joint",
    frozenset(FIELDS[:2]): "encoder",
}
NOUNS = {
    "position": "positions",
    "velocity": "velocities",
    "effort": "efforts",
    "encoder": "positions and velocities",
    "joint": "positions, velocities and efforts",
}
TOGETHER = 0.05  # largest relative difference of the sizes of an error that several joints share
UNITS = {
    "position": {math.degrees(1.0): "degrees", 1000.0: "thousandths"},
    "velocity": {math.degrees(1.0): "degrees", 1000.0: "thousandths", 30.0 / math.pi: "turns per minute"},
    "effort": {1000.0: "N mm", 100.0: "N cm", 1.0 / 9.80665: "kgf m", 100.0 / 9.80665: "kgf cm"},
}

Kind = Literal["swapped", "sign", "scale", "dead", "late", "offset", "drift", "jump", "play"]
ENCODER_FINDINGS = frozenset(f"encoder_{kind}" for kind in get_args(Kind)) | {"encoder_zero"}  # kinds of findings


class ChannelError(msgspec.Struct, frozen=True, kw_only=True):
    """An error of one or several channels of a measurement.

    kind      "swapped": each channel has the values of another joint; "sign", "scale", "offset"; "dead": constant;
              "late"; "drift" and "jump" of an encoder; "play" between joint and encoder
    channel   "position", "velocity" or "effort"; "encoder" for position and velocity, "joint" for all three
    joints    joints whose channels have the error
    value     factor of a scale; delay in s; offset or jump in the channel's unit; drift in its unit per s; play in rad
              or m; 0 for other kinds
    relative  RMS of the error / RMS of the predicted quantity, for the joint with the largest ratio
    of        for swapped channels, the joints whose values they have
    at_s      time (s) of a jump
    """

    kind: Kind
    channel: str
    joints: list[str]
    value: float = 0.0
    relative: float = 1.0
    of: list[str] = []
    at_s: float = 0.0

    @property
    def unit(self) -> str:
        """Unit of `value` for joints that rotate; "" for a factor and for errors without a size."""
        quantity = {"velocity": "rad/s", "effort": "N m"}.get(self.channel, "rad")
        return {"late": "s", "drift": "rad/s", "offset": quantity, "jump": quantity, "play": quantity}.get(
            self.kind, ""
        )


@dataclass(frozen=True)
class SingleError:
    """An error of one channel of one joint, with the fields of ChannelError; joints are indices."""

    kind: Kind
    channel: str
    joint: int
    value: float = 0.0
    relative: float = 1.0
    of: int = -1
    at_s: float = 0.0


def grouped(found: Iterable[SingleError], names: Sequence[str]) -> list[ChannelError]:
    """The errors, with one entry for an error that several channels or several joints share."""
    joints = _clusters(found, lambda one, other: (one.joint, one.of) == (other.joint, other.of))
    merged: list[SingleError] = []
    for same in joints:
        channel = GROUPS.get(frozenset(each.channel for each in same))
        channel = None if channel == "joint" and same[0].kind == "scale" else channel
        merged += same if channel is None else [replace(same[0], channel=channel)]
    return [_merged(group, names) for group in _clusters(merged, lambda one, other: one.channel == other.channel)]


def _clusters(
    found: Iterable[SingleError], belong: Callable[[SingleError, SingleError], bool]
) -> list[list[SingleError]]:
    """Groups of equal errors that belong together."""
    groups: list[list[SingleError]] = []
    for each in found:
        for group in groups:
            if group[0].kind == each.kind and belong(group[0], each) and _is_shared(group[0], each):
                group.append(each)
                break
        else:
            groups.append([each])
    return groups


def _is_shared(one: SingleError, other: SingleError) -> bool:
    if one.kind in ("swapped", "sign", "dead"):
        return True
    difference = abs(one.value - other.value)
    return one.kind in ("scale", "late") and difference <= TOGETHER * max(abs(one.value), abs(other.value))


def _merged(group: Sequence[SingleError], names: Sequence[str]) -> ChannelError:
    ordered = sorted(group, key=lambda each: each.joint)
    return ChannelError(
        kind=ordered[0].kind,
        channel=ordered[0].channel,
        joints=[names[each.joint] for each in ordered],
        value=ordered[0].value if len(ordered) == 1 else float(np.median([each.value for each in ordered])),
        relative=max(each.relative for each in ordered),
        of=[names[each.of] for each in ordered if each.of >= 0],
        at_s=ordered[0].at_s,
    )


def finding_kind(error: ChannelError) -> str:
    """Kind of the finding about an error, such as "effort_sign" or "encoder_play"; "delay" for a joint that is late."""
    if error.kind == "late" and error.channel in ("encoder", "joint"):
        return "delay"
    is_encoder = error.channel == "position" and error.kind in ("scale", "drift", "jump", "play")
    return f"{'encoder' if is_encoder else error.channel}_{error.kind}"


def error_text(error: ChannelError, joints: int, sliding: Iterable[str]) -> str:
    """An error as one line.

    joints   number of the robot's joints
    sliding  joints whose positions are in metres
    """
    of = "all joints" if len(error.joints) == joints > 1 else _enumerated(error.joints)
    slides = error.joints[0] in sliding
    what = f"the {NOUNS[error.channel]} of {of}"
    match error.kind:
        case "swapped":
            return f"{what} are exchanged: {', '.join(_sources(error))}"
        case "sign":
            return f"{what} have the wrong sign"
        case "scale" if error.channel in ("position", "encoder"):
            counts = f"it counts {error.value - 1.0:+.2%}{_unit(error)}"
            return f"the encoder of {of} has a scale of {error.value:.4g}: {counts}"
        case "scale":
            return f"{what} are {error.value:.4g} times their true values{_unit(error)}"
        case "dead":
            return f"{what} are dead: they are constant"
        case "late" if error.channel in ("encoder", "joint"):
            way = "later" if error.value > 0.0 else "earlier"
            return f"the measurement of {of} is {1e3 * abs(error.value):.2f} ms {way} than the others"
        case "late":
            way = "late" if error.value > 0.0 else "early"
            return f"{what} are {1e3 * abs(error.value):.1f} ms {way} against the other channels"
        case "offset":
            unit = _si(error.channel, slides)
            return f"{what} have an offset of {error.value:+.3g} {unit}"
        case "drift":
            return f"the encoder of {of} drifts by {_angle(error.value, slides)} per s"
        case "jump":
            return f"the encoder of {of} jumps by {_angle(error.value, slides)} at t = {error.at_s:.2f} s"
        case "play":
            return f"the encoder of {of} has {_angle(error.value, slides).lstrip('+')} of play"


def _sources(error: ChannelError) -> Iterator[str]:
    for joint, source in zip(error.joints, error.of, strict=True):
        yield f"{joint} has those of {source}"


def _enumerated(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _unit(error: ChannelError) -> str:
    unit = UNITS.get(error.channel, UNITS["position"]).get(error.value)
    return f", as in {unit}" if unit else ""


def _si(channel: str, slides: bool) -> str:
    return {"velocity": ("rad/s", "m/s"), "effort": ("N m", "N")}.get(channel, ("rad", "m"))[slides]


def _angle(value: float, slides: bool) -> str:
    return f"{1e3 * value:+.3g} mm" if slides else f"{math.degrees(value):+.3g} deg"

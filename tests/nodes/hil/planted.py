"""Conditions that are planted in a robot of launch/hil_robot.toml, and the outcome that is right for each.

A condition of the robot is a setting of the emulated robot. A condition of the measurement changes the channels of the
measured states, so that all of them share one run for each seed. Joints and sizes follow from the seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import compose
from nodes.hil.alignment.streams import Floats, Stream, at_times
from nodes.hil.emulation.imperfections import drag
from nodes.hil.report.reading import Case, read_case
from nodes.hil.report.verdict import Compared, Verdict, limits_of

PLAN = Path(__file__).resolve().parents[3] / "launch/hil_robot.toml"
JOINTS = ("joint_1", "joint_2", "joint_3", "joint_4")
DEGREES = math.degrees(1.0)
WITHOUT_CAUSE = ("efforts", "position_error")  # kinds of findings that name no cause

Planted = Callable[[Stream], Stream]
Named = set[tuple[str, str]]
Right = Literal["named", "failed without cause", "not observable", "rightly passed"]
Plant = Callable[[np.random.Generator], tuple[Planted, Named]]


@dataclass(frozen=True)
class Condition:
    """A planted condition.

    right     the right outcome
    settings  settings of the launch file
    plant     what is changed in the measured states, and the findings that name it
    named     findings that name a condition of the robot; (what, body) that the motion does not show
    """

    right: Right
    settings: tuple[str, ...] = ()
    plant: Plant | None = None
    named: tuple[tuple[str, str], ...] = ()


def robot(named: str, *settings: str) -> Condition:
    """A condition of the robot that is to be named, as in "mass link_10"."""
    findings = [each.partition(" ") for each in named.split(", ")]
    return Condition("named", settings, named=tuple((kind, of) for kind, _, of in findings))


def healthy(*settings: str) -> Condition:
    """A condition that is no error of the robot."""
    return Condition("rightly passed", settings)


def hidden(body: str, *settings: str) -> Condition:
    """A mass that the motion does not show."""
    return Condition("not observable", settings, named=(("mass", body),))


def channels(plant: Plant) -> Condition:
    """An error of channels that is to be named."""
    return Condition("named", plant=plant)


# -- changes of measured states


def changed(fields: str, change: Callable[[Stream, Floats], Floats]) -> Planted:
    """Function that changes these channels of a stream: p, v and e for positions, velocities and efforts."""

    def plant(stream: Stream) -> Stream:
        found = {
            field: change(stream, getattr(stream, field).copy())
            for field in ("position", "velocity", "effort")
            if field[0] in fields
        }
        return replace(stream, **found)

    return plant


def scaled(fields: str, factor: float, *joints: int) -> Planted:
    """Channels times a factor; of all joints if none is given."""

    def change(stream: Stream, values: Floats) -> Floats:
        values[:, list(joints) or slice(None)] *= factor
        return values

    return changed(fields, change)


def ordered(fields: str, order: Sequence[int]) -> Planted:
    """Channels in another order of the joints."""
    return changed(fields, lambda stream, values: values[:, list(order)])


def late(fields: str, delay_s: float, *joints: int) -> Planted:
    """Channels that lag behind; of all joints if none is given."""

    def change(stream: Stream, values: Floats) -> Floats:
        columns = list(joints or range(values.shape[1]))
        values[:, columns] = at_times(stream.time - delay_s, stream.time, values[:, columns])
        return values

    return changed(fields, change)


def shifted(fields: str, joint: int, offset: float, per_s: float = 0.0, from_s: float = 0.0) -> Planted:
    """An offset of a channel and its drift, from a time on."""

    def change(stream: Stream, values: Floats) -> Floats:
        time = stream.time - from_s
        values[:, joint] += np.where(time >= 0.0, offset + per_s * time, 0.0)
        return values

    return changed(fields, change)


def dead(fields: str, joint: int) -> Planted:
    """A channel that shows its first value."""

    def change(stream: Stream, values: Floats) -> Floats:
        values[:, joint] = values[0, joint]
        return values

    return changed(fields, change)


def slack(joint: int, play: float) -> Planted:
    """Play before an encoder whose velocities are differences of its positions."""

    def plant(stream: Stream) -> Stream:
        assert stream.velocity is not None
        shown, velocity = stream.position.copy(), stream.velocity.copy()
        for k in range(1, len(shown)):
            shown[k, joint] = drag(shown[k - 1, joint], stream.position[k, joint], np.array(play))
        velocity[:, joint] = np.gradient(shown[:, joint], stream.time)
        return replace(stream, position=shown, velocity=velocity)

    return plant


# -- what is planted, by seed


def one(kind: str, plant: Callable[[int, float], Planted], size: float, joints: Sequence[int] = range(4)) -> Plant:
    """An error of one joint, whose size is between 0.8 and 1.5 times `size`."""

    def planted(random: np.random.Generator) -> tuple[Planted, Named]:
        joint = int(random.choice(joints))
        return plant(joint, size * random.uniform(0.8, 1.5)), {(kind, JOINTS[joint])}

    return planted


def every(kind: str, plant: Callable[[float], Planted], size: float) -> Plant:
    """An error of all joints."""
    return lambda random: (plant(size * random.uniform(0.8, 1.5)), {(kind, "")})


def exchanged(fields: str, kind: str) -> Plant:
    """Channels of two joints in place of each other."""

    def planted(random: np.random.Generator) -> tuple[Planted, Named]:
        a, b = sorted(random.choice(4, 2, replace=False).tolist())
        order = [{a: b, b: a}.get(k, k) for k in range(4)]
        return ordered(fields, order), {(kind, f"{JOINTS[a]}, {JOINTS[b]}")}

    return planted


CONDITIONS: dict[str, Condition] = {
    "nothing": healthy(),
    "white noise of positions": healthy('hardware.position_noise={"*"=0.01}'),
    "white noise of velocities": healthy('hardware.velocity_noise={"*"=0.05}'),
    "white noise of efforts": healthy('hardware.effort_noise={"*"=1.0}'),
    "white noise of all channels": healthy(
        'hardware.position_noise={"*"=2e-3}', 'hardware.velocity_noise={"*"=0.02}', 'hardware.effort_noise={"*"=0.3}'
    ),
    "lost samples": healthy("hardware.loss=0.05"),
    "coarse encoders": healthy('hardware.encoder_step={"*"=1e-3}'),
    "samples at 100 Hz": healthy("hardware.sample_hz=100"),
    "a heavier link 7": hidden("link_7", "hardware.mass.link_7=0.2"),
    "a lighter link 7": hidden("link_7", "hardware.mass.link_7=-0.15"),
    "a heavier link 8 in noise": hidden("link_8", "hardware.mass.link_8=0.08", 'hardware.effort_noise={"*"=0.5}'),
    "a heavier link 10": robot("mass link_10", "hardware.mass.link_10=0.05"),
    "a lighter link 10": robot("mass link_10", "hardware.mass.link_10=-0.05"),
    "a heavier link 9": robot("mass link_9", "hardware.mass.link_9=0.1"),
    "a heavier link 8": robot("mass link_8", "hardware.mass.link_8=0.12"),
    "a heavier link 10 in noise": robot(
        "mass link_10", "hardware.mass.link_10=0.06", 'hardware.effort_noise={"*"=0.3}'
    ),
    "a heavier link 10 and late commands": robot(
        "mass link_10, delay ", "hardware.mass.link_10=0.05", "hardware.command_delay_ms=10"
    ),
    "a stronger motor 1": robot("gain joint_1", "hardware.gain.joint_1=0.2"),
    "a stronger motor 2": robot("gain joint_2", "hardware.gain.joint_2=0.05"),
    "a weaker motor 3": robot("gain joint_3", "hardware.gain.joint_3=-0.1"),
    "a stronger motor 4": robot("gain joint_4", "hardware.gain.joint_4=0.1"),
    "friction 1": robot("friction joint_1", "hardware.friction.joint_1=1.0"),
    "friction 2": robot("friction joint_2", "hardware.friction.joint_2=1.0"),
    "friction 4": robot("friction joint_4", "hardware.friction.joint_4=0.3"),
    "dry friction 2": robot("dry_friction joint_2", "hardware.dry_friction.joint_2=1.0"),
    "dry friction 3": robot("dry_friction joint_3", "hardware.dry_friction.joint_3=0.2"),
    "play in gear 3": robot("backlash joint_3", "hardware.backlash.joint_3=0.1"),
    "play in gear 2": robot("backlash joint_2", "hardware.backlash.joint_2=0.05"),
    "late commands": robot("delay ", "hardware.command_delay_ms=12"),
    "late samples": robot("delay ", "hardware.delay_ms=8"),
    "zero of encoder 2": robot("bias joint_2", "hardware.encoder_zero.joint_2=0.01"),
    "zero of encoder 4": robot("bias joint_4", "hardware.encoder_zero.joint_4=-0.02"),
    "dead encoder 3": robot("dead_encoder joint_3", "hardware.encoder_dead.joint_3=2"),
    "play of encoder 3": robot("encoder_play joint_3", "hardware.encoder_play.joint_3=0.02"),
    "play of encoder 2": robot("encoder_play joint_2", "hardware.encoder_play.joint_2=0.01"),
    "efforts of the wrong sign": channels(lambda random: (scaled("e", -1.0), {("effort_sign", "")})),
    "an effort of the wrong sign": channels(one("effort_sign", lambda joint, _: scaled("e", -1.0, joint), 1.0)),
    "exchanged efforts": channels(exchanged("e", "effort_swapped")),
    "efforts of the next joint": channels(lambda random: (ordered("e", [1, 2, 3, 0]), {("effort_swapped", "")})),
    "late efforts": channels(every("effort_late", lambda size: late("e", size), 0.02)),
    "a late effort": channels(one("effort_late", lambda joint, size: late("e", size, joint), 0.03)),
    "efforts in N mm": channels(lambda random: (scaled("e", 1000.0), {("effort_scale", "")})),
    "efforts in kgf m": channels(lambda random: (scaled("e", 1.0 / 9.80665), {("effort_scale", "")})),
    "efforts in an odd unit": channels(every("effort_scale", lambda size: scaled("e", size), 1.5)),
    "an effort 10 % too large": channels(one("effort_scale", lambda joint, size: scaled("e", 1.0 + size, joint), 0.1)),
    "an offset of an effort": channels(one("effort_offset", lambda joint, size: shifted("e", joint, size), 1.0)),
    "a dead effort": channels(one("effort_dead", lambda joint, _: dead("e", joint), 1.0)),
    "negated velocities": channels(lambda random: (scaled("v", -1.0), {("velocity_sign", "")})),
    "a negated velocity": channels(one("velocity_sign", lambda joint, _: scaled("v", -1.0, joint), 1.0)),
    "a dead velocity": channels(one("velocity_dead", lambda joint, _: dead("v", joint), 1.0)),
    "velocities in deg/s": channels(lambda random: (scaled("v", DEGREES), {("velocity_scale", "")})),
    "a velocity 10 % too large": channels(
        one("velocity_scale", lambda joint, size: scaled("v", 1.0 + size, joint), 0.1)
    ),
    "exchanged velocities": channels(exchanged("v", "velocity_swapped")),
    "late velocities": channels(every("velocity_late", lambda size: late("v", size), 0.02)),
    "an offset of a velocity": channels(one("velocity_offset", lambda joint, size: shifted("v", joint, size), 0.05)),
    "an encoder of the wrong sign": channels(one("encoder_sign", lambda joint, _: scaled("pv", -1.0, joint), 1.0)),
    "a position of the wrong sign": channels(one("position_sign", lambda joint, _: scaled("p", -1.0, joint), 1.0)),
    "exchanged positions": channels(exchanged("p", "position_swapped")),
    "exchanged encoders": channels(exchanged("pv", "encoder_swapped")),
    "positions in degrees": channels(lambda random: (scaled("p", DEGREES), {("encoder_scale", "")})),
    "a scale of 1.02": channels(one("encoder_scale", lambda joint, size: scaled("p", 1.0 + size, joint), 0.02)),
    "a scale of 1.02 also of velocities": channels(
        one("encoder_scale", lambda joint, size: scaled("pv", 1.0 + size, joint), 0.02)
    ),
    "a drift": channels(one("encoder_drift", lambda joint, size: shifted("p", joint, 0.0, size), 0.004)),
    "an encoder that jumps": channels(
        one("encoder_jump", lambda joint, size: shifted("p", joint, size, from_s=2.5), 0.03)
    ),
    "a late position": channels(one("position_late", lambda joint, size: late("p", size, joint), 0.02)),
    "play of an encoder also in velocities": channels(one("encoder_play", slack, 0.02)),
    "a joint of the wrong sign": channels(one("joint_sign", lambda joint, _: scaled("pve", -1.0, joint), 1.0)),
    "exchanged joints": channels(exchanged("pve", "joint_swapped")),
    "a late joint": channels(one("delay", lambda joint, size: late("pve", size, joint), 0.012)),
}


class Runs:
    """Cases of lockstep runs of the launch file, each run once.

    folder    folder for the recordings
    settings  settings of every run
    """

    def __init__(self, folder: Path, *settings: str) -> None:
        self._folder, self._settings = folder, settings
        self.case = cache(self._case)

    def _case(self, seed: int, *settings: str) -> Case:
        file = self._folder / "run.mcap"
        file.unlink(missing_ok=True)
        with compose(load_plan(PLAN, [f"seed={seed}", *self._settings, *settings, f"recorder.file={file}"])) as run:
            run.run()
        return read_case(file, None)

    def outcome(self, name: str, seed: int) -> str:
        """The outcome of a condition: that of `Condition.right`, or "wrong: " and the findings."""
        condition = CONDITIONS[name]
        case, named = self.case(seed, *condition.settings), set(condition.named)
        if condition.plant is not None:
            plant, named = condition.plant(np.random.default_rng([seed, *name.encode()]))
            case = replace(case, measured=replace(case.measured, stream=plant(case.measured.stream)))
        return outcome_of(Compared(case, limits_of(case, {})).verdict, named)


def outcome_of(verdict: Verdict, named: Named) -> str:
    """The outcome of a verdict on a condition that the findings `named` name."""
    found = {(each.kind, each.of) for each in verdict.findings}
    for each in verdict.findings:  # a mass that the motion does not distinguish from the planted one
        for kind, of in named - found:
            if each.kind == kind == "mass" and f"does not distinguish it from mass of {of}" in each.text:
                found = (found - {(each.kind, each.of)}) | {(kind, of)}
    if verdict.outcome == "failed":
        if found == named:
            return "named"
        if found and all(kind in WITHOUT_CAUSE for kind, _ in found):
            return "failed without cause"
    if verdict.outcome == "passed" and not found:
        return "not observable" if named & {(each.kind, each.of) for each in verdict.unobservable} else "rightly passed"
    return f"wrong: {verdict.outcome}, {sorted(found)} in place of {sorted(named)}"

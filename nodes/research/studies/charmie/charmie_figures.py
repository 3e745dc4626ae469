"""Plots of CHARMIE's study."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np

from nodes.research.pages.style import BLUE, GREEN, GREY, INK, MUTED, PINK, VERMILION, legend_below
from nodes.research.studies.charmie.actuator_loads import Efforts
from nodes.research.studies.charmie.charmie_claims import saved, times, validation_of
from nodes.research.studies.charmie.charmie_runs import COMPILED, MODELS, NUMPY
from nodes.research.studies.charmie.spring_study import SpringStudy

AXES = ("x", "y", "z")
DOTS = 40
TICKS = (-0.6, 0.0, 0.6)  # m; labels of closer ticks would overlap
# {body that is not of the main chains: (colour, line width)}
AUXILIARY = {
    **{f"link_{name}_{part}": (VERMILION, 1.1) for name in ("4d", "5d") for part in ("cylinder", "rod")},
    **{f"link_{name}_{part}": (GREEN, 1.1) for name in ("5s", "4slb", "4srb") for part in ("lower", "upper")},
    **dict.fromkeys(("link_4sla", "link_4slc", "link_4sra", "link_4src"), (GREEN, 1.1)),
    **dict.fromkeys(("finger_a", "finger_b"), (PINK, 1.0)),
}


def poses(results: Any, figure: Any) -> None:
    """Draw all bodies at several instants: bodies of the main chains black, the other bodies in colour."""
    found = results.parts["clouds"]
    for place, (t, clouds) in enumerate(found.items()):
        axis = figure.add_subplot(1, len(found), place + 1, projection="3d")
        for name, cloud in clouds.items():
            color, width = AUXILIARY.get(name, (INK, 0.8))
            for one, other in _edges(cloud.shape):
                axis.plot(*zip(one, other, strict=True), color=color, lw=width)
        claw = clouds["link_12a"].C
        axis.plot(*claw[:, None], "o", color=BLUE, ms=6, zorder=9)
        axis.set(xlim=(-0.75, 0.75), ylim=(-0.75, 0.75), zlim=(0, 1.5), title=f"t = {t:g} s")
        axis.set(xlabel="x (m)", ylabel="y (m)", zlabel="z (m)")
        axis.set_xticks(TICKS)
        axis.set_yticks(TICKS)
        axis.computed_zorder = False
        axis.set_box_aspect((1, 1, 1), zoom=1.05)
        axis.view_init(elev=18, azim=122)


def _edges(corners: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """(start point, end point) of each edge of boxes, or of one straight line.

    corners  (n, 3) points: the 8 corners of each box. If n is not a multiple of 8, the points lie on a straight line,
             whose only edge joins the first point and the last point
    """
    if len(corners) % 8:
        yield corners[0], corners[-1]
        return
    for box in corners.reshape(-1, 8, 3):
        for i, j in combinations(range(8), 2):
            if bin(i ^ j).count("1") == 1:
                yield box[i], box[j]


def claw(results: Any, figure: Any) -> None:
    """Draw figure 12: position of the claw over time.

    Lines show this program's results, markers those of other engines.
    """
    found = validation_of(results)
    _compared(figure, found.times, found.ours.claw, {name: o.claw for name, o in found.others.items()}, "m")


def floor(results: Any, figure: Any) -> None:
    """Draw figure 13: force of body 2 on body 3 over time, in the axes of body 3.

    Lines show this program's results, markers those of other engines.
    """
    found = validation_of(results)
    _compared(figure, found.times, found.ours.force, {name: o.force for name, o in found.others.items()}, "N")


def _compared(figure: Any, t: np.ndarray, ours: np.ndarray, others: dict[str, np.ndarray], unit: str) -> None:
    axes = figure.subplots(1, 3, sharex=True)
    for column, axis in enumerate(axes):
        axis.plot(t, ours[:, column], color=BLUE, lw=2.2, label="this program")
        for marker, (name, other) in zip(("o", "x", "+"), others.items(), strict=False):
            there = np.flatnonzero(np.isfinite(other[:, column]))
            step = max(1, len(there) // DOTS)
            # each engine's markers start at another sample, so that none hides another
            shown = there[(step // 2 if marker == "x" else 0) :: step]
            axis.plot(t[shown], other[shown, column], marker, ls="", color=INK, ms=4, mfc="none", label=name)
        axis.set_title(f"{AXES[column]} ({unit})")
        axis.set_xlabel("time (s)")
        axis.ticklabel_format(useOffset=False)
    legend_below(figure, axes[:1])


def computed(results: Any, figure: Any) -> None:
    """Draw table 5: the computing time of 1000 time steps against the number of bodies, and the share of dynamics in
    this time, in percent."""
    left, right = figure.subplots(1, 2)
    found = [times(results, model) for model in MODELS]
    bodies = [each.bodies for each in found]
    for way, color in ((NUMPY, BLUE), (COMPILED, VERMILION)):
        for what, dash in (("kinematics", "--"), ("with dynamics", "-")):
            series = [1e3 * (each.kinematics if what == "kinematics" else each.whole)[way] for each in found]
            left.plot(bodies, series, dash, marker="o", color=color, label=f"{way}: {what}")
        at = np.arange(len(MODELS)) + (0.2 if way == COMPILED else -0.2)
        bars = right.bar(at, [100 * share for share in saved(results, way)], 0.38, color=color, label=way)
        right.bar_label(bars, fmt="%.0f", fontsize=8, color=MUTED)
    ends = np.array([bodies[0], bodies[-1]])
    left.plot(ends, 1e3 * found[0].kinematics[NUMPY] * ends / ends[0], ":", color=MUTED, label="proportional")
    left.set(xscale="log", yscale="log", xlabel="bodies", ylabel="time of 1000 steps (ms)", title="1000 steps")
    left.set_xticks(bodies, [str(n) for n in bodies])
    left.xaxis.set_minor_formatter("")
    right.axhspan(60, 70, color=GREY, alpha=0.15, lw=0)
    right.text(len(MODELS) - 0.5, 70.5, "the paper's 60 to 70 %", ha="right", color=MUTED, fontsize=8)
    right.set_xticks(range(len(MODELS)), MODELS)
    right.set(ylim=(0, 100), ylabel="time saved without dynamics (%)", title="Share of the dynamics")
    right.grid(axis="x", visible=False)
    legend_below(figure, [left], columns=2)


def actuators(results: Any, figure: Any) -> None:
    """Draw efforts over the validation motion.

    The left plot shows the linear actuators and the springs, the right plot the most heavily loaded joints.
    """
    found = validation_of(results).efforts
    left, right = figure.subplots(1, 2)
    _linear(left, found)
    rows = sorted(range(len(found.actuators)), key=lambda k: -_share(found, k))
    turning = [k for k in rows if found.actuators[k].unit == "N m"][:6]
    colors: dict[str, str] = {}
    for column in turning:
        name = found.actuators[column].name
        side, _, joint = name.partition("_")
        color = colors.setdefault(joint, (BLUE, VERMILION, GREEN, PINK, GREY, INK)[len(colors)])
        right.plot(found.times, found.effort[:, column], "--" if side == "left" else "-", color=color, label=name)
    right.set(xlabel="time (s)", ylabel="torque (N m)", title="Joints with the largest share of their limit")
    right.legend(ncols=2, loc="best")


def _share(found: Efforts, column: int) -> float:
    limit = found.actuators[column].effort_limit
    return float(np.abs(found.effort[:, column]).max() / limit) if limit else 0.0


def _linear(axis: Any, found: Efforts) -> None:
    axis.plot(found.times, found.of("lift_rod"), color=BLUE, label="lift actuator 4d")
    axis.plot(found.times, found.of("tilt_rod"), color=VERMILION, label="tilt actuator 5d")
    axis.plot(found.times, found.tensions["tilt_spring"], color=VERMILION, ls=":", label="tilt spring 5s")
    axis.plot(found.times, found.tensions["balance_l"], color=BLUE, ls=":", label="balancing spring 4slb, each")
    axis.set(xlabel="time (s)", ylabel="push of actuator, pull of spring (N)", title="Linear actuators and springs")
    _headroom(axis, 0.3)
    axis.legend(loc="upper center", ncols=2)


def tuned_springs(results: Any, figure: Any) -> None:
    """Draw the forces of the linear actuators over the squatting and leaning motion, before and after tuning of the
    springs."""
    study: SpringStudy = results.parts["springs"]
    axes = figure.subplots(1, len(study.tuned))
    for axis, tuned in zip(axes, study.tuned, strict=True):
        for what, found, dash in (("before", study.before, "--"), ("after", study.after, "-")):
            force = found.of(tuned.actuator)
            spring = tuned.before if what == "before" else tuned.after
            rms = tuned.rms_before if what == "before" else tuned.rms_after
            label = f"{what}: {spring.stiffness:.0f} N/m, {spring.pretension:.0f} N; RMS {rms:.1f} N"
            axis.plot(found.times, force, dash, color=GREY if what == "before" else VERMILION, label=label)
        axis.axhline(0.0, color=MUTED, lw=0.8)
        name = "lift actuator 4d" if tuned.actuator == "lift_rod" else "tilt actuator 5d"
        axis.set(xlabel="time (s)", ylabel="force (N)", title=name)
        _headroom(axis, 0.25)
        axis.legend(loc="upper center")


def _headroom(axis: Any, share: float) -> None:
    """Extend the y range upward by a fraction `share` of its height, to make room for a legend."""
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + share * (high - low))

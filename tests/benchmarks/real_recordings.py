"""The bars for recordings of real machines: `armswing import`, `hil fit --check`, `hil fit` and `hil report` on them.

    python tests/benchmarks/real_recordings.py FOLDER [--only tiago,double_pendulum,ricmonk,others] [--faults]

FOLDER has the public recordings that columns/README.md names, in the folders tiago, double_pendulum, ricmonk, acromonk
and simple_pendulum; none of them is part of this project. A folder that is not there is left out. Every recording goes
through the commands that a user types, with a table of columns from columns/; --faults also plants faults in the log of
TIAGo (log_faults.py, some minutes). NRMS is the rms error of the held-out efforts over their standard deviation.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodes.cli.application import run
from nodes.hil.report.reading import read_case
from nodes.hil.report.verdict import Compared, limits_of

COLUMNS = Path(__file__).with_name("columns")
TIAGO_BARS = {"torso_lift": 0.40, "arm_1": 0.325, "arm_2": 0.29, "arm_3": 0.33, "arm_4": 0.28}
NOISE = 0.03  # of an NRMS of TIAGo
OF_THEIRS = 0.7  # of the NRMS by the parameters that the laboratory published
HALF = 0.5  # error of RicMonk's report after the fit, over that before
OF_CONSISTENCY = 0.01  # NRMS that inertias of a positive density may cost
FAULTS_BAR = 16
RICMONK = ("single_ZF", "single_ZB", "single_BF", "single_FB", "3x_forward", "6x_forward")
ACROMONK = ("ZB_pd_1x", "ZF_tvlqr_1x", "BF_pd_5x", "BF_tvlqr_1x", "BF_tvlqr_5x")
PENDULUM = ("energy_shaping", "energy_shaping_1kg", "pd_system_identification")
TIAGO_FINDINGS = {  # what is wrong there: a few steps of the wrist's currents
    "few values: arm_5_joint",
    "few values: arm_6_joint",
    "few values: arm_7_joint",
    "unit of effort: arm_6_joint",
}


@dataclass(frozen=True)
class Bar:
    """A figure beside its bar; `detail` is text for the table."""

    what: str
    found: float
    bar: float
    is_met: bool
    detail: str = ""


def at_most(what: str, found: float, bar: float, detail: str = "") -> Bar:
    return Bar(what, found, bar, found <= bar, detail)


def command(*words: object) -> tuple[int, str]:
    """(exit code, standard output) of an armswing command; its lines on the error stream are shown if it is refused."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = run([str(word) for word in words])
    if code and not out.getvalue():
        print(errors.getvalue(), file=sys.stderr)
    return code, out.getvalue()


class Bench:
    """Recordings below `folder`, imported into `work`.

    refused  {recording: kinds of findings that refuse something there}
    costs    {recording and joint: NRMS of the written model above that of the fit without the condition}
    """

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.work = folder, work
        self.refused: dict[str, set[str]] = {}
        self.costs: dict[str, float] = {}

    def imported(self, table: str, *logs: str, robot: str = "", name: str = "") -> Path:
        """The recording of a log, by the table of columns `table` in columns/ and the robot's file below the folder."""
        columns = self.work / f"{table}.toml"
        text = (COLUMNS / f"{table}.toml").read_text()
        columns.write_text(text.replace("ROBOT", robot or table))
        out = self.work / f"{name or Path(logs[0]).stem}.mcap"
        code, _ = command("import", *(self.folder / log for log in logs), "--columns", columns, "-o", out, "--force")
        if code:
            raise SystemExit(f"{out.stem}: armswing import ended with exit code {code}")
        return out

    def checked(self, recording: Path) -> list[dict[str, Any]]:
        """The findings of `armswing hil fit --check`."""
        _, said = command("hil", "fit", recording, "--check", "--json")
        (findings,) = json.loads(said).values()
        self.refused[recording.stem] = {f"{each['kind']}: {each['joint']}" for each in findings if each["refuses"]}
        return list(findings)

    def fitted(self, recording: Path, *options: object) -> dict[str, Any]:
        """The verdict of `armswing hil fit`."""
        _, said = command("hil", "fit", recording, "--json", "-o", self.work / f"{recording.stem}_fit", *options)
        verdict = dict(json.loads(said))
        for joint in verdict["joints"]:
            if joint["how"] == "fitted":
                self.costs[f"{recording.stem} {joint['name']}"] = joint["after"] - joint["unconstrained"]
        return verdict


def kinds(findings: Sequence[dict[str, Any]]) -> str:
    """The findings in a few words."""
    words = [f"{each['kind']} {each['joint']}".strip() + ("" if each["refuses"] else " (hint)") for each in findings]
    return "; ".join(dict.fromkeys(words)) or "nothing"


def tiago(bench: Bench) -> Iterator[Bar]:
    files = [f"tiago/tiago_{channel}.csv" for channel in ("position", "velocity", "effort")]
    robot = str(bench.folder / "tiago/tiago_48_schunk.urdf")
    recording = bench.imported("tiago", *files, robot=robot, name="tiago")
    findings = bench.checked(recording)
    verdict = bench.fitted(recording)
    for joint in verdict["joints"]:
        short = joint["name"].removesuffix("_joint")
        if short in TIAGO_BARS:
            detail = f"{joint['how']}; the model before {joint['before']:.3g}"
            yield at_most(f"TIAGo {short}, NRMS", joint["after"], TIAGO_BARS[short] + NOISE, detail)
    wrist = {each["name"]: each["how"] for each in verdict["joints"]}
    named = bench.refused["tiago"] >= TIAGO_FINDINGS
    left = [name for name in ("arm_6_joint", "arm_7_joint") if wrist[name] != "refused"]
    is_lag = any(each["kind"] == "filtered velocity" for each in findings)
    missing = (not named) + (not is_lag) + len(left)
    yield at_most("TIAGo wrist, lag of velocities: not named", missing, 0, kinds(findings))


def laboratory(bench: Bench, build: str) -> str:
    """Name of a URDF with the parameters that the laboratory published, and of the corrections with its rotors.

    The efforts of a double pendulum depend on sums of masses only. The masses here are large enough that the published
    inertias (about the joints) are those of bodies; the efforts are the same. The laboratory's dry friction, cf
    arctan(100 v), goes to cf pi / 2; the rotors' reaction on the first link, gr Ir, is left out.
    """
    text = (bench.folder / f"double_pendulum/{build}/identified_by_the_lab.yml").read_text()
    p = {key: float(value) for key, _, value in (line.partition(":") for line in text.splitlines() if line.strip())}
    first = p["m2"] * p["r2"]
    lower = max(p["m2"], 1.05 * first**2 / p["I2"])
    moved = p["m2"] - lower
    moment, inertia = p["m1"] * p["r1"] + moved * p["l1"], p["I1"] + moved * p["l1"] ** 2
    upper = max(p["m1"], 1.05 * moment**2 / inertia)
    links = (("upper", upper, moment, inertia, 0.0), ("lower", lower, first, p["I2"], -p["l1"]))
    parts, rotors, parent = ['<robot name="double_pendulum"><link name="base"/>'], "", "base"
    for number, (joint, (link, mass, moment, about, z)) in enumerate(zip(("shoulder", "elbow"), links, strict=True), 1):
        center, across = -moment / mass, about - moment**2 / mass
        friction = p[f"cf{number}"] * math.pi / 2.0
        parts.append(
            f'<link name="{link}"><inertial><origin xyz="0 0 {center}"/><mass value="{mass}"/>'
            f'<inertia ixx="{across}" iyy="{across}" izz="{across / 10.0}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
            f'<joint name="{joint}" type="revolute"><parent link="{parent}"/><child link="{link}"/>'
            f'<origin xyz="0 0 {z}"/><axis xyz="1 0 0"/><limit lower="-7" upper="7" effort="10" velocity="30"/>'
            f'<dynamics damping="{p[f"b{number}"]}" friction="{friction}"/></joint>'
        )
        rotors += f"[joints.{joint}]\narmature = {p['gr'] ** 2 * p['Ir']}\n"
        parent = link
    (bench.work / f"{build}.urdf").write_text("".join(parts) + "</robot>")
    (bench.work / "rotors.toml").write_text(rotors)
    return f"{build}.urdf"


def double_pendulum(bench: Bench) -> Iterator[Bar]:
    logs = {"A0": ("055032", "061157"), "C0": ("00", "03")}
    idle = {"A0": ("060143", "060440"), "C0": ("12",)}
    for build in logs:
        robot, table = laboratory(bench, build), f"double_pendulum_{build}"
        for name in (*logs[build], *idle[build]):
            log, title = f"double_pendulum/{build}/sys_id_{name}.csv", f"{build} {name}"
            recording = bench.imported(table, log, robot=robot, name=f"{build}_{name}")
            findings = bench.checked(recording)
            if name in idle[build]:
                yield at_most(f"{title}, not named by --check", not findings, 0, kinds(findings))
                continue
            for joint in bench.fitted(recording)["joints"]:
                theirs, ours = joint["before"], joint["after"]
                detail = f"theirs {theirs:.3g}, ours {ours:.3g}, friction alone {joint['friction_alone']:.3g}"
                yield at_most(f"{title} {joint['name']}, NRMS over theirs", ours / theirs, OF_THEIRS, detail)


def ricmonk(bench: Bench) -> Iterator[Bar]:
    for name in RICMONK:
        recording = bench.imported("ricmonk", f"ricmonk/{name}.csv", name=f"ricmonk_{name}")
        bench.checked(recording)
        if name not in ("single_ZF", "single_ZB"):
            continue
        verdict = bench.fitted(recording, "--write", bench.work / f"{name}.toml")
        for joint in verdict["joints"]:
            if joint["after"] is not None:
                detail = f"efforts of {joint['name']}: {joint['before']:.3g} before, {joint['after']:.3g} after"
                share = joint["after"] / joint["before"]
                yield at_most(f"RicMonk {name}, NRMS after over before", share, math.inf, detail)
        if not verdict["second_report"]:
            yield at_most(f"RicMonk {name}, report after over before", math.inf, HALF, "no better model to report on")
            continue
        start_s = float(verdict["second_report"].partition(" from ")[2].split()[0])
        after = json.loads((bench.work / f"{recording.stem}_fit/report/verdict.json").read_text())["joints"]
        case = read_case(recording, None, start_s=start_s)
        before = Compared(case, limits_of(case, {})).verdict.joints
        for was, now in zip(before, after, strict=True):
            detail = f"rms of short predictions, rad: {was.rms:.3g} before, {now['rms']:.3g} after"
            yield at_most(f"RicMonk {name}, report after over before: {was.name}", now["rms"] / was.rms, HALF, detail)


def others(bench: Bench) -> Iterator[Bar]:
    robot = str(bench.folder / "simple_pendulum/simple_pendulum.urdf")
    logs = [("acromonk", f"acromonk/{name}.csv", "") for name in ACROMONK]
    logs += [("simple_pendulum", f"simple_pendulum/{name}.csv", robot) for name in PENDULUM]
    for table, log, given in logs:
        bench.checked(bench.imported(table, log, robot=given, name=f"{table}_{Path(log).stem}"))
    yield from ()


SETS: dict[str, Callable[[Bench], Iterator[Bar]]] = {
    "tiago": tiago,
    "double_pendulum": double_pendulum,
    "ricmonk": ricmonk,
    "others": others,
}


def measured(bench: Bench, sets: Sequence[str]) -> Iterator[Bar]:
    """All bars of some sets, the false refusals last."""
    for name in sets:
        if name == "others" or (bench.folder / name).is_dir():
            yield from SETS[name](bench)
    if bench.costs:
        worst = sorted(bench.costs, key=bench.costs.__getitem__, reverse=True)
        detail = f"{worst[0]}; then {', '.join(f'{name} {bench.costs[name]:.3g}' for name in worst[1:3])}"
        what = f"NRMS of written inertias over the free fit's, {len(worst)} joints"
        yield at_most(what, bench.costs[worst[0]], OF_CONSISTENCY, detail)
    false = {name: found - (TIAGO_FINDINGS if name == "tiago" else set()) for name, found in bench.refused.items()}
    wrong = [f"{name}: {', '.join(sorted(found))}" for name, found in false.items() if found]
    count = sum(map(len, false.values()))
    yield at_most(f"false refusals in {len(bench.refused)} recordings", count, 0, "; ".join(wrong))


def planted(folder: Path) -> Bar:
    """The bar of log_faults.py."""
    script = Path(__file__).with_name("log_faults.py")
    said = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True, check=True).stdout
    named = int(said.splitlines()[-1].split()[0])
    return Bar("faults planted in TIAGo's log, named of 19", named, FAULTS_BAR, named >= FAULTS_BAR)


def main() -> None:
    parser = argparse.ArgumentParser(description="Bars for recordings of real machines.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(SETS), help=f"of {', '.join(SETS)}")
    parser.add_argument("--faults", action="store_true", help="also plant faults in TIAGo's log")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        bars = measured(Bench(given.folder.resolve(), Path(work)), given.only.split(","))
        for bar in (*bars, planted(given.folder / "tiago")) if given.faults else bars:
            failed += not bar.is_met
            shown = "" if math.isinf(bar.bar) else f"bar {bar.bar:.3g}"
            print(
                f"{'' if bar.is_met else 'MISSED':7}{bar.what:58}{bar.found:8.3g}  {shown:10} {bar.detail}", flush=True
            )
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""`armswing hil fit`: fits a robot's inertias and friction to its recordings, and writes the corrected robot."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.commands.recordings.log_checks import check_recordings
from nodes.cli.progress import ProgressBar
from nodes.cli.terminal import (
    AsJson,
    InputError,
    UnavailableError,
    print_json,
    print_line,
    print_table,
    require_recording,
    working,
)

EXIT_CODES = {"better": 0, "not better": 1, "refused": 2, "not certain": 3}
LIBRARIES = ("matplotlib", "jinja2", "scipy")
ERRORS = ("zero", "gain", "delay")
ACTUATION = ("backlash", "stiffness")  # by output error alone
METHODS = ("auto", "inverse", "output-error")
MOST_HINTS = 6  # printed per recording
PARAMETERS = ("inertia", "friction", *ERRORS, *ACTUATION)


def fit(
    recordings: Annotated[
        list[Path], typer.Argument(metavar="RECORDING...", help="Recordings of one robot.", show_default=False)
    ],
    robot: Annotated[
        str, typer.Option("--robot", help="A robot or a model file in place of the recorded one.", show_default=False)
    ] = "",
    params: Annotated[
        str,
        typer.Option("--params", help=f"What is fitted: {', '.join(PARAMETERS)}; always friction."),
    ] = "inertia,friction",
    method: Annotated[
        str, typer.Option("--method", help=f"How zero, gain, delay and the like are fitted: {', '.join(METHODS)}.")
    ] = "auto",
    holdout: Annotated[
        float, typer.Option("--holdout", help="Last share of the motion, which is predicted and not fitted.")
    ] = 0.3,
    write: Annotated[
        list[Path] | None,
        typer.Option(
            "--write",
            help="File of the corrected robot, .toml (corrections) or .urdf. Repeatable.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for page, plots and verdict.json.", show_default="RECORDING_fit"),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only check the recordings: times, channels, units, exchanged columns.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a robot's inertias and friction to recorded positions and efforts, and write the corrected robot.

    Exit code 0 if the corrected model predicts the last part of the motion, of which nothing was fitted, better than
    the model before; 1 if not, or if it predicts any joint worse than before or than by its mean; 3 if the difference
    may be chance; 2 if nothing can be fitted, with the reason.

    The page shows measured and predicted efforts before and after for each joint, spectra of the residuals, and the
    combinations of parameters that the motion determines, with intervals of 95 %. What the recording cannot tell is
    listed with the motion or the load that would tell it. Inertias stay as they are if they gain nothing beyond
    friction. Joints whose efforts contradict the others are fitted apart, and nothing is written for them.

    The recordings are checked first. A joint whose efforts a finding refuses is left out by name; findings that refuse
    nothing are printed as hints. If a finding refuses the positions of a joint, nothing is fitted.

    With --check, nothing is fitted: the findings about the recordings are printed. Exit code 2 if one of them refuses a
    joint or a recording, otherwise 0.

    A model that is not better for certain is not written. With --write, a report like that of `armswing hil report` on
    the held-out part, with the corrected model, is written into the folder "report" of --output, if the model can be
    simulated with what was recorded; its outcome does not change the exit code.

    Errors of the measurement can be searched for as well: zero (an encoder's zero, rad or m), gain (a motor constant,
    relative) and delay (of the efforts, s). They are reported with intervals.

    Where commands were recorded, these, backlash and the servos' stiffness are also fitted by output error: the model
    is simulated with the commands, and its positions are compared with the measured ones. If it predicts better, its
    estimates replace those by the efforts, and its friction and servos are written; a contradiction between the two is
    printed, with exit code 3. --method inverse leaves this out; --method output-error ends with exit code 2 if it is
    not possible.
    """
    for file in recordings:
        require_recording(file)
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if missing:
        raise UnavailableError(f"a fit needs {' and '.join(missing)}; install with: pip install 'armswing[studies]'")
    if check:
        check_recordings(recordings, robot, as_json)
    # numpy and scipy: not for the help page
    from nodes.framework.recording.new_file import write_file
    from nodes.hil.alignment.streams import StreamError
    from nodes.hil.fitting import folder
    from nodes.hil.fitting.checking import check_case, joints_left_out
    from nodes.hil.fitting.correcting import corrections_of, creep_notes
    from nodes.hil.fitting.output_error import add_output_error, require_commands
    from nodes.hil.fitting.output_error_corrections import with_output_error
    from nodes.hil.fitting.reading import read_fit_case
    from nodes.hil.fitting.second_report import report_on_held_out
    from nodes.hil.fitting.verdict import KIND, units_of_efforts, verdict_of
    from nodes.hil.report.folder import foreign_file
    from sim_core.identification import fitting
    from sim_core.identification.result import BETTER

    chosen = _chosen(params, method)
    if not 0.0 < holdout < 1.0:
        raise InputError(f"--holdout {holdout:g}: expected a share above 0 and below 1, as in --holdout 0.3")
    output = Path(f"{recordings[0].stem}_fit") if output is None else output
    check_output(output, foreign_file(output, KIND), "fit")
    for path in write or []:
        if path.suffix not in folder.FORMATS:
            raise InputError(f"--write {str(path)!r}: the ending must be {' or '.join(folder.FORMATS)}")
    try:
        with working(f"reading {', '.join(file.name for file in recordings)}"):
            case = read_fit_case(recordings, robot)
        for path in write or []:
            if path.exists() and Path(case.robot).exists() and path.samefile(case.robot):
                raise InputError(f"--write {str(path)!r} is the robot's own file; name another file")
        commanded = require_commands(case) if method == "output-error" else None
        with working("checking"):
            findings = check_case(case)
            left_out = joints_left_out(findings, case.names)
        with ProgressBar() if sys.stderr.isatty() else contextlib.nullcontext() as bar:
            result = fitting.fit(
                case.mechanism,
                case.names,
                case.recordings,
                holdout=holdout,
                inertia="inertia" in chosen,
                errors=[name for name in ERRORS if name in chosen],
                unit_unknown=case.unit_unknown,
                constant_sd=case.constant_sd,
                left_out=left_out,
                progress=lambda done, of: None if bar is None else bar.show("fitting", done, of),
            )
        verdict = verdict_of(case, result, findings)
        kinds, found = [name for name in chosen if name in (*ERRORS, *ACTUATION)], None
        if method != "inverse" and (kinds or method != "auto"):
            with working("simulating the recorded commands"):
                found = add_output_error(verdict, case, commanded, kinds, "inertia" in chosen, holdout)
    except (StreamError, fitting.NothingToFitError) as error:
        raise InputError(str(error)) from None
    corrections, not_written = with_output_error(
        corrections_of(result, case.mechanism, case.robot), found, case.mechanism
    )
    verdict.notes += [*not_written, *creep_notes(corrections, case.sticking)]
    folder.begin(verdict, corrections, output)
    written = list(write or []) if verdict.outcome == BETTER else []
    if write and not written:
        verdict.notes.append(f"not written: {', '.join(map(str, write))}; the corrected model is {verdict.outcome}")
    if written:
        with working("predicting the held-out part with the corrected model"):
            corrected = output / folder.CORRECTED
            verdict.second_report = report_on_held_out(case, result, corrected, output / folder.REPORT)
    for path in written:
        text, notes = folder.corrected_file(path, corrections, case.mechanism, verdict)
        write_file(path, text)
        verdict.notes += [f"{path.name}: {note}" for note in notes]
    with working("drawing"):
        folder.write(verdict, result, units_of_efforts(case), output)
    if as_json:
        print_json(verdict)
    else:
        _print(verdict, [output / "index.html", *written])
    raise typer.Exit(EXIT_CODES[verdict.outcome])


def _chosen(params: str, method: str) -> list[str]:
    if method not in METHODS:
        raise InputError(f"--method {method}: no such method; choose of {', '.join(METHODS)}")
    chosen = [name.strip() for name in params.split(",") if name.strip()]
    for name in chosen:
        if name not in PARAMETERS:
            raise InputError(f"--params {name}: no such parameters; choose of {', '.join(PARAMETERS)}")
    if "friction" not in chosen:
        raise InputError(f"--params {params}: friction is always fitted; write inertia,friction or friction")
    if "backlash" in chosen and (others := [name for name in ("inertia", "stiffness") if name in chosen]):
        raise InputError(
            f"--params {params}: backlash cannot be told from {' and '.join(others)}; "
            "write friction,backlash, and of zero, gain and delay what is unknown"
        )
    if method == "inverse" and (unseen := [name for name in ACTUATION if name in chosen]):
        raise InputError(f"--params {unseen[0]}: only output error sees it; leave out --method inverse")
    return chosen


def check_output(folder: Path, foreign: str, what: str) -> None:
    """Raise InputError unless a folder of results can be written.

    foreign  name of a file in the folder that armswing did not write; "" if there is none
    what     kind of the results, such as "report"
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {str(folder)!r} is a file; expected a folder")
    parent = folder.absolute().parent
    if not parent.is_dir():
        raise InputError(f"--output {str(folder)!r}: there is no folder {str(parent)!r}; create it first")
    if foreign:
        raise InputError(
            f"--output {str(folder)!r} holds {foreign!r}, which no {what} wrote; name an empty or a new folder"
        )
    if not os.access(folder if folder.exists() else parent, os.W_OK):
        raise InputError(f"--output {str(folder)!r} cannot be written; name a folder that you may write to")


def _print(verdict: Any, files: list[Path]) -> None:
    rows = [
        (
            joint.name,
            *(_number(x) for x in (joint.before, joint.friction_alone, joint.after)),
            joint.change or joint.how,
        )
        for joint in verdict.joints
    ]
    print_table(("joint", "before", "friction alone", "after", ""), rows)
    print_line(f"\n{verdict.outcome}: {verdict.reason}")
    if not verdict.inertias_fitted:
        print_line("inertias are kept: they gain nothing beyond friction")
    for joint in verdict.joints:
        if joint.why:
            print_line(f"{joint.how}: {joint.name}: {joint.why}")
    for error in verdict.errors:
        if error.is_found:
            line = f"{error.name} is {error.value:.3g}, between {error.low:.3g} and {error.high:.3g}"
            print_line(f"error of the measurement: {line}")
    if verdict.output_error is not None:
        _print_output_error(verdict.output_error)
    report = [verdict.second_report] if verdict.second_report else []
    masses = [verdict.masses] if verdict.masses else []
    for line in (*masses, *verdict.more_friction, *verdict.notes, *_hints(verdict), *report):
        print_line(line)
    unknown = f"{len(verdict.refusals)} that cannot be known from these recordings"
    print_line(f"{len(verdict.parameters)} combinations of parameters with intervals; {unknown}")
    print_line(f"wrote {', '.join(map(str, files))}")


def _print_output_error(found: Any) -> None:
    print_line(f"\noutput error, {found.segments} segments of {found.segment_s:.3g} s: {found.outcome}")
    print_line("rms error of the held-out positions, rad or m:")
    rows = [(each.name, f"{each.before:.3g}", f"{each.after:.3g}") for each in found.joints]
    print_table(("joint", "before", "after"), rows)
    for each in (*found.actuation, *found.friction):
        if each.is_found:
            print_line(f"by output error: {each.name} is {each.value:.5g}, between {each.low:.5g} and {each.high:.5g}")


def _hints(verdict: Any) -> Iterator[str]:
    """Findings of the checks that refuse nothing: the first ones, and the number of the others."""
    for file, findings in verdict.findings.items():
        hints = [each.text for each in findings if not each.refuses]
        name = f"{Path(file).name}: " if len(verdict.findings) > 1 else ""
        yield from (f"hint: {name}{text}" for text in hints[:MOST_HINTS])
        if (more := len(hints) - MOST_HINTS) > 0:
            yield f"{name}{more} more {'hint is' if more == 1 else 'hints are'} in verdict.json"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"

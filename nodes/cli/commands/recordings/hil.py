"""`armswing hil`: checks a robot before its first run, compares its recordings with the model, and fits the model."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from nodes.cli.commands.recordings import exciting
from nodes.cli.commands.recordings.fitting import check_output, fit
from nodes.cli.terminal import (
    AsJson,
    Domain,
    InputError,
    UnavailableError,
    parse_assignments,
    print_json,
    print_line,
    print_table,
    require_recording,
    working,
)
from nodes.framework.plan.files.file import load_plan
from sim_core.support.suggestion import did_you_mean

EXIT_CODES = {"passed": 0, "failed": 1, "not certain": 3}
LEAST_FREE_GB = 0.2
SIGNALLED = 128  # exit code of a launch that a signal ended, less the signal's number
LIBRARIES = ("matplotlib", "jinja2")

app = typer.Typer(
    epilog="Example: armswing hil report measured.mcap predicted.mcap",
    no_args_is_help=True,
)


@app.command(epilog="Example: armswing hil report measured.mcap predicted.mcap --limit rms_deg=0.3 --output compared")
def report(
    recording: Annotated[
        Path,
        typer.Argument(
            help="Recording of the measurement, and also of the prediction if no second is given.", show_default=False
        ),
    ],
    second: Annotated[
        Path | None, typer.Argument(metavar="[RECORDING2]", help="Recording of the prediction.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the page and its plots; by default RECORDING_report.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", help="name=value, as in rms_deg=0.3: limit of an error measure. Repeatable.", show_default=False
        ),
    ] = None,
    measured: Annotated[
        str | None, typer.Option("--measured", help="Topic of the measurement.", show_default="<robot>/measured_state")
    ] = None,
    predicted: Annotated[
        str | None, typer.Option("--predicted", help="Topic of the prediction.", show_default="<robot>/state")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare measured with predicted joint states, and write an HTML page with plots and a verdict as JSON.

    Exit code 0 if all limits are kept, 1 if a limit is exceeded, 3 if the clocks of the two streams are too uncertain
    to decide.

    The two streams are aligned in time and compared joint by joint. The page shows bias, RMS and maximum of the
    difference, delay, coherence, and dead encoders. It names errors of channels, such as exchanged joints, wrong signs,
    and efforts in another unit, and shows which changes of the model's masses, frictions and gains would explain the
    measured efforts, and which of them this motion does not show.
    """
    for file in (recording, second):
        if file is not None:
            require_recording(file)
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if missing:
        raise UnavailableError(f"a report needs {' and '.join(missing)}; install with: pip install 'armswing[studies]'")
    from nodes.hil.alignment import streams
    from nodes.hil.fitting.checking import refused_in_log
    from nodes.hil.report import folder as reports
    from nodes.hil.report import reading
    from nodes.hil.report import verdict as verdicts

    output = Path(f"{recording.stem}_report") if output is None else output
    check_output(output, reports.foreign_file(output), "report")
    try:
        with working(f"reading {recording.name}, and predicting with its commands"):
            case = reading.read_case(recording, second, measured, predicted)
        limits = _limits(verdicts, case, limit or [])
        with working("comparing, and searching for causes"):
            compared = verdicts.Compared(case, limits, refused_in_log(recording))
    except streams.StreamError as error:
        raise InputError(str(error)) from None
    with working("drawing"):
        reports.write(compared, output)
    if as_json:
        print_json(compared.verdict)
    else:
        if compared.verdict.wrong_in_log:
            lines = [f"wrong in the log: {text}" for text in compared.verdict.wrong_in_log]
            correct = f"correct the table of columns first: armswing hil fit {recording} --check"
            print_line("\n".join([*lines, correct, ""]))
        _print(compared.verdict, reports, case.sliding)
        print_line(f"\nwrote {output / 'index.html'}")
    raise typer.Exit(EXIT_CODES[compared.verdict.outcome])


def _limits(verdicts: Any, case: Any, texts: list[str]) -> Any:
    overrides = parse_assignments(texts, "--limit", "rms_deg=0.3")
    known = verdicts.Limits.__struct_fields__
    for name, value in overrides.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"--limit {name}: no such limit; limits are {', '.join(known)}{hint}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(
                f"--limit {name}={value}: expected a number in the unit at the end of the name, as in "
                f"--limit {name}=0.3"
            )
    try:
        return verdicts.limits_of(case, overrides)
    except ValueError as error:
        raise InputError(f"--limit: {error}") from None


def _print(verdict: Any, reports: Any, sliding: Any) -> None:
    from nodes.hil.report.verdict import delay_lines, excess_lines, note_lines

    rows = []
    for joint in verdict.joints:
        figures = [reports.angle_text(value, joint.name in sliding) for value in (joint.bias, joint.rms, joint.max)]
        delay = "-" if joint.delay_s is None else f"{round(1e3 * joint.delay_s, 2) + 0.0:.2f} ms"
        rows.append((joint.name, *figures, delay, "dead" if joint.dead else "alive"))
    print_table(("joint", "bias", "RMS", "maximum", "delay", "encoder"), rows)
    print_line(f"\n{verdict.paired} instants compared, {verdict.unpaired} without a partner")
    for line in verdict.run:
        print_line(line)
    for source in (verdict.measured, verdict.predicted):
        if source.clock is not None:
            print_line(f"{source.topic}: {source.clock.text}")
        if source.driven:
            print_line(f"{source.topic}: predicted by the model with the {source.driven}")
    for finding in verdict.findings:
        limit = f"; limit {finding.limit}" if finding.limit else ""
        print_line(f"{finding.judged if not finding.certain else finding.judged + ' limits'}: {finding.text}{limit}")
    for line in excess_lines(verdict.exceeded, sliding):
        print_line(f"beyond limits: {line}")
    late = delay_lines(verdict)
    for line in late:
        print_line(line)
    if verdict.passed and not verdict.findings and not late:
        print_line("measured and predicted agree: nothing is beyond its limit")
    for line in note_lines(verdict, sliding):
        print_line(line)
    if verdict.outcome == "not certain":
        print_line(f"not certain: {verdict.reason}")
    if verdict.hints.why_not:
        print_line(f"no hints on parameters: {verdict.hints.why_not}")


app.command(epilog="Example: armswing hil fit measured.mcap --write fitted.toml")(fit)
app.command(epilog=exciting.EXAMPLE)(exciting.excite)


@app.command(epilog="Example: armswing hil check hil_robot")
def check(
    file: Annotated[Path, typer.Argument(help="A launch file (TOML) with the robot's driver.", show_default=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="Values of the file's arguments.", show_default=False),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change the launch file: node.key=value or sim.key=value. Repeatable.", show_default=False
        ),
    ] = None,
    joint: Annotated[
        list[str] | None,
        typer.Option(
            "--joint", help="A joint to move; by default every joint with a servo. Repeatable.", show_default=False
        ),
    ] = None,
    amplitude_deg: Annotated[
        float, typer.Option("--amplitude-deg", help="Amplitude of rotating joints (degrees, at most 15).")
    ] = 1.5,
    amplitude_mm: Annotated[
        float, typer.Option("--amplitude-mm", help="Amplitude of sliding joints (mm, at most 50).")
    ] = 5.0,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Check a robot before its first run: every joint moves a little, back and forth. KEEP CLEAR OF THE ROBOT.

    Starts the drivers of the launch file, but not its controllers, and prints a table of checks that ends with go or no
    go. The checks cover the joints' positions within their limits, signs of motors and encoders, latency and jitter of
    the connection, quality of the clock, and free disk space. Exit code 0 for go, 1 for no go.
    """
    from nodes.framework.launching.launch import launch_plan  # launches: 0.08 s of each help page
    from nodes.hil_check import CheckFinding, HilCheckParams, plan_of_check, servo_joints

    plan = load_plan(file, set_ or [], None, arguments or [])
    if domain is not None:
        plan.domain = domain
    with tempfile.TemporaryDirectory(prefix="armswing") as folder:
        findings = Path(folder) / "findings.json"
        try:
            params = HilCheckParams(joint or [], amplitude_deg, amplitude_mm, file=str(findings))
            joints = servo_joints(plan, joint or [])
            plan = plan_of_check(plan, params, len(joints))
        except ValueError as error:
            raise InputError(f"{file}: {error}") from None
        with contextlib.redirect_stdout(io.StringIO()):
            summary = launch_plan(plan)
        if summary.failed_node or summary.exit_code > SIGNALLED or not findings.is_file():
            # the findings are those of a run that was cut short: they would blame the robot
            raise UnavailableError(f"the check did not run to its end: {summary.ended or 'it wrote no findings'}")
        rows = msgspec.json.decode(findings.read_bytes(), type=list[CheckFinding])
    rows += [CheckFinding(f"node {name}", "no go", reason) for name, reason in summary.holes.items()]
    if summary.refused_commands:
        rows.append(CheckFinding("commands", "no go", summary.ended))
    rows.append(_of_disk(Path.cwd()))
    is_go = summary.exit_code == 0 and all(row.result != "no go" for row in rows)
    if as_json:
        print_json({"go": is_go, "findings": rows})
    else:
        print_table(("what", "result", "found"), [(row.subject, row.result, row.text) for row in rows])
        print_line("\ngo" if is_go else "\nno go")
    raise typer.Exit(0 if is_go else 1)


def _of_disk(folder: Path) -> Any:
    """Check how much space is free on the disk that contains the folder of the recordings."""
    from nodes.hil_check import CheckFinding

    free_gb = 1e-9 * shutil.disk_usage(folder).free
    result = "go" if free_gb >= 1.0 else "note" if free_gb >= LEAST_FREE_GB else "no go"
    return CheckFinding("free disk", result, f"{free_gb:.3g} GB in {folder}; a minute of recording takes some 0.05 GB")


@app.command(
    epilog="Example: armswing hil processor hold_c.toml --node my_controller --program build/arm "
    "--emulator qemu-aarch64 --duration 10"
)
def processor(
    file: Annotated[Path, typer.Argument(help="A launch file (TOML) with the controller.", show_default=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="Values of the file's arguments.", show_default=False),
    ] = None,
    node: Annotated[
        str, typer.Option("--node", help="Node of the controller, which must be a compiled program.")
    ] = "my_controller",
    program: Annotated[
        Path, typer.Option("--program", help="The controller's build for the other processor.", show_default=False)
    ] = Path("my_controller"),
    emulator: Annotated[
        str, typer.Option("--emulator", help="Command that runs this build, such as qemu-aarch64.")
    ] = "",
    duration: Annotated[
        float | None, typer.Option("--duration", help="Simulated duration (s).", show_default=False)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change the launch file: node.key=value or sim.key=value. Repeatable.", show_default=False
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for page and recording.")] = Path("processor"),
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Processor in the loop: compare a controller's commands with the commands of its build for another processor.

    Both builds take part in one lockstep run, but the simulation applies only the commands of the build in the launch
    file. The command writes an HTML page with a histogram of the computing times per reply. Exit code 0 if the
    controller's commands are equal byte for byte; 1 if they differ. The largest difference is then printed in units in
    the last place.
    """
    from nodes.framework.launching.launch import launch_plan  # launches: 0.08 s of each help page
    from nodes.framework.recording.reader import read_recording
    from nodes.hil.processor.comparison import compare_commands, read_times
    from nodes.hil.processor.page import QUANTILES, rows_of, write_page
    from nodes.hil.processor.plan import OTHER, plan_of_processors  # 0.02 s of each help page

    if not program.is_file():
        raise InputError(f"--program {str(program)!r}: no such file")
    plan = load_plan(file, ["sim.mode=lockstep", *(set_ or [])], None, arguments or [], duration)
    plan.domain = plan.domain if domain is None else domain
    if plan.duration_s is None:
        raise InputError(f"{file} has no duration_s; give --duration SECONDS")
    output.mkdir(parents=True, exist_ok=True)
    recording = output / "processor.mcap"
    recording.unlink(missing_ok=True)
    plan, other = plan_of_processors(plan, node, program, emulator, recording.resolve())
    os.environ["ARMSWING_TURN_TIMES"] = str(output.resolve())
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        summary = launch_plan(plan)
    if summary.exit_code != 0 or not recording.is_file():
        raise UnavailableError(f"the run did not reach its end: {summary.ended or shown.getvalue().strip()}")
    found = read_recording(recording)
    robot = plan.robot_of(plan.node(node).namespace)
    compared = compare_commands(found.get(f"{robot}/command"), found.get(f"{robot}/{OTHER}"))
    times = {name: read_times(output / f"{name.replace('/', '.')}.ns") for name in (node, other)}
    page = write_page(output, f"{node} on two processors", compared, times)
    if as_json:
        print_json(
            {
                "equal": compared.equal,
                "text": compared.text,
                "turns": compared.turns,
                "differing": compared.differing,
                "ulps": compared.ulps,
                "turn_p99_s": {name: each.quantile_s(0.99) for name, each in times.items()},
            }
        )
    else:
        print_table(("node", "turns", *(name for name, _ in QUANTILES)), rows_of(times))
        print_line(f"\n{compared.text}\nwrote {page}")
    raise typer.Exit(0 if compared.equal else 1)

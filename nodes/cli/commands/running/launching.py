"""`armswing launch` and `armswing run`: start a whole launch file, or one node beside a live launch."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from nodes.cli.terminal import Domain, InputError, parse_assignments, print_line, print_table, require_recording
from nodes.framework.recording.new_file import write_file
from nodes.framework.recording.places import before_path
from sim_core.support.suggestion import did_you_mean

if TYPE_CHECKING:
    from nodes.framework.plan.launch_plan import Plan


def add_to(app: typer.Typer) -> None:
    """Add the commands `launch` and `run`."""
    app.command(epilog="Example: armswing launch rotary_pendulum --duration 20")(launch)
    app.command(epilog="Example: armswing run launch/examples/my_controller.py:HoldArm --param angle_deg=60")(run)


def _print_keys(requested: bool) -> None:
    """Print every key of a launch file, and end the program."""
    if not requested:
        return
    from nodes.framework.plan.key_reference import TABLES, keys, parameters

    for table in TABLES:
        print_line(f"{table or 'keys above all tables'}")
        print_table(("  key", "type", "default", "what it is"), [(f"  {key}", *rest) for key, *rest in keys(table)])
        print_line()
    for kind in ("stepper", "stabilizer"):
        print_line(f"[sim.{kind}], a table in place of the name: name and")
        print_table(
            (f"  {kind}", "key", "default", "what it is"), [(f"  {name}", *row) for name, *row in parameters(kind)]
        )
        print_line()
    raise typer.Exit


def _print_installed(requested: bool) -> None:
    """Print the installed launch files, and end the program."""
    if not requested:
        return
    from nodes.framework.plan.files.shipped import about, installed_launch_files  # plans: 0.02 s of each help page

    print_table(
        ("launch file", "what it runs"), [(name, about(file)) for name, file in installed_launch_files().items()]
    )
    raise typer.Exit


def _copy(name: Path) -> None:
    """Write an installed launch file, and the installed files to which it refers, to the working folder.

    Raises InputError if there is no such launch file, or if a file with other content exists.
    """
    from nodes.framework.plan.files.shipped import (  # plans: 0.02 s of each help page
        installed_launch_files,
        with_needed_files,
    )

    installed = installed_launch_files()
    if (file := installed.get(name.name.removesuffix(".toml"))) is None:
        raise InputError(
            f"--copy: no launch file {str(name)!r} is installed{did_you_mean(name.name, installed)}; "
            "'armswing launch --list' lists those that are"
        )
    contents = {path: source.read_bytes() for path, source in with_needed_files(file).items()}
    for path, content in contents.items():
        if path.exists() and path.read_bytes() != content:
            raise InputError(f"--copy: {str(path)!r} exists and is different; copy in another folder, or rename it")
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
        print_line(f"wrote {path}")


def _print_arguments(file: Path) -> None:
    """Print the arguments of a launch file."""
    # plans: 0.02 s of each help page
    from nodes.framework.plan.files.arguments import declared_by, text_of
    from nodes.framework.plan.files.document import read_document
    from nodes.framework.plan.files.shipped import launch_file

    declared = declared_by(read_document(launch_file(file)))
    if not declared:
        print_line(f"{file} has no arguments; a table [args] declares them")
    print_table(
        ("argument", "type", "default", "allowed", "what it is"),
        [
            (
                name,
                argument.kind,
                "required" if argument.default is None else text_of(argument.default, quoted=True),
                argument.limits() or "-",
                argument.help,
            )
            for name, argument in declared.items()
        ],
    )


def launch(
    file: Annotated[
        Path,
        typer.Argument(
            help="A launch file (TOML), or the name of an installed one; --list lists them.", show_default=False
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...", help="Values of the file's arguments; --args lists them.", show_default=False
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change the launch file: node.key=value or sim.key=value. Repeatable.", show_default=False
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option("--duration", help="Simulated seconds after which the launch ends.", show_default=False),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            help="Start only the nodes of this host in \\[hosts]. They join the launch on the server's host.",
            show_default=False,
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Continue the recorded lockstep run of this file (.mcap) from the time --at.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        float | None,
        typer.Option(
            "--at",
            help="With --from: simulation time (s) from which the recorded run is continued.",
            show_default=False,
        ),
    ] = None,
    differences: Annotated[
        bool,
        typer.Option(
            "--differences",
            help="With --from: print the options --set that give the launch file the recorded values, and end.",
        ),
    ] = False,
    timing_from: Annotated[
        Path | None,
        typer.Option(
            "--timing-from",
            help="In lockstep, delay and lose messages as the network did in the realtime run of this recording "
            "(.mcap).",
            show_default=False,
        ),
    ] = None,
    view: Annotated[bool, typer.Option("--view", help="Also open the viewer.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Reload a node while the launch runs, whenever the node's file is saved.")
    ] = False,
    domain: Domain = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the summary to this file too.", show_default=False)
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="List every key of a launch file.", is_eager=True, callback=_print_keys)
    ] = False,
    args: Annotated[bool, typer.Option("--args", help="List the arguments of this launch file.")] = False,
    copy: Annotated[
        bool, typer.Option("--copy", help="Write an installed launch file, and the files it needs, here.")
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the installed launch files.", is_eager=True, callback=_print_installed)
    ] = False,
) -> None:
    """Start the simulation server and every node of a launch file, and print a summary at the end.

    With --from, the launch continues a recorded run that has the same robot and settings of the simulation. Each node
    continues from its recorded state, but a node whose code or parameters changed starts fresh. --duration then
    gives the simulation time at which the launch ends.

    Exit code 0 on success; 1 if a required milestone was missed, every command of a node was rejected, some commands
    of a node were invalid, such as NaN, a node's verdict on the run is "failed", or the robot is stopped at the end by
    a guard or an emergency stop; 2 for an invalid plan; 3 if a verdict is "not certain". If a node fails, the exit code
    is the exit code of that node.
    """
    if args:
        _print_arguments(file)
        return
    if copy:
        _copy(file)
        return
    if duration is not None and not 0.0 < duration < float("inf"):
        raise InputError(f"--duration {duration:g}: expected a positive number of seconds")
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise InputError(
            f"--json {str(json_file)!r}: there is no folder {str(json_file.absolute().parent)!r}; create it first"
        )

    # launches: 0.08 s of each help page
    import msgspec

    from nodes.framework.launching.launch import launch_plan, process_began
    from nodes.framework.plan.files.file import load_plan

    timing = [] if timing_from is None else [f"timing_from={msgspec.json.encode(str(timing_from)).decode()}"]
    notes: list[str] = []
    plan = load_plan(file, [*(set_ or []), *timing], host, arguments or [], duration, notes)
    if differences:
        _print_differences(plan, from_)
        return
    if domain is not None:
        plan.domain = domain
    if host is not None:
        given = {"--view": view or None, "--json": json_file, "--from": from_, "--at": at}
        _launch_host(plan, host, watch, [option for option, value in given.items() if value is not None])
    begin = b""
    if plan.timing_from:
        from nodes.framework.simulation.recorded_links import with_recorded_links

        plan, measured = with_recorded_links(plan)
        notes += measured
    if from_ is not None or at is not None:
        begin, more = _begin(plan, from_, at)
        notes += more
    summary = launch_plan(plan, view=view, watch=watch, began=process_began(), begin=begin, notes=notes)
    if json_file is not None:
        write_file(json_file, summary.to_json() + b"\n")
    raise typer.Exit(summary.exit_code)


def _begin(plan: Plan, recording: Path | None, at: float | None) -> tuple[bytes, list[str]]:
    """Return (point of a recorded run at which the plan continues, encoded as bytes; lines to show the user).

    Raises InputError if the recording or the time `at` is missing, or if the run would replace the recording.
    """
    from nodes.framework.simulation.restart.finding import notes, read_restart

    if recording is None or at is None:
        raise InputError("--from and --at must be given together, as in --from run.mcap --at 5.0")
    require_recording(recording)
    _require_that_it_is_kept(plan, recording)
    begin = read_restart(recording, at, plan)
    if plan.duration_s is not None and at > plan.duration_s - plan.sim.step_s / 2.0:
        raise InputError(f"--at {at:g}: the launch ends at t = {plan.duration_s:g} s; give a later end with --duration")
    return begin.encode(), notes(begin, recording)


def _require_that_it_is_kept(plan: Plan, recording: Path) -> None:
    """Raise InputError if a recorder of the plan replaces `recording` when it keeps its previous file as *.before."""
    # launches: 0.08 s of each help page
    from nodes.framework.launching.results import recorded_file
    from nodes.framework.plan.node_classes import load_class

    for node in plan.nodes_on(plan.sim.host):
        file = recorded_file(node, load_class(node.run, plan.folder))
        if file is None or not file.is_file():
            continue
        before = before_path(file.resolve() if file.is_symlink() else file)
        if before.exists() and before.samefile(recording):
            raise InputError(
                f"{recording} would be replaced, because {node.name!r} keeps its previous file {file} under this name; "
                "rename one of the two first"
            )


def _print_differences(plan: Plan, recording: Path | None) -> None:
    """Print one line with the options --set that give a plan the values of the plan in a recording."""
    from nodes.framework.recording.reader import RecordingFile
    from nodes.framework.simulation.replay.replay import plan_of
    from nodes.framework.simulation.restart.overrides import recorded_overrides  # plans: 0.02 s of each help page

    if recording is None:
        raise InputError("--differences needs a recording, as in --differences --from run.mcap")
    require_recording(recording)
    file = RecordingFile(recording)
    for _ in file:
        if file.metadata:
            break
    overrides = recorded_overrides(plan_of(file.metadata, recording), plan)
    if overrides:
        print_line(shlex.join(part for each in overrides for part in ("--set", each)))


def _launch_host(plan: Plan, host: str, watch: bool, given: list[str]) -> NoReturn:
    """Start the nodes of a host other than the host of the simulation server.

    Ends the program with the exit code of that host's launch.

    given  options of the command line that work only on the server's host
    """
    from nodes.framework.launching.hosts.host_launch import launch_host  # other launches have one host

    if given:
        raise InputError(
            f"--host {host}: {given[0]} works only in the launch on the server's host; leave it out on other hosts"
        )
    raise typer.Exit(launch_host(plan, host, watch))


def run(
    node: Annotated[str, typer.Argument(help="Class of the node: path/to/file.py:Class.", show_default=False)],
    name: Annotated[
        str | None,
        typer.Option(
            "--name", help="Name of the node; by default made from the name of the class.", show_default=False
        ),
    ] = None,
    robot: Annotated[
        str | None,
        typer.Option(
            "--robot",
            help="Robot whose topics the node uses; by default the robot of the live launch.",
            show_default=False,
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", help="key=value of a parameter of the node. Repeatable.", show_default=False),
    ] = None,
    domain: Domain = None,
) -> None:
    """Run one node in this terminal, beside a live launch.

    The node outlasts the launch: it waits for the next one and joins it. Ctrl-C ends the node.
    """
    # nodes: 0.07 s of each help page
    from nodes.framework.launching.joining import run_node
    from nodes.framework.transport.registry import NAME_IN_USE, RegistryError

    params = parse_assignments(param or [], "--param")
    try:
        code = run_node(node, name=name, robot=robot, params=params, domain=domain, greet=print_line)
    except RegistryError as error:
        if NAME_IN_USE not in str(error):
            raise
        raise InputError(f"{error}; choose another name with --name") from None
    raise typer.Exit(code)

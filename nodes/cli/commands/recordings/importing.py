"""`armswing import`: writes a log of another program as a recording."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.progress import ProgressBar, interruptible
from nodes.cli.terminal import AsJson, InputError, print_json, print_line, warn, working
from nodes.framework.recording.integrity.search import is_replaceable
from nodes.framework.recording.new_file import write_file

EXAMPLE = Path(__file__).resolve().parents[3] / "hil/logs/example"


def add_to(app: typer.Typer) -> None:
    """Add the command `import`."""
    app.command("import", epilog="Example: armswing import swing.csv --columns swing.toml -o swing.mcap")(import_)


def import_(
    log: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files of one log: CSV or text tables, .npy, .npz, a rosbag2 folder, .mcap, .db3 or .bag.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        Path | None,
        typer.Option("--columns", help="Table of columns (TOML): joints, units, gears, times.", show_default=False),
    ] = None,
    guess: Annotated[
        str | None,
        typer.Option(
            "--guess",
            metavar="ROBOT",
            help="Write a first table of columns for this robot instead, to be completed by hand.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write; by default LOG.mcap or LOG.toml.", show_default=False),
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Write a log to try, swing.csv, and its table of columns, swing.toml.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a log of another program as a recording, with measured states and applied commands of a robot.

    `armswing hil report` and all commands for recordings read the result. A table of columns names the log's columns,
    their units, gears and motor constants; --guess writes a first one. A bag of `armswing export --rosbag2` needs none:
    it becomes the recording that was exported.
    """
    from nodes.hil.logs.files import read_tables
    from nodes.hil.logs.tables import LogError

    if example:
        if log or columns or guess or output:
            raise InputError("--example takes no log and no other option but --force")
        _write_example(force)
        return
    if not log:
        raise InputError("name the files of the log; armswing import --example writes one to try")
    for path in log:
        if not path.exists():
            raise InputError(f"{str(path)!r}: no such file")
        if path.is_dir() and not (path / "metadata.yaml").exists():
            raise InputError(f"{str(path)!r} is a folder without metadata.yaml, and no bag of ROS")
    if columns is None and guess is None and _is_bag_of_armswing(log):
        _restore(log[0], output, force, as_json)
        return
    if (columns is None) == (guess is None):
        raise InputError("give --columns FILE.toml, or --guess ROBOT to write a first one")
    suffix = ".mcap" if guess is None else ".toml"
    target = Path(log[0].resolve().stem + suffix) if output is None else output
    _require_new(target, suffix, force)
    try:
        with working("reading"):
            tables = [table for path in log for table in read_tables(path)]
        if guess is not None:
            _write_guess(tables, guess, target, as_json)
        else:
            assert columns is not None
            _write_recording(tables, columns, target, as_json)
    except LogError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise _not_written(target, error) from None


def _not_written(target: Path, error: OSError) -> InputError:
    return InputError(f"--output {str(target)!r} cannot be written: {error.strerror}")


def _is_bag_of_armswing(log: list[Path]) -> bool:
    """Whether the log is one bag that `armswing export --rosbag2` has written."""
    if len(log) != 1 or not (log[0].is_dir() or log[0].suffix in (".mcap", ".db3")):
        return False
    from nodes.framework.bridges.rosbag2.restore import BagError, has_archive

    try:
        return has_archive(log[0])
    except BagError:
        if log[0].is_dir():
            raise
        return False


def _restore(bag: Path, output: Path | None, force: bool, as_json: bool) -> None:
    """Write the recording that a bag contains."""
    from nodes.framework.bridges.rosbag2.restore import restore

    target = Path(f"{bag.resolve().stem}.mcap") if output is None else output
    _require_new(target, ".mcap", force)
    if target.exists() and target.samefile(bag):
        raise InputError(f"--output {str(target)!r} is the bag itself; name another file")
    try:
        with interruptible() as go_on, ProgressBar(go_on) as bar:
            found = restore(bag, target, lambda done, of: bar.show("importing", done, of))
    except OSError as error:
        raise _not_written(target, error) from None
    if as_json:
        print_json({"file": str(target), "messages": found.messages, "missing": found.missing})
    else:
        print_line(f"wrote {target}: {found.messages} messages")
    if found.missing:
        warn(f"{found.missing} messages of the exported recording are not in the bag, and are missing")
    if found.damage:
        warn(f"the exported recording was damaged: {found.damage}")
    if found.missing or found.damage:
        raise typer.Exit(1)


def _write_example(force: bool) -> None:
    files = sorted(EXAMPLE.iterdir())
    for each in files:
        if Path(each.name).exists() and not force:
            raise InputError(f"{each.name!r} exists; pass --force to replace it")
    for each in files:
        write_file(each.name, each.read_bytes())
    print_line(f"wrote {', '.join(each.name for each in files)}: a swing of a real RicMonk")
    print_line("next: armswing import swing.csv --columns swing.toml -o swing.mcap")


def _require_new(target: Path, suffix: str, force: bool) -> None:
    folder = target.absolute().parent
    if not folder.is_dir():
        raise InputError(f"--output {str(target)!r}: there is no folder {str(folder)!r}; create it first")
    if target.suffix != suffix:
        raise InputError(f"--output {str(target)!r} must end in {suffix}")
    if target.exists() and not force:
        raise InputError(f"--output {str(target)!r} exists; pass --force to replace it")
    if target.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"--output {str(target)!r} cannot be written; name a file in a folder that you may write to")
    if suffix == ".mcap" and not is_replaceable(target):
        raise InputError(f"--output {str(target)!r} is no recording, and is not replaced; name another file")


def _write_guess(tables: Any, robot: str, target: Path, as_json: bool) -> None:
    from nodes.hil.logs.guessing import guess
    from robots.registry import build

    try:
        mechanism = build(robot)
    except ValueError as error:
        raise InputError(f"--guess: {error}") from None
    write_file(target, guess(tables, mechanism, robot))
    if as_json:
        print_json({"file": str(target)})
    else:
        for table in tables:
            for name, where in table.texts.items():
                print_line(f"{table.name}: column {name!r} is not of numbers, and is left out: {where}")
        print_line(f"wrote {target}; check each line, then: armswing import ... --columns {target}")


def _write_recording(tables: Any, columns: Path, target: Path, as_json: bool) -> None:
    from nodes.framework.simulation.description import describe
    from nodes.hil.logs.columns import read_columns
    from nodes.hil.logs.importing import import_log, write_recording

    folders = [columns.absolute().parent]
    with working("importing"):
        table = read_columns(columns)
        found = import_log(tables, table, folders)
        description = describe(found.mechanism, 1e-3 * table.step_ms, (), "")
        messages = write_recording(found, description, target, folders)
    if as_json:
        print_json({"file": str(target), "messages": messages, "samples": len(found.time), "note": found.note})
        return
    span = f"{found.time[0]:.3f} .. {found.time[-1]:.3f} s"
    print_line(f"wrote {target}: {len(found.time)} samples of {len(found.names)} joints, {span}")
    for channel, names in found.note.missing.items():
        if names and channel in ("velocity", "effort"):
            print_line(f"no {channel} of {', '.join(names)}")
    for what, count in found.note.gaps.items():
        print_line(f"{what} has no value in {count} samples")
    for line in found.note.notes:
        print_line(line)

"""`armswing export`: writes a recording in the formats of other programs, or the C client library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from nodes.cli.commands.setup.client_library import FOLDER, write_client
from nodes.cli.progress import ProgressBar, interruptible
from nodes.cli.terminal import AsJson, InputError, print_json, print_line, require_recording, warn
from sim_core.support.suggestion import did_you_mean

STORAGES = ("mcap", "sqlite3")
METADATA = "metadata.yaml"  # file that every rosbag2 folder has


def add_to(app: typer.Typer) -> None:
    """Add the command `export`."""
    examples = "Example: armswing export demo.mcap --csv tables, or armswing export demo.mcap --rosbag2 -o demo_bag"
    app.command(epilog=examples)(export)


def export(
    file: Annotated[
        Path,
        typer.Argument(metavar="RECORDING|client", help="A recording (.mcap), or the word client.", show_default=False),
    ],
    csv: Annotated[Path | None, typer.Option(help="Folder for one CSV file per topic.", show_default=False)] = None,
    rerun: Annotated[Path | None, typer.Option(help="File for Rerun (.rrd).", show_default=False)] = None,
    foxglove: Annotated[
        Path | None, typer.Option(help="File for Foxglove with scene and transforms (.mcap).", show_default=False)
    ] = None,
    rosbag2: Annotated[
        bool, typer.Option("--rosbag2", help="Write a bag of ROS 2, a folder that -o names.", show_default=False)
    ] = False,
    storage: Annotated[
        str | None, typer.Option(help="With --rosbag2: mcap or sqlite3.", show_default=STORAGES[0])
    ] = None,
    run: Annotated[
        int | None,
        typer.Option(
            "--run", min=1, help="Number of the run in the recording, as `armswing info` shows it.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    lang: Annotated[
        str | None, typer.Option(help="With client: language of the client library; only c.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=f"With --rosbag2: the bag's folder, by default RECORDING without .mcap. With client: {FOLDER}.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --rosbag2: replace an existing bag.")] = False,
) -> None:
    """Write a recording as CSV, as a file for Rerun or Foxglove, or as a bag of ROS 2; or write the C client library.

    CSV files contain all runs of the recording one after the other, or only the run that --run selects. A file for
    Rerun contains one run, a file for Foxglove and a bag all runs. "client --lang c" writes the client library for
    nodes in C99, with an example controller and a Makefile.
    """
    has_target = bool(csv or rerun or foxglove or rosbag2)
    if str(file) == "client" and lang is None and not has_target:
        raise InputError("export client: name the language of the client library with --lang c")
    if lang is not None or (output is not None and not rosbag2):
        if str(file) != "client" or lang is None:
            raise InputError(
                f"export {file}: --lang and --output work only with 'client', as in 'armswing export client --lang c', "
                "and --output with --rosbag2"
            )
        write_client(lang, output or Path(FOLDER))
        return
    if not has_target:
        raise InputError("name what to write: --csv FOLDER, --rerun FILE, --foxglove FILE or --rosbag2 -o FOLDER")
    require_recording(file)
    if (storage is not None or force) and not rosbag2:
        raise InputError(f"{'--storage' if storage is not None else '--force'} works only with --rosbag2")
    if rosbag2:
        output = _bag_folder(file, output, storage, force, run)
    has_hole = False
    written: list[Path] = []
    if csv or rerun or foxglove:
        has_hole, written = _write_files(file, csv, rerun, foxglove, run, as_json)
    if rosbag2 and output is not None:
        has_hole |= _write_bag(file, output, storage or STORAGES[0], force)
        written.append(output)
    if as_json:
        print_json([str(path) for path in written])
    elif rosbag2:
        print_line(f"wrote {output}")
    if has_hole:
        raise typer.Exit(1)


def _write_files(
    file: Path, csv: Path | None, rerun: Path | None, foxglove: Path | None, run: int | None, as_json: bool
) -> tuple[bool, list[Path]]:
    """(whether the recording lacks messages before its end, the paths that were written)."""
    # messages: 0.01 s of each help page
    from nodes.framework.recording.integrity.holes import inner
    from nodes.framework.recording.reader import read_recording

    if csv is not None and csv.exists() and not csv.is_dir():
        raise InputError(f"--csv {str(csv)!r} is a file; expected a folder")
    for option, target in (("--rerun", rerun), ("--foxglove", foxglove)):
        _require_new_file(option, target, file)
    recording = read_recording(file, run=run)
    if rerun is not None and recording.run is None and len(recording.runs) > 1:
        count = len(recording.runs)
        raise InputError(f"{str(file)!r} has {count} runs that overlap in time; choose one with --run 1 .. {count}")
    if foxglove is not None and run is not None:
        raise InputError("--foxglove always writes all runs of the recording; leave --run out")
    written: list[Path] = []
    if csv is not None:
        from nodes.framework.recording.csv import export_csv

        written += export_csv(recording, csv)
    if rerun is not None:
        from nodes.framework.bridges.rerun_file import export_rerun

        export_rerun(recording, rerun)
        written.append(rerun)
    if foxglove is not None:
        from nodes.framework.bridges.foxglove_file import export_foxglove

        export_foxglove(file, foxglove)
        written.append(foxglove)
    if not as_json:
        for path in written:
            print_line(f"wrote {path}")
        if csv is not None and recording.run is None and len(recording.runs) > 1:
            print_line(
                f"{len(recording.runs)} runs one after the other, time decreases between them; --run N writes one"
            )
    return bool(inner(recording.holes)), written  # the reader's warning lists them


def _require_new_file(option: str, target: Path | None, source: Path) -> None:
    """Raise InputError if `target` cannot be a file, or is the recording `source` itself."""
    if target is None:
        return
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise InputError(f"{option} {str(target)!r}: expected the path of a file in a folder that exists")
    if target.exists() and target.samefile(source):
        raise InputError(f"{option} {str(target)!r} is the recording itself; choose another file")


def _bag_folder(file: Path, output: Path | None, storage: str | None, force: bool, run: int | None) -> Path:
    """The folder of the bag, after a check of all options of --rosbag2."""
    if storage is not None and storage not in STORAGES:
        raise InputError(f"--storage {storage!r}: expected {' or '.join(STORAGES)}{did_you_mean(storage, STORAGES)}")
    if run is not None:
        raise InputError("--rosbag2 always writes all runs of the recording; leave --run out")
    folder = Path(os.path.normpath(file.with_suffix("") if output is None else output))
    parent = folder.absolute().parent
    if not parent.is_dir():
        raise InputError(f"--output {str(folder)!r}: there is no folder {str(parent)!r}; create it first")
    if os.path.lexists(folder):
        if not (folder.is_dir() and (folder / METADATA).is_file()) or folder.is_symlink():
            raise InputError(f"--output {str(folder)!r} is no bag, and is not replaced; name another folder")
        if not force:
            raise InputError(f"--output {str(folder)!r} exists; pass --force to replace it")
        if folder.resolve() in file.resolve().parents:
            raise InputError(f"--output {str(folder)!r} contains the recording itself; name another folder")
    if not os.access(parent, os.W_OK):
        raise InputError(f"--output {str(folder)!r} cannot be written; name a folder in one that you may write to")
    return folder


def _write_bag(file: Path, folder: Path, storage: str, force: bool) -> bool:
    """Write the bag; returns whether the recording lacks messages."""
    from nodes.framework.bridges.rosbag2.export import export_rosbag2

    with interruptible() as go_on, ProgressBar(go_on) as bar:
        found = export_rosbag2(
            file, folder, storage, replace=force, progress=lambda done, of: bar.show("exporting", done, of)
        )
    if found.damage:
        warn(found.damage)
    for note in found.notes:
        warn(note)
    return bool(found.damage)

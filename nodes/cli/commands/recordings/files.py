"""`armswing record`, `play` and `info`: writes, replays and describes recordings."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.terminal import (
    AsJson,
    Domain,
    InputError,
    UnavailableError,
    print_json,
    print_line,
    print_table,
    require_recording,
    warn,
)
from nodes.framework.recording.integrity.search import is_replaceable
from nodes.framework.recording.lock import FileInUseError, require_unlocked

PLAYING_PERIOD_S = 0.2
MOST_EVENTS = 20  # most events of one kind that are listed

File = Annotated[Path, typer.Argument(help="A recording (.mcap).", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the commands `record`, `play` and `info`."""
    app.command(epilog="Example: armswing record -o run.mcap")(record)
    app.command(epilog="Example: armswing play demo.mcap --speed 2")(play)
    app.command(epilog="Example: armswing info demo.mcap")(info)


def record(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("recording.mcap"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    domain: Domain = None,
) -> None:
    """Record every topic of the live domain until Ctrl-C."""
    from nodes.framework.launching.joining import run_node  # nodes: 0.07 s, also of `info`

    folder = output.absolute().parent
    if not folder.is_dir():
        raise InputError(f"--output {str(output)!r}: there is no folder {str(folder)!r}; create it first")
    if output.exists() and not force:
        raise InputError(f"--output {str(output)!r} exists; pass --force to replace it")
    if not is_replaceable(output):
        raise InputError(f"--output {str(output)!r} is no recording, and is not replaced; name another file")
    if output.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"--output {str(output)!r} cannot be written; name a file in a folder that you may write to")
    try:
        require_unlocked(output)
    except FileInUseError as error:
        raise UnavailableError(f"--output {str(output)!r}: {error.strerror}") from None
    node = "nodes/recorder.py:Recorder"
    params = {"file": str(output.absolute())}
    ended: list[Any] = []

    def greet(_client: Any, _name: str) -> None:
        print_line(f"recording to {output}, Ctrl-C ends")

    code = run_node(node, name=_free_name(domain), params=params, domain=domain, beside=greet, ended=ended.append)
    for recorder in ended:
        found = recorder.on_request("recording", {})
        if recorder.verdict is not None:
            raise UnavailableError(recorder.verdict.reason)
        if not found["kept"]:
            raise UnavailableError(
                f"no state arrived, so nothing was recorded and {str(output)!r} is unchanged; "
                "check that a launch is running"
            )
        print_line(f"wrote {output}: {found['frames_written']} messages, {output.stat().st_size} B")
    raise typer.Exit(code)


def _free_name(domain: int | None) -> str:
    """ "record", or "record_2" and so on where a node of the live launch has this name."""
    from nodes.framework.client import Client, NotLiveError  # ZeroMQ: 0.04 s, also of `info`

    taken: set[str] = set()
    with contextlib.suppress(NotLiveError), Client(domain) as client:
        taken = {entry.name for entry in client.nodes()}
    names = ("record", *(f"record_{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def play(
    file: File,
    speed: Annotated[float, typer.Option("--speed", help="Recorded seconds to play per second.")] = 1.0,
    loop: Annotated[bool, typer.Option("--loop", help="Repeat the recording until Ctrl-C.")] = False,
    domain: Domain = None,
) -> None:
    """Publish the messages of a recording again, at the recorded speed or at a multiple of this speed."""
    from nodes.framework.launching.joining import run_node  # nodes: 0.07 s, also of `info`

    require_recording(file)
    if not 0.0 < speed < float("inf"):
        raise InputError(f"--speed {speed:g}: expected a positive number")
    robot = _robot_of(file)
    _refuse_two_speakers(robot, domain)
    params = {"file": str(file.absolute()), "speed": speed, "loop": loop}
    code = run_node(
        "nodes/player.py:Player",
        name="play",
        robot=robot,
        params=params,
        domain=domain,
        alone=True,
        beside=_watch_playing,
    )
    raise typer.Exit(code)


def info(file: File, as_json: AsJson = False) -> None:
    """Show runs, topics, message counts, rates, duration and parameters of a recording."""
    from nodes.framework.recording.reader import describe

    require_recording(file)
    found = describe(file)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _robot_of(file: Path) -> str:
    """Name of the robot in a recording, from the first message that can be published for a robot."""
    # messages: 0.01 s of each help page
    from nodes.framework.messages.topics import ROBOT_TOPICS
    from nodes.framework.recording.reader import RecordingFile

    others = ""
    for recorded in RecordingFile(file):
        robot, _, name = recorded.topic.rpartition("/")
        if robot.strip("/") and name in ROBOT_TOPICS:
            if recorded.message() is not None:
                return robot.strip("/")
            others = f" (its {recorded.topic!r} has messages of another type, {recorded.schema!r})"
    raise InputError(
        f"{str(file)!r} has no messages of a robot, such as ROBOT/state{others}; choose a recording of a launch"
    )


def _refuse_two_speakers(robot: str, domain: int | None) -> None:
    from nodes.framework.client import Client, NotLiveError  # ZeroMQ: 0.04 s, also of `info`

    try:
        with Client(domain) as client:
            speakers = [t.publishes for t in client.topics() if t.name == f"{robot}/state" and t.publishes]
    except NotLiveError:
        return
    if speakers:
        raise InputError(
            f"node {speakers[0][0]!r} already publishes robot {robot!r} in this domain; "
            "choose another domain, for example with --domain 1"
        )


def _watch_playing(client: Any, name: str) -> None:
    """Show the playback position on a terminal, and shut the player down when it has published the whole recording.

    name  name of the player's node
    """
    while True:
        playback = client.call(name, "playback")
        if sys.stderr.isatty():
            print(f"\rplayed {playback['position_s']:.1f} s", end="", file=sys.stderr, flush=True)
        if playback["done"]:
            if sys.stderr.isatty():
                print(file=sys.stderr)
            client.call(name, "shutdown")
            return
        time.sleep(PLAYING_PERIOD_S)


def _print(found: dict[str, Any]) -> None:
    # messages: 0.01 s of each help page
    from msgspec import convert

    from nodes.framework.recording.integrity.holes import Hole, inner
    from nodes.framework.recording.runs import Run

    runs = [convert(run, Run) for run in found["runs"]]
    span = f"{found['duration_s']:.3f} s "
    span += f"in {len(runs)} runs" if len(runs) > 1 else f"(t = {found['start_s']:.3f} .. {found['end_s']:.3f} s)"
    print_line(f"{found['file']}, {found['size_bytes']} B, {span}, {found['messages']} messages")
    holes = convert(found["holes"], list[Hole])
    if not found["messages"]:
        warn("the file has no messages" + (": it was cut off before the first one" if found["cut_off"] else ""))
    elif found["cut_off"]:
        warn("the file was cut off; everything before the cut is readable")
    if inner(holes):
        warn("the file is damaged or incomplete at the places below; all messages elsewhere are readable")
    for hole in holes:
        warn(f"hole: {hole.text()}")
    if found["metadata_damaged"]:
        warn("the recorded plan and parameters are damaged, and are not shown")
    if found["damage"]:
        warn(f"the file is damaged, but no message is missing: {', '.join(found['damage'])}")
    for run in runs if len(runs) > 1 else []:
        print_line(run.text())
    print_table(
        ("topic", "message", "count", "rate"),
        [
            (
                row["topic"],
                row["type"].removeprefix("armswing."),
                str(row["count"]),
                "-" if row["rate_hz"] is None else f"{row['rate_hz']:.1f} Hz",
            )
            for row in found["topics"]
        ],
    )
    _print_events(found["events"], several=len(runs) > 1)
    for key, value in found["metadata"].items():
        value = value or _robots(found["metadata"].get("plan", "")) if key == "robot" else value
        for line in _plan_lines(value) if key == "plan" else [f"{key}: {value}"]:
            print_line(line)


def _robots(text: str) -> str:
    """The robots of a recorded plan with several simulations, such as "left/gibbon, right/gibbon"; "" if unknown."""
    try:
        simulations = json.loads(text)["simulations"]
        return ", ".join(f"{namespace}/{plan['sim']['robot']}" for namespace, plan in simulations.items())
    except (ValueError, KeyError, TypeError, AttributeError):  # a plan of another version or program
        return ""


def _plan_lines(text: str) -> list[str]:
    """Summarize a recorded plan: one line for the simulation, and one line for each node with the node's parameters."""
    try:
        plan = json.loads(text)
        sim = plan["sim"]
        lines = [f"plan: {plan['name']}, {sim['robot']} {sim['mode']}, steps of {sim['step_ms']:g} ms (all: --json)"]
        for node in plan["nodes"]:
            given = ", ".join(f"{key} = {json.dumps(value)}" for key, value in node.get("params", {}).items())
            lines.append(f"  {node['name']}  {node['run']}{f'  {given}' if given else ''}")
    except (ValueError, KeyError, TypeError):  # a plan of another version or program
        return [f"plan: {text}"]
    return lines


def _print_events(events: list[dict[str, Any]], several: bool) -> None:
    """Print one line per event, but at most MOST_EVENTS events of each kind, and then how many events were left out."""
    shown: dict[str, int] = {}
    for event in events:
        kind = event["kind"]
        shown[kind] = shown.get(kind, 0) + 1
        if shown[kind] > MOST_EVENTS:
            continue
        whose = f"{event['node']}.{event['key']} " if kind == "set" else ""
        change = f"{whose}{event.get('old', '-')} -> {event['new']}" if kind in ("set", "speed") else ""
        part = event.get("part", "")  # part of the robot, such as the hand that grips
        at = f"run {event['run']}, " if several else ""
        print_line(f"{kind}: {at}t = {event['timestamp']:.3f} s  {change or event.get('detail') or part}".rstrip())
    for kind, count in shown.items():
        if count > MOST_EVENTS:
            print_line(f"{kind}: {count - MOST_EVENTS} more")

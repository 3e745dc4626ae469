"""`armswing sim`: controls the live simulation server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from nodes.cli.terminal import (
    AsJson,
    Domain,
    InputError,
    NegativeNumbers,
    UnavailableError,
    print_json,
    print_line,
    warn,
)
from nodes.framework.client import Client, GuardState
from nodes.framework.launching.summary import Load, seconds_text
from nodes.framework.messages.codec import MAX_BYTES
from nodes.framework.plan.launch_plan import SPEED_MAX, SPEED_MIN
from nodes.framework.recording.new_file import write_file
from sim_core.support.limited import read_limited

STEPPING_PERIOD_S = 0.02
STUCK_S = 2.0
GO_BACK_S = 120.0  # longest wait for the steps from a snapshot to the time

app = typer.Typer(epilog="Example: armswing sim status", no_args_is_help=True)


def _call(domain: int | None, service: str, **arguments: Any) -> Any:
    with Client(domain) as client:
        return client.call("sim", service, **arguments)


def _report(domain: int | None, as_json: bool) -> None:
    """Print the simulation's state, its time, and the number of time steps so far."""
    status = _call(domain, "status")
    if as_json:
        print_json(status)
    else:
        print_line(f"{status['state']} at t = {status['time']:.3f} s, step {status['tick']}")


@app.command(epilog="Example: armswing sim status --json")
def status(domain: Domain = None, as_json: AsJson = False) -> None:
    """Show the state of the simulation: time, real-time factor, overruns, constraint violation, energy, guards."""
    with Client(domain) as client:
        found = client.sim_status()
    if as_json:
        print_json(found)
        return
    since = found.pop("safe_since")
    if found["commanded_by"] is None and since is not None:
        found["commanded_by"] = f"- (safe since t = {since:.3f} s)"
    width = max(map(len, found))
    for key, value in found.items():
        first, *more = _lines(key, value)
        print_line(f"{key:<{width}}  {first}")
        for line in more:
            print_line(f"{'':<{width}}  {line}")


@app.command(epilog="Example: armswing sim pause")
def pause(domain: Domain = None, as_json: AsJson = False) -> None:
    """Pause the simulation; no message is lost."""
    _call(domain, "pause")
    _report(domain, as_json)


@app.command(epilog="Example: armswing sim resume")
def resume(domain: Domain = None, as_json: AsJson = False) -> None:
    """Resume a paused simulation."""
    _call(domain, "resume")
    _report(domain, as_json)


@app.command(epilog="Example: armswing sim step 10", cls=NegativeNumbers)
def step(
    count: Annotated[int, typer.Argument(min=1, help="Number of time steps.")] = 1,
    number: Annotated[
        int | None, typer.Option("-n", min=1, help="The number of time steps, given as an option.", show_default=False)
    ] = None,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Advance a paused simulation by a number of time steps."""
    count = count if number is None else number
    with Client(domain) as client:
        target = client.sim_status()["tick"] + count
        client.call("sim", "step", n=count)
        _await_tick(client, target)
    _report(domain, as_json)


@app.command(epilog="Example: armswing sim reset")
def reset(domain: Domain = None, as_json: AsJson = False) -> None:
    """Return the robot to its start, at time zero."""
    _call(domain, "reset")
    _report(domain, as_json)


@app.command(epilog="Example: armswing sim speed 0.5", cls=NegativeNumbers)
def speed(
    factor: Annotated[
        float, typer.Argument(help="Simulated seconds per second of the wall clock.", show_default=False)
    ],
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Change the speed of the simulation, in simulated seconds per second of the wall clock."""
    if not SPEED_MIN <= factor <= SPEED_MAX:
        raise InputError(f"speed {factor:g}: expected a positive number from {SPEED_MIN:g} to {SPEED_MAX:g}")
    _call(domain, "speed", x=factor)
    _report(domain, as_json)


@app.command(epilog="Example: armswing sim push pendulum 0.2 0 0 --duration 0.1", cls=NegativeNumbers)
def push(
    body: Annotated[
        str, typer.Argument(help="A body that the robot's description lists as pushable.", show_default=False)
    ],
    x: Annotated[float, typer.Argument(help="Force along the x-axis of the world (N).", show_default=False)],
    y: Annotated[float, typer.Argument(help="Force along the y-axis of the world (N).", show_default=False)],
    z: Annotated[float, typer.Argument(help="Force along the z-axis of the world (N).", show_default=False)],
    duration: Annotated[float, typer.Option("--duration", help="Simulated duration of the push (s).")] = 0.1,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Point X,Y,Z at which the force acts, in the body's frame (m); by default its center of mass.",
            show_default=False,
        ),
    ] = None,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Push a body of the robot with a constant force for a short time."""
    try:
        point = None if at is None else [float(part) for part in at.split(",")]
    except ValueError:
        raise InputError(f"--at {at!r}: expected three numbers, X,Y,Z in m") from None
    _call(domain, "push", body=body, force=[x, y, z], point=point, duration_s=duration)
    if not as_json:
        place = "its center of mass"
        if point is not None:
            place = f"({', '.join(f'{value:g}' for value in point)}) m in its frame"
        print_line(f"pushed {body} with ({x:g}, {y:g}, {z:g}) N at {place}, for {duration:g} s")
    _report(domain, as_json)


@app.command(epilog="Example: armswing sim snapshot upright.state")
def snapshot(
    file: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Write the complete state of the simulation to a file."""
    if not file.absolute().parent.is_dir():
        raise InputError(f"{str(file)!r}: there is no folder {str(file.absolute().parent)!r}; create it first")
    if file.exists() and not force:
        raise InputError(f"{str(file)!r} exists; pass --force to replace it")
    state = _call(domain, "snapshot")
    write_file(file, msgspec.msgpack.encode(state))
    if as_json:
        print_json({"file": str(file), "size_bytes": file.stat().st_size})
    else:
        print_line(f"wrote {file}, {file.stat().st_size} B")


@app.command(epilog="Example: armswing sim restore run.mcap --at 5.0")
def restore(
    file: Annotated[
        Path,
        typer.Argument(
            help="A snapshot that `armswing sim snapshot` wrote, or a lockstep recording (.mcap).", show_default=False
        ),
    ],
    at: Annotated[
        float | None,
        typer.Option("--at", help="With a recording: simulation time to go to (s).", show_default=False),
    ] = None,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Set the simulation to the state of a snapshot; or, with --at, set simulation and nodes to a recorded time.

    The recorded run must have the same robot and settings of the simulation as the live launch. A node is reset if its
    code or parameters differ from the recorded ones.
    """
    if not file.is_file():
        raise InputError(f"no such file {str(file)!r}; 'armswing sim snapshot FILE' writes a snapshot")
    with file.open("rb") as opened:
        is_recording = opened.read(5) == b"\x89MCAP"
    if is_recording != (at is not None):
        what = "a recording: give a time in it with --at" if is_recording else "not a recording: leave out --at"
        raise InputError(f"{str(file)!r} is {what}")
    if at is not None:
        _go_back(file, at, domain)
        _report(domain, as_json)
        return
    try:
        state = msgspec.msgpack.decode(read_limited(file, MAX_BYTES))
    except (OSError, msgspec.DecodeError, RecursionError, ValueError) as error:
        why = getattr(error, "strerror", error)
        raise InputError(f"{str(file)!r} is not a snapshot of 'armswing sim snapshot': {why}") from error
    _call(domain, "restore", state=state)
    _report(domain, as_json)


def _go_back(file: Path, at: float, domain: int | None) -> None:
    """Set the live launch to a time of a recorded run."""
    # nodes: 0.07 s, which other commands of `sim` do not need
    from nodes.framework.launching.joining import live_plan
    from nodes.framework.simulation.restart.finding import notes, read_restart

    with Client(domain) as client:
        plan = live_plan(client.domain)
        if plan is None:
            raise UnavailableError(
                "the plan of the live launch cannot be read here; run this command on the simulation server's computer"
            )
        begin = read_restart(file, at, plan)
        client.call("sim", "restore", timeout_s=GO_BACK_S, recording=begin.encode())
    for line in notes(begin, file):
        warn(line)


def _await_tick(client: Any, target: int) -> None:
    """Wait until the simulation has reached the time step with the number `target`.

    The server replies to the request before it has simulated the time steps.
    """
    tick, progress_at = -1, time.monotonic()
    while tick < target:
        now = client.sim_status()["tick"]
        if now != tick:
            tick, progress_at = now, time.monotonic()
        elif time.monotonic() - progress_at > STUCK_S:  # another client paused or reset it meanwhile
            raise UnavailableError(
                f"the simulation stopped at time step {tick}, before time step {target}; "
                "check whether it was paused or reset"
            )
        time.sleep(STEPPING_PERIOD_S)


def _lines(key: str, value: Any) -> list[str]:
    """Return the lines that show a status value.

    The values "loads", "commands_refused" and "guards" have one line per entry, any other value has one line.
    """
    if key == "guards":
        return [f"{name} {GuardState(**state).text()}" for name, state in value.items()] or ["-"]

    if key == "loads":
        return [f"{name} {Load(**load).text()}" for name, load in value.items()] or ["-"]
    if key == "commands_refused":
        return [f"{name} {refused['count']}, the last: {refused['reason']}" for name, refused in value.items()] or ["-"]
    return [seconds_text(value) if key.endswith("_s") and value else _text(value)]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items()) or "-"
    return "-" if value in (None, "") else str(value)

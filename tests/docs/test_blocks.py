"""Commands and Python shown on the pages: each is understood by the command line, and run in the order of its page."""

from __future__ import annotations

import contextlib
import runpy
import shlex
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from nodes.cli import PRINTS
from nodes.framework.client import read_recording
from nodes.framework.plan.files.file import load_plan

ROOT = Path(__file__).resolve().parents[2]
FOLLOWED = "extending"  # pages that test_extending.py follows
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.parent.name not in (FOLLOWED, "_generated", "gallery")
]
# beside a live launch: the tests of these commands start one
LIVE = ("run", "record", "play", "topic", "sim", "node", "param", "bridge", "estop")
# between two computers, and with real keys: tests/network and the tests of keys
ELSEWHERE = ("keys",)
FAILS = ("hil",)  # exit code 1 is a verdict
DURATION_S = 1.0  # but for recordings of which a report is made


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def lines_of(page: Path, blocks_of: Callable[..., Any]) -> list[str]:
    blocks = [block for block in blocks_of(page) if block.language == "sh"]
    return [
        line.split("$ ", 1)[-1] if line.startswith(("desk$", "robot$")) else line
        for b in blocks
        for line in b.text.splitlines()
    ]


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=page_id)
def test_every_command_shown_is_understood_by_the_command_line(page: Path, blocks_of: Callable[..., Any]) -> None:
    from typer.main import get_command

    from nodes.cli.application import application

    for line in lines_of(page, blocks_of):
        words = shlex.split(line, comments=True)
        if words[:1] != ["armswing"]:
            assert words[0] == "make", line  # its targets are checked in tests/test_repository.py
            continue
        command, rest = get_command(application()), words[1:]
        while hasattr(command, "commands"):
            command, rest = command.commands[rest[0]], rest[1:]
        with contextlib.suppress(typer.Exit):  # --keys ends there
            command.make_context(" ".join(words[:2]), rest, resilient_parsing=False)  # raises for a wrong option


@pytest.fixture
def project(reader: Any) -> Any:
    """A reader in a folder with the launch files."""
    shutil.copytree(ROOT / "launch", reader.folder / "launch")
    return reader


def launched(words: list[str], later: str, folder: Path) -> Iterator[str]:
    """The launch, shortened, where a later line of the page needs its recording; else its plan is read.

    tests/test_launch_files.py runs every launch file.
    """
    sets = [words[k + 1] for k, word in enumerate(words) if word == "--set"]
    file = folder / words[2] if (folder / words[2]).exists() else words[2]
    arguments = [word for word in words[3:] if "=" in word and not word.startswith("-") and word not in sets]
    plan = load_plan(file, sets, arguments=arguments)
    files = [str(node.params["file"]) for node in plan.nodes if str(node.params.get("file", "")).endswith(".mcap")]
    if any(file in later for file in files):
        asked = plan.duration_s or next(
            (float(words[k + 1]) for k, each in enumerate(words) if each == "--duration"), 1.0
        )
        reported = plan.sim.mode == "lockstep" and "armswing hil" in later
        seconds = asked if reported else min(asked, DURATION_S)
        kept = [word for k, word in enumerate(words) if "--duration" not in (word, words[k - 1])]
        chosen = any(each.startswith(("sim.mode", "mode=")) for each in [*sets, *arguments])
        mode = [] if chosen else ["--set", "sim.mode=lockstep"]
        yield shlex.join([*kept, "--duration", str(seconds), *mode])


LONG = pytest.param(ROOT / "docs/guides/hardware.md", marks=[pytest.mark.soak, pytest.mark.timeout(900)])


@pytest.mark.parametrize(
    "page", [LONG if page == LONG.values[0] else page for page in PAGES if "\n```" in page.read_text()], ids=page_id
)
def test_commands_and_python_of_a_page_run_in_its_order(
    page: Path, blocks_of: Callable[..., Any], project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = blocks_of(page)
    monkeypatch.chdir(project.folder)
    namespace: dict[str, Any] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        later = "\n".join(each.text for each in blocks[number:])
        if block.language == "include" and block.file.endswith(".py"):
            namespace |= runpy.run_path(str((page.parent / block.file).resolve()))
        elif block.language == "include" and block.file.endswith(".c"):  # it is the program that a command has written
            shown = (page.parent / block.file).resolve()
            (written,) = project.folder.rglob(shown.name)
            assert written.read_text() == shown.read_text()
        elif block.language == "toml":
            tomllib.loads(block.text)
            if block.file:
                project.write(block)
        elif block.language == "python":
            exec(compile(block.text, str(page), "exec"), namespace)
        elif block.language == "sh":
            for line in block.text.splitlines():
                run_line(line, later, project)


def run_line(line: str, later: str, project: Any) -> None:
    words = shlex.split(line, comments=True)
    if words[:2] == ["make", "-C"]:  # a Makefile that a command of the page has written
        if shutil.which("cc") is None:
            pytest.skip("no C compiler: apt-get install gcc libc6-dev")
        subprocess.run(words, cwd=project.folder, check=True, timeout=100)
    if words[0] != "armswing" or words[1] in (*LIVE, *ELSEWHERE):
        return
    if words[1] == "view" and {"--png", "--html"}.isdisjoint(words):
        return  # a window, or a page for browsers: tests/viewer
    if words[1] == "reproduce":  # tests/nodes/research/studies carry every study out
        from nodes.cli.commands.models.studies import PAPERS

        assert words[2] in PAPERS
    elif words[1] == "launch" and PRINTS.isdisjoint(words):
        for shortened in launched(words, later, project.folder):
            project.run(shortened, codes=(0, 1))  # 1: a milestone that a shortened run does not reach
    else:
        project.run(line, codes=(0, 1) if words[1] in FAILS else (0,))


def test_the_three_terminals_of_a_launch_by_hand_give_a_recording(blocks_of: Callable[..., Any], project: Any) -> None:
    page = ROOT / "docs/guides/by_hand.md"
    for block in blocks_of(page):
        if block.file:
            project.write(block)
    recording = project.folder / "by_hand.mcap"
    with contextlib.ExitStack() as stack:
        deadline = time.monotonic() + 90.0
        first, *others = lines_of(page, blocks_of)
        terminals = [stack.enter_context(project.terminal(first))]
        while "running" not in project.run("armswing node list", codes=(0, 1)).stdout:
            assert time.monotonic() < deadline, "the server does not run"
        terminals += [stack.enter_context(project.terminal(line)) for line in others]
        while not (recording.exists() and recording.stat().st_size > 20_000):
            assert time.monotonic() < deadline, "nothing is recorded"
            assert [each.poll() for each in terminals] == [None] * len(terminals)
            time.sleep(0.1)  # between two looks at the file
        for each in reversed(terminals):
            each.send_signal(signal.SIGINT)
            each.wait(30.0)
    assert len(read_recording(recording)["rotary_pendulum/command"]["timestamp"]) > 0

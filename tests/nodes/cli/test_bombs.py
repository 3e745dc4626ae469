"""Files and options that are made to take a computer's time or memory: a command ends soon, with one line of error."""

from __future__ import annotations

import functools
import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import lz4.frame
import pytest
import zstandard
from mcap.writer import MCAP0_MAGIC

from nodes.framework.messages import Snapshot
from nodes.framework.plan.files.file import load_plan
from nodes.framework.recording.reader import RecordingFile, RecordingWriter
from nodes.framework.simulation.compose import compose

LOCKSTEP = Path(__file__).parents[3] / "launch/rotary_pendulum_lockstep.toml"
ARMSWING = (sys.executable, "-P", "-m", "nodes.cli")
PROCESSOR_S, MEMORY_MB = 4.0, 300.0  # more than the start-up takes
SHEET = '[sim]\nrobot = "rotary_pendulum"\nmode = "lockstep"\n'
POINTS = '[[nodes]]\nname = "t"\nrun = "nodes/trajectory.py:Trajectory"\nparams = {{ kind = "quintic", file = "{}" }}\n'
MESH = (
    '<robot name="r"><link name="a"/><link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0"'
    ' ixz="0" iyz="0"/></inertial><visual><geometry><mesh filename="m.stl"/></geometry></visual></link><joint name="j"'
    ' type="continuous"><parent link="a"/><child link="b"/><axis xyz="1 0 0"/></joint></robot>'
)
MUCH = '<mujoco><include file="1.xml"/><include file="1.xml"/></mujoco>'
Write = Callable[[Path], object]


class Measured(NamedTuple):
    code: int
    error: str
    processor_s: float
    memory_mb: float


# A process of its own starts the command: the memory of the tests' process would count as the command's.
MEASURE = """
import json, resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, done.stderr, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def measured(folder: Path, command: tuple[str, ...]) -> Measured:
    given = [sys.executable, "-S", "-I", "-c", MEASURE, *command]
    return Measured(*json.loads(subprocess.run(given, capture_output=True, check=True, cwd=folder).stdout))


@functools.cache
def start_up(folder: Path, command: tuple[str, ...]) -> Measured:
    """The command in an empty folder, where it ends at once as it finds no file."""
    return measured(folder, command)


def text(name: str, content: str) -> Write:
    return lambda folder: (folder / name).write_text(content)


def both(first: Write, second: Write) -> Write:
    return lambda folder: (first(folder), second(folder))


def sparse(name: str, size: int = 2_000_000_000) -> Write:
    def write(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.truncate(size)

    return write


def includes(count: int, inner: str) -> Write:
    def write(folder: Path) -> None:
        for level in range(count):
            named = inner.replace("*", str(level + 1)) if level < count - 1 else ""
            (folder / f"{level}.xml").write_text(f"<mujoco>{named}</mujoco>")

    return write


def record(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + struct.pack("<Q", len(content)) + content


def words(*each: str | bytes) -> bytes:
    given = [word.encode() if isinstance(word, str) else word for word in each]
    return b"".join(struct.pack("<I", len(word)) + word for word in given)


def chunk(compression: str, size: int, crc: int, packed: bytes) -> bytes:
    head = struct.pack("<QQQI", 0, 1, size, crc) + words(compression) + struct.pack("<Q", len(packed))
    return record(6, head + packed)


def lying(compression: str) -> bytes:
    """A chunk that states 1000 bytes and has a thousand million."""
    packer = zstandard.ZstdCompressor().compressobj() if compression == "zstd" else lz4.frame.LZ4FrameCompressor()
    begin = b"" if compression == "zstd" else packer.begin()
    return chunk(
        compression, 1000, 0, begin + b"".join(packer.compress(bytes(10**7)) for _ in range(100)) + packer.flush()
    )


def messages(payload: bytes, count: int = 1) -> bytes:
    topic = struct.pack("<H", 1) + words("odd", "jsonschema", '{"type": "object"}')
    channel = struct.pack("<HH", 1, 1) + words("arm/odd", "json") + struct.pack("<I", 0)
    one = record(5, struct.pack("<HIQQ", 1, 0, 0, 0) + payload)
    content = record(3, topic) + record(4, channel) + one * count
    return chunk("zstd", len(content), zlib.crc32(content), zstandard.ZstdCompressor().compress(content))


def foreign(make: Callable[[], bytes]) -> Write:
    """A recording of another program with these records."""
    head = MCAP0_MAGIC + record(1, words("", "other"))
    end = record(15, bytes(4)) + record(2, bytes(20)) + MCAP0_MAGIC
    return lambda folder: (folder / "x.mcap").write_bytes(head + make() + end)


def plan(text: str) -> bytes:
    return record(12, words("armswing", words("plan", text)))


@functools.cache
def recording() -> bytes:
    """A recording of a launch of 30 ms with snapshots."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "x.mcap"
        with compose(load_plan(LOCKSTEP, [f"recorder.file={file}", "sim.snapshot_s=0.01"])) as run:
            run.run(0.03)
        return file.read_bytes()


def swell(folder: Path) -> None:
    """Write a recording with snapshots of 1 GB, which are 1 MB of zlib."""
    packer = zlib.compressobj(1)
    begin, full = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH), zlib.Z_FULL_FLUSH
    million = packer.compress(bytes(1 << 20)) + packer.flush(full)
    bomb = Snapshot(data=begin + million * 1024)
    (folder / "x.mcap").write_bytes(recording())
    file = RecordingFile(folder / "x.mcap")
    lines = [(each.topic, each.message(), each.time_ns / 1e9) for each in file]
    writer = RecordingWriter(folder / "y.mcap", file.metadata)
    for topic, message, time in lines:
        writer.write(topic, bomb if isinstance(message, Snapshot) else message, time)
    writer.close()
    (folder / "y.mcap").replace(folder / "x.mcap")


RECORDED = lambda folder: (folder / "x.mcap").write_bytes(recording())  # noqa: E731
LAUNCH, SHOW, INFO = ("launch", "x.toml"), ("robot", "show", "x.urdf"), ("info", "x.mcap")
INCLUDING, EXPORT = ("robot", "show", "0.xml"), ("export", "x.mcap", "--csv", "tables")
VIEW = ("view", "x.mcap", "--png", "x.png")
PICTURE = (*VIEW, "--layout", "l.json")
SWEEP = ("sweep", "x.toml", "--seconds", "1")
TOO_MUCH = "; shorten it to at most"
BOMBS: dict[str, tuple[Write, tuple[str, ...], int, str]] = {  # what is written, command, exit code, words of the line
    "a key of 1e5 parts": (text("x.toml", f"a{'.a' * 10**5} = 1"), LAUNCH, 2, "a dotted key has more than 64 parts"),
    "a million tables": (text("x.toml", SHEET + "[[n]]\n" * 10**6), LAUNCH, 2, "more than 50000 keys"),
    "millions of numbers": (text("x.toml", f"seed = [{'1,' * 3_900_000}]\n{SHEET}"), LAUNCH, 2, "or 700000 commas"),
    "a number of 7e6 digits": (text("x.toml", f"seed = {'1' * 7 * 10**6}\n{SHEET}"), LAUNCH, 2, "a word outside of"),
    "a string of 7e6 characters": (text("x.toml", f'seed = "{"a" * 7 * 10**6}"\n{SHEET}'), LAUNCH, 2, "seed"),
    "lists in lists": (text("x.toml", f"seed = {'[' * 7 * 10**6}"), LAUNCH, 2, "nested more than 16 deep"),
    "files included twice": (includes(25, '<include file="*.xml"/>' * 2), INCLUDING, 2, "included file"),
    "files included deeply": (includes(200, '<include file="*.xml"/>'), INCLUDING, 2, "more than 1000 included files"),
    "much that is included": (
        both(text("0.xml", MUCH), text("1.xml", f"<mujoco><!--{' ' * 9 * 10**6}--></mujoco>")),
        INCLUDING, 2, "16000000",
    ),
    "a comment of 2 GB": (sparse("x.urdf"), SHOW, 2, f"has 2000000000 bytes{TOO_MUCH} 16000000"),
    "elements in elements": (text("x.urdf", "<robot>" * 10**6), SHOW, 2, "nested more than 200 levels"),
    "millions of declarations": (text("x.urdf", "<?xml" * 3 * 10**6), SHOW, 2, "the XML is broken"),
    "attributes of 12 MB": (
        text("x.urdf", f"<robot {'a=1 ' * 3 * 10**6}/>"), SHOW, 2, "a start tag has",
    ),
    "entities": (text("x.urdf", '<!DOCTYPE r [<!ENTITY a "aaa">]><robot name="&a;"/>'), SHOW, 2, "DOCTYPE"),
    "400,000 links": (text("x.urdf", f"<robot>{'<link/>' * 400_000}</robot>"), SHOW, 2, "more than 20000 elements"),
    "a mesh of 2 GB": (both(text("x.urdf", MESH), sparse("m.stl")), SHOW, 0, TOO_MUCH),
    "a lie of zstd": (foreign(lambda: lying("zstd")), EXPORT, 1, "(damaged)"),
    "a lie of lz4": (foreign(lambda: lying("lz4")), EXPORT, 1, "(damaged)"),
    "millions of messages": (foreign(lambda: messages(b"", 2 * 10**6)), EXPORT, 1, "(damaged)"),
    "a nested message": (foreign(lambda: messages(b'{"a":' * 10**6)), VIEW, 2, "recursion"),
    "a wide message": (foreign(lambda: messages(b'{"a":[' + b"[]," * 15 * 10**6 + b"[]]}")), VIEW, 2, "bytes"),
    "a wide plan": (foreign(lambda: plan(f'{{"a":[{"[]," * 15 * 10**6}[]]}}')), EXPORT, 1, "plan and parameters"),
    "a sidecar of 2 GB": (both(RECORDED, sparse("x.mcap.sidecar.json")), INFO, 0, "its sidecar"),
    "a layout of 2 GB": (both(RECORDED, sparse("l.json")), PICTURE, 2, TOO_MUCH),
    "a nested layout": (both(RECORDED, text("l.json", '{"plots":' + "[" * 900_000)), PICTURE, 2, "is not a layout"),
    "a snapshot of 1 GB": (
        swell, ("launch", str(LOCKSTEP), "--from", "x.mcap", "--at", "0.025"), 2, "it has more than 4194304 bytes",
    ),
    "a restored file of 2 GB": (sparse("x.state"), ("sim", "restore", "x.state"), 2, TOO_MUCH),
    "a sweep of 2 GB": (sparse("sweep.json"), ("sweep", "."), 2, TOO_MUCH),
    "1e9 repeats": (text("x.toml", SHEET), (*SWEEP, "--repeat", "1000000000"), 2, "at most"),
    "millions of columns": (
        both(text("x.toml", SHEET + POINTS.format("v.csv")), text("v.csv", "time_s," + "1," * 15 * 10**6)),
        LAUNCH, 2, "or 4000000 numbers",
    ),
    "millions of via points": (
        both(text("x.toml", SHEET + POINTS.format("v.toml")), text("v.toml", "[[via]]\n" * 900_000)),
        LAUNCH, 2, "more than 50000 keys",
    ),
    "an endless file": (text("x", ""), ("robot", "show", "charmie", "--param", "file=/dev/zero"), 2, TOO_MUCH),
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_one_line_of_error(bomb: str, tmp_path: Path) -> None:
    write, command, code, line = BOMBS[bomb]
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    started = start_up(tmp_path / "empty", (*ARMSWING, *command))
    write(tmp_path / "full")
    found = measured(tmp_path / "full", (*ARMSWING, *command))
    assert found.code == code, found.error[:1000]
    assert len(found.error.splitlines()) <= 1 + (code == 0), found.error[:1000]
    assert line in found.error
    assert found.processor_s <= started.processor_s + PROCESSOR_S
    assert found.memory_mb <= started.memory_mb + MEMORY_MB


def test_too_few_open_files_are_one_line(tmp_path: Path) -> None:
    found = measured(tmp_path, ("bash", "-c", 'ulimit -n 40; exec "$@"', "", *ARMSWING, "robot", "list"))
    line = "armswing: a process may open 40 files, but needs 64; run 'ulimit -n 1024' or more first\n"
    assert (found.code, found.error) == (2, line)

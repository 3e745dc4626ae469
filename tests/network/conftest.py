"""Two computers for a test: network namespaces joined by a veth pair, each with its own folders and keys.

    def test_it(hosts): desk, robot = hosts.desk, hosts.robot; desk.start("launch", ...)

`hosts.down()`, `hosts.up()`, `hosts.loss(5.0)`, `hosts.rate("1mbit")`, `hosts.delay(20.0, 10.0)` do to the link what
they say until the test ends, `desk.bytes()` counts what went over it. All of it is gone after a module's tests. Needs
the right to make namespaces, and iproute2; loss needs nft.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from nodes.framework.client import Client

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0
LEAST_BYTES = 10_000  # received and sent at each end of the link in any test
ADDRESSES = {"desk": "10.77.0.1", "robot": "10.77.0.2"}
FAR_ADDRESSES = {"desk": "10.78.0.1", "robot": "10.78.0.2"}  # on the tunnel of `delay`
RELAY = Path(__file__).with_name("relay.py")


def wait_for(done: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """The first true value of done(); fails the test at the deadline."""
    deadline = time.monotonic() + deadline_s
    while not (value := done()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {deadline_s} s in vain")
        time.sleep(0.02)
    return value


def root(*command: str) -> str:
    """What a command of the administrator prints; CalledProcessError where it fails."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


class Program:
    """A process on a host, its output in files so that nothing waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path) -> None:
        self.process = process
        self._out = out

    @property
    def output(self) -> str:
        """All that it has printed."""
        return self._out.read_text()

    def says(self, text: str) -> Program:
        """Wait until it has printed this."""

        def said() -> bool:
            if text in self.output:
                return True
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.output}"
            return False

        wait_for(said)
        return self

    def end(self, deadline_s: float = DEADLINE_S) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(deadline_s)

    def ended_well(self) -> str:
        """What it printed; fails the test on another exit code than 0."""
        assert self.end() == 0, self.output
        return self.output

    def stop(self, number: int = signal.SIGINT) -> int:
        """Ask it to end, and wait; the exit code."""
        self.process.send_signal(number)
        return self.end()


class Host:
    """One computer: a network namespace with its own runtime folder and keys.

    name, address  as [hosts] of a launch file has them
    """

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name = name
        self.address = address
        self.namespace = f"aw{os.getpid()}{name}"
        self.device = f"{name}0"
        self.folder = folder / name
        for leaf in ("", "run", "config", "work"):
            (self.folder / leaf).mkdir(mode=0o700)
        self.work = self.folder / "work"
        self.environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "200",
        }
        self.environment.pop("ARMSWING_DOMAIN", None)
        self.programs: list[Program] = []
        self.limited = False  # whether what it sends is

    def python(self, *arguments: object) -> Program:
        """Start the interpreter of this test on the host."""
        out = self.folder / f"out{len(self.programs)}"
        command = ["nsenter", f"--net=/run/netns/{self.namespace}", sys.executable, *map(str, arguments)]
        with out.open("wb") as stream:
            process = subprocess.Popen(
                command,
                cwd=self.work,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        self.programs.append(Program(process, out))
        return self.programs[-1]

    def start(self, *arguments: object) -> Program:
        """Start `armswing ...` on the host."""
        return self.python("-P", "-m", "nodes.cli", *arguments)

    def run(self, *arguments: object) -> str:
        """What `armswing ...` prints; fails the test on another exit code than 0."""
        return self.start(*arguments).ended_well()

    def json(self, *arguments: object) -> Any:
        """What `armswing ... --json` prints."""
        return json.loads(self.run(*arguments, "--json"))

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """The launch that is live on the host, over ipc: only what runs on this host itself can be asked."""
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = self.environment["XDG_RUNTIME_DIR"]
        try:
            with Client(0) as client:
                yield client
        finally:
            if before is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = before

    def sim(self) -> dict[str, Any]:
        """The status of the simulation that runs on the host."""
        with self.client() as client:
            return client.sim_status()

    def ip(self, *arguments: str) -> str:
        """`ip` in the host's namespace."""
        return root("ip", "-n", self.namespace, *arguments)

    def tool(self, *command: str) -> str:
        """Any command of the administrator in the host's namespace."""
        return root("nsenter", f"--net=/run/netns/{self.namespace}", *command)

    def bytes(self) -> tuple[int, int]:
        """Bytes received and sent at the host's end of the link."""
        stats = json.loads(self.ip("-j", "-s", "link", "show", "dev", self.device))[0]["stats64"]
        return int(stats["rx"]["bytes"]), int(stats["tx"]["bytes"])

    def end_programs(self) -> None:
        """End what was started here and still runs."""
        for program in self.programs:
            if program.process.poll() is None:
                os.killpg(program.process.pid, signal.SIGKILL)
                program.process.wait()

    def close(self) -> None:
        """End what was started here, and remove the namespace with its end of the link."""
        self.end_programs()
        if shutil.which("ip") is None:
            return
        subprocess.run(["ip", "netns", "pids", self.namespace], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self.namespace], capture_output=True, check=False)


class Hosts:
    """Two hosts and the link between them."""

    def __init__(self, folder: Path) -> None:
        self.desk, self.robot = (Host(name, address, folder) for name, address in ADDRESSES.items())
        self.skipped = False  # whether the test that uses them was

    def __iter__(self) -> Iterator[Host]:
        return iter((self.desk, self.robot))

    def open(self) -> None:
        """Make the namespaces and the link."""
        for host in self:
            root("ip", "netns", "add", host.namespace)
        ends = [("name", host.device, "netns", host.namespace) for host in self]
        root("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        for host in self:
            host.ip("address", "add", f"{host.address}/24", "dev", host.device)
            host.ip("link", "set", "lo", "up")
            host.ip("link", "set", host.device, "up")

    def exchange_keys(self) -> None:
        """A new key on each host, allowed on the other."""
        made = [host.start("keys", "new", host.name, "--json") for host in self]
        desk, robot = (json.loads(program.ended_well())["key"] for program in made)
        allowed = [self.desk.start("keys", "allow", "robot", robot), self.robot.start("keys", "allow", "desk", desk)]
        for program in allowed:
            program.ended_well()

    def settings(self) -> Sequence[str]:
        """The options of `armswing launch` that give the hosts of a launch file these addresses."""
        return [word for host in self for word in ("--set", f"hosts.{host.name}={host.address}")]

    def down(self) -> None:
        """Cut the link."""
        self.desk.ip("link", "set", self.desk.device, "down")

    def up(self) -> None:
        """Join it again."""
        self.desk.ip("link", "set", self.desk.device, "up")

    def skip(self, reason: str) -> NoReturn:
        """End the test here: what it would have sent over the link it need not."""
        self.skipped = True
        pytest.skip(reason)

    def loss(self, percent: float) -> None:
        """Drop so many of the packets that arrive at each host, at random; 0 for none."""
        if shutil.which("nft") is None:
            self.skip("loss needs nft: apt-get install -y nftables")
        for host in self:
            host.tool("nft", "flush ruleset")
            if percent:
                drop = f"numgen random mod 1000 < {round(10 * percent)} counter drop"
                host.tool("nft", "add table inet loss; add chain inet loss in { type filter hook input priority 0; }")
                host.tool("nft", f'add rule inet loss in iifname "{host.device}" {drop}')

    def rate(self, rate: str) -> None:
        """Limit what each host sends, as `tc` writes rates."""
        for host in self:
            limit = ("rate", rate, "burst", "32kbit", "latency", "100ms")
            host.tool("tc", "qdisc", "replace", "dev", host.device, "root", "tbf", *limit)
            host.limited = True

    def shaped(self) -> list[dict[str, Any]]:
        """Of each host's limit what `tc` counts: bytes and packets sent, `drops` for want of room, `overlimits`."""
        return [json.loads(host.tool("tc", "-s", "-j", "qdisc", "show", "dev", host.device))[0] for host in self]

    def delay(self, delay_ms: float, jitter_ms: float) -> None:
        """Hold packets back, in order, each by a time of its own, uniform in delay_ms +- jitter_ms.

        By netem; where the kernel has none the hosts have other addresses from now on, on a tunnel over the link that
        does it: what `loss` drops are the packets of the tunnel then.
        """
        try:
            self._netem(f"{delay_ms}ms", f"{jitter_ms}ms")
        except subprocess.CalledProcessError:
            self._unlimited()
            self._tunnel(delay_ms, jitter_ms)

    def _netem(self, delay: str, jitter: str) -> None:
        for host in self:
            device, room = ("dev", host.device), ("limit", "10000")
            host.tool("tc", "qdisc", "replace", *device, "root", "handle", "1:", "netem", *room, "delay", delay, jitter)
            host.limited = True
            host.tool("tc", "qdisc", "add", *device, "parent", "1:1", "pfifo", *room)  # its own queue would reorder

    def _tunnel(self, delay_ms: float, jitter_ms: float) -> None:
        if not Path("/dev/net/tun").exists():
            self.skip("a delay needs tun devices (/dev/net/tun)")
        desk, robot = self
        for seed, (host, other) in enumerate(((desk, robot), (robot, desk))):
            ends = (FAR_ADDRESSES[host.name], FAR_ADDRESSES[other.name], host.address, other.address)
            host.python(RELAY, *ends, delay_ms, jitter_ms, seed).says("ready")
        for host in self:
            host.address = FAR_ADDRESSES[host.name]

    def mend(self) -> None:
        """The link as it was at first, and nothing that uses it."""
        for host in self:
            host.end_programs()
            host.address = ADDRESSES[host.name]
        self.up()
        if shutil.which("nft") is not None:
            self.loss(0.0)
        self._unlimited()

    def _unlimited(self) -> None:
        for host in self:
            if host.limited:
                host.tool("tc", "qdisc", "del", "dev", host.device, "root")
                host.limited = False

    def close(self) -> None:
        """Remove all of it."""
        for host in self:
            host.close()


def went_over(hosts: Hosts, before: Sequence[tuple[int, int]]) -> None:
    """Fail the test if the link did not carry something both ways since then."""
    for host, then in zip(hosts, before, strict=True):
        more = min(now - was for now, was in zip(host.bytes(), then, strict=True))
        assert more > LEAST_BYTES, f"host {host.name!r}: the test did not go over the link"


@contextlib.contextmanager
def joined() -> Iterator[Hosts]:
    """Two hosts; afterwards what was started on them has ended."""
    # not pytest's tmp_path: a socket's path may have 107 characters
    folder = Path(tempfile.mkdtemp(prefix="an-", dir="/tmp"))
    made = Hosts(folder)
    try:
        if shutil.which("ip") is None:
            pytest.skip("network namespaces need ip: apt-get install -y iproute2")
        try:
            made.open()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no right to make network namespaces: {' '.join(error.cmd)}: {error.stderr.strip()}")
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def _hosts_of_the_module() -> Iterator[Hosts]:
    with joined() as made:
        made.exchange_keys()
        yield made


@pytest.fixture
def hosts(_hosts_of_the_module: Hosts) -> Iterator[Hosts]:
    """Two hosts, `desk` and `robot`, joined by a veth pair, with each other's keys.

    All tests of a module have the same; what a test starts there, and does to the link, ends with it.
    """
    before = [host.bytes() for host in _hosts_of_the_module]
    _hosts_of_the_module.skipped = False
    try:
        yield _hosts_of_the_module
    finally:
        _hosts_of_the_module.mend()
    if not _hosts_of_the_module.skipped:
        went_over(_hosts_of_the_module, before)


@pytest.fixture(name="wait_for")
def _wait_for() -> Callable[..., Any]:
    """`wait_for`, as tests have no module of helpers."""
    return wait_for

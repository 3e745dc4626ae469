"""The supervisor with real processes: order, readiness, restarts, ends, and what a failure says."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from nodes.framework.launching import supervisor
from nodes.framework.launching.supervisor import Failure, Program, Supervisor

READY = "import pathlib, sys, time, signal; pathlib.Path(sys.argv[1]).touch();"


class Bench:
    """A supervisor whose children report ready by a file and are asked to end by another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self.supervisor = Supervisor(
            folder=folder / "logs",
            is_ready=lambda name, pid: self.ready_file(name).exists(),
            request_stop=self.request_stop,
            note=lambda name, line: self.notes.append(f"{name}: {line}"),
        )

    def request_stop(self, name: str) -> bool:
        (self.folder / f"{name}.stop").touch()
        return self.ready_file(name).exists()

    def ready_file(self, name: str) -> Path:
        return self.folder / f"{name}.ready"

    def program(self, name: str, code: str, **policy: object) -> Program:
        arguments = [str(self.ready_file(name)), str(self.folder / f"{name}.stop")]
        return Program(name, [sys.executable, "-c", code, *arguments], **policy)  # type: ignore[arg-type]

    def start(self, *programs: Program) -> Failure | None:
        self.supervisor.start(programs)
        return self.poll_until(lambda: self.supervisor.ready)

    def poll_until(self, done: Callable[[], object], deadline_s: float = 10.0) -> Failure | None:
        deadline = time.monotonic() + deadline_s
        while time.monotonic() < deadline:
            failure = self.supervisor.poll()
            if failure is not None or done():
                return failure
            time.sleep(0.01)
        raise AssertionError(f"nothing happened within {deadline_s} s; notes: {self.notes}")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.supervisor.in_a_hurry = True
    bench.supervisor.stop()


POLITE = READY + "stop = pathlib.Path(sys.argv[2])\nwhile not stop.exists(): time.sleep(0.01)"
UNTIL_GO = "go = pathlib.Path(sys.argv[2]).with_suffix('.go')\nwhile not go.exists(): time.sleep(0.01)"
STUBBORN = READY + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)"


def test_children_start_in_order_and_end_when_asked(bench: Bench) -> None:
    assert bench.start(bench.program("first", POLITE), bench.program("second", POLITE)) is None
    assert list(bench.supervisor.children) == ["first", "second"]
    bench.supervisor.stop()
    assert [child.exit_code for child in bench.supervisor.children.values()] == [0, 0]
    assert bench.notes == []


FAILING = POLITE + "\nsys.exit(4)"


def test_a_child_that_fails_while_it_ends_has_failed(bench: Bench) -> None:
    programs = [
        bench.program("restarted", FAILING, restart="on-failure"),
        bench.program("spare", FAILING, required=False),
        bench.program("watching", FAILING, needed=False),
        bench.program("polite", POLITE),
        bench.program("failing", FAILING),
    ]
    assert bench.start(*programs) is None
    bench.supervisor.stop()
    failure = bench.supervisor.failure_at_end()
    assert failure is not None
    assert (failure.name, failure.exit_code, failure.reason) == ("failing", 4, "failed")
    assert bench.supervisor.failed == {"spare": 4}


def test_a_child_that_was_killed_has_not_failed_of_itself(bench: Bench) -> None:
    bench.supervisor.polite_s = 0.1
    assert bench.start(bench.program("stubborn", STUBBORN)) is None
    bench.supervisor.stop()
    assert bench.supervisor.failure_at_end() is None


def test_a_child_that_ignores_every_request_is_killed(bench: Bench) -> None:
    bench.supervisor.polite_s = 0.1
    assert bench.start(bench.program("stubborn", STUBBORN)) is None
    bench.supervisor.stop()
    assert bench.notes == [
        "stubborn: did not end on request, so SIGTERM",
        "stubborn: did not end on request, so SIGKILL",
    ]
    assert bench.supervisor.children["stubborn"].exit_code == 128 + 9


def test_a_child_that_a_loaded_computer_keeps_waiting_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.supervisor.polite_s = 0.05
    assert bench.start(bench.program("starved", READY + UNTIL_GO)) is None
    asked = []

    def waited(pid: int) -> float:
        asked.append(pid)
        if len(asked) > 3:  # it is looked at when its time is over, and it has a core at last
            (bench.folder / "starved.go").touch()
        return 100.0 * (len(asked) > 1)

    monkeypatch.setattr(supervisor, "waited_for_a_core", waited)
    bench.supervisor.stop()
    assert len(asked) > 3
    assert (bench.notes, bench.supervisor.children["starved"].exit_code) == ([], 0)


def test_a_child_that_did_not_answer_is_asked_again(bench: Bench) -> None:
    asked = []

    def ask(name: str) -> bool:
        asked.append(name)
        if len(asked) == 1:
            raise TimeoutError("no reply")
        return bench.request_stop(name)

    bench.supervisor.request_stop = ask
    assert bench.start(bench.program("busy", POLITE)) is None
    bench.supervisor.stop()
    assert asked == ["busy", "busy"]
    assert bench.notes == []


def test_what_a_process_waits_for_a_core_is_known(bench: Bench) -> None:
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel does not tell how long threads wait for a core (CONFIG_SCHED_INFO)")
    code = READY + "\nimport os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"
    assert bench.start(bench.program("one", code), bench.program("two", code)) is None
    pids = [child.pid for child in bench.supervisor.children.values()]
    bench.poll_until(lambda: min(map(supervisor.waited_for_a_core, pids)) > 0.05)
    bench.supervisor.in_a_hurry = True
    bench.supervisor.stop()
    assert supervisor.waited_for_a_core(pids[0]) == 0.0  # it is no more


def test_a_child_that_is_still_loading_is_not_waited_for(bench: Bench) -> None:
    bench.supervisor.start([bench.program("loading", "import time; time.sleep(600)")])
    begin = time.monotonic()
    bench.supervisor.stop()
    assert time.monotonic() - begin < bench.supervisor.polite_s
    assert bench.supervisor.children["loading"].exit_code == 128 + 15


def test_what_a_child_started_ends_with_it(bench: Bench) -> None:
    code = READY + (
        "import subprocess\np = subprocess.Popen(['sleep', '600'])\nprint(p.pid, flush=True)\n"
        "stop = pathlib.Path(sys.argv[2])\nwhile not stop.exists(): time.sleep(0.01)"
    )
    assert bench.start(bench.program("parent", code)) is None
    lines: list[tuple[str, str]] = []
    bench.poll_until(lambda: lines.extend(bench.supervisor.new_lines()) or lines)
    grandchild = psutil.Process(int(lines[0][1]))
    bench.supervisor.stop()
    _, alive = psutil.wait_procs([grandchild], timeout=5.0)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def test_a_failure_gives_the_exit_code_and_the_last_lines(bench: Bench) -> None:
    code = READY + "print('about to fail'); raise SystemExit(7)"
    failure = bench.start(bench.program("broken", code)) or bench.poll_until(lambda: False)
    assert failure is not None
    assert (failure.name, failure.exit_code) == ("broken", 7)
    assert failure.last_lines == ["about to fail"]


def test_a_killed_child_fails_with_128_plus_the_signal(bench: Bench) -> None:
    assert bench.start(bench.program("victim", POLITE)) is None
    psutil.Process(bench.supervisor.children["victim"].pid).kill()
    failure = bench.poll_until(lambda: False)
    assert failure is not None
    assert failure.exit_code == 128 + 9


def test_a_child_that_never_gets_ready_is_named_with_the_deadline(bench: Bench) -> None:
    bench.supervisor.ready_deadline_s = 0.3
    program = Program("slow", [sys.executable, "-c", "import time; time.sleep(600)"])
    failure = bench.start(program)
    assert failure is not None
    assert (failure.name, failure.reason) == ("slow", "not ready within 0.3 s")


def test_the_deadline_counts_from_the_last_line_of_a_child_that_says_what_takes_it_so_long(bench: Bench) -> None:
    program = Program("slow", [sys.executable, "-c", "import time; print('compiling', flush=True); time.sleep(600)"])
    bench.supervisor.start([program])
    heard: list[tuple[str, str]] = []
    assert bench.poll_until(lambda: heard.extend(bench.supervisor.new_lines()) or heard) is None
    child, past = bench.supervisor.children["slow"], 1000.0
    child.started_at -= past
    assert bench.supervisor.poll() is None
    child.last_output_at -= past
    failure = bench.supervisor.poll()
    assert failure is not None
    assert failure.reason == f"not ready within {bench.supervisor.ready_deadline_s:g} s"


def test_a_child_that_waits_for_another_has_time_while_the_other_says_that_it_compiles(bench: Bench) -> None:
    waits = Program("recorder", [sys.executable, "-c", "import time; time.sleep(600)"])
    compiles = Program("sim", [sys.executable, "-c", "import time; print('compiling', flush=True); time.sleep(600)"])
    bench.supervisor.start([waits, compiles])
    heard: list[tuple[str, str]] = []
    assert bench.poll_until(lambda: heard.extend(bench.supervisor.new_lines()) or heard) is None
    for child in bench.supervisor.children.values():
        child.started_at -= 1000.0
    assert bench.supervisor.poll() is None
    bench.supervisor.children["sim"].last_output_at -= 1000.0
    assert bench.supervisor.poll() is not None


def test_on_failure_restarts_until_the_allowance_is_spent(bench: Bench) -> None:
    # Lives long enough to be seen ready: one that fails before that is not restarted.
    code = READY + "time.sleep(0.3); print('dying'); raise SystemExit(3)"
    program = bench.program("weak", code, restart="on-failure", max_restarts=2, backoff_s=0.05)
    assert bench.start(program) is None
    failure = bench.poll_until(lambda: False)
    assert failure is not None
    assert (failure.exit_code, failure.reason) == (3, "failed after 2 restarts")
    assert failure.last_lines == ["dying"]  # of the last process, not of those before it
    assert [note.split(";")[1] for note in bench.notes] == [
        " restart 1 of 2 in 0.05 s",
        " restart 2 of 2 in 0.1 s",
    ]


@pytest.mark.parametrize(("policy", "restarts"), [("on-failure", 0), ("never", 0), ("always", 1)])
def test_an_ordinary_end_is_restarted_only_by_always(bench: Bench, policy: str, restarts: int) -> None:
    code = READY + "time.sleep(0.3)"
    program = bench.program("brief", code, restart=policy, max_restarts=1, backoff_s=0.01)
    assert bench.start(program) is None
    child = bench.supervisor.children["brief"]
    assert bench.poll_until(lambda: child.state == "ended") is None
    assert child.restarts == restarts


def test_a_chatty_child_fills_no_disk_and_its_last_lines_stay(bench: Bench) -> None:
    # 6 MB, past the 4 MiB at which the file is emptied.
    code = READY + "[print('x' * 99) for _ in range(60_000)]; print('the end', flush=True); time.sleep(600)"
    assert bench.start(bench.program("chatty", code)) is None
    log = bench.supervisor.children["chatty"].log
    bench.poll_until(lambda: log.last(1) == ["the end"])
    assert log.path.stat().st_size < 4 * 1024 * 1024

"""The client on a live launch: nodes, topics, services and streams."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.client import Client, NotLiveError, UnknownNameError, read_recording
from nodes.framework.messages import Description, Message, RobotState
from nodes.framework.messages.codec import WireError
from nodes.framework.recording import reader as recording
from nodes.framework.transport import background_threads
from nodes.framework.transport.bus import Subscriber
from nodes.framework.transport.service import ServiceError

STATE = "rotary_pendulum/state"


def test_nodes_are_listed_with_the_server_first(live: Any) -> None:
    with Client() as client:
        entries = client.nodes()
    assert [entry.name for entry in entries] == ["sim", "damper", "listener"]
    assert all(entry.pid > 0 and {"data", "service"} <= entry.endpoints.keys() for entry in entries)


def test_only_threads_that_carry_messages_can_interrupt_a_time_step(live: Any) -> None:
    with Client() as client:
        pid = client.node("sim").pid
    threads = {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()}
    assert threads > {pid, *background_threads.io_threads(pid)}
    carrying = {pid, *background_threads.io_threads(pid)}
    assert {thread for thread in threads if os.sched_getscheduler(thread) == os.SCHED_OTHER} == carrying
    assert {os.sched_getscheduler(thread) for thread in threads - carrying} == {os.SCHED_BATCH}


def test_topics_know_who_speaks_and_who_listens(live: Any) -> None:
    with Client() as client:
        topics = {topic.name: topic for topic in client.topics()}
    assert (topics[STATE].message, topics[STATE].publishes) == ("RobotState", ["sim"])
    assert topics[STATE].subscribes == ["damper", "listener"]
    assert topics["rotary_pendulum/command"].publishes == ["damper"]


def test_a_stream_gives_the_state_in_order_and_without_gaps(live: Any) -> None:
    heard: list[RobotState] = []
    with Client() as client:
        for topic, state in client.stream(STATE, timeout_s=5.0):
            assert topic == STATE
            assert isinstance(state, RobotState)
            heard.append(state)
            if len(heard) == 100:
                break
    assert [state.seq for state in heard] == list(range(heard[0].seq, heard[0].seq + 100))
    assert heard[-1].timestamp > heard[0].timestamp


def test_a_stream_with_a_pause_yields_what_queued_in_the_pause_without_gaps(
    live: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    receptions: list[int] = []
    receive_batch = Subscriber.receive_batch

    def counted(subscriber: Subscriber, timeout_s: float = 0.0) -> list[tuple[str, str, Message]]:
        found = receive_batch(subscriber, timeout_s)
        receptions.append(len(found))
        return found

    monkeypatch.setattr(Subscriber, "receive_batch", counted)
    heard: list[int] = []
    with Client() as client:
        for _, state in client.stream(STATE, timeout_s=5.0, pause_s=0.1):
            heard.append(state.seq)
            if len(heard) == 200:
                break
    assert heard == list(range(heard[0], heard[0] + 200))
    assert sum(count > 0 for count in receptions) <= 40  # 200 messages at 200 Hz arrive in 10 pauses


def test_a_late_stream_hears_what_is_latched(live: Any) -> None:
    with Client() as client:
        _, description = next(client.stream("rotary_pendulum/description", timeout_s=5.0))
    assert isinstance(description, Description)
    assert description.robot == "rotary_pendulum"


def test_a_stream_of_everything_hears_several_topics(live: Any) -> None:
    topics = set()
    with Client() as client:
        for topic, _ in client.stream(timeout_s=5.0):
            topics.add(topic)
            if {STATE, "rotary_pendulum/command", "rotary_pendulum/description", "status"} <= topics:
                return
    raise AssertionError(f"heard only {topics}")


def test_a_stream_ends_when_nothing_is_said(live: Any) -> None:
    begin = time.monotonic()
    with Client() as client:
        assert list(client.stream("rotary_pendulum/reference", timeout_s=0.3)) == []
    assert 0.3 <= time.monotonic() - begin < 10.0


def test_services_answer_and_refuse_in_one_line(live: Any) -> None:
    with Client() as client:
        assert client.sim_status()["mode"] == "realtime"
        assert client.call("damper", "get_parameters")["damping"] == 1e-3
        assert client.call("damper", "describe_parameters")["damping"].keys() == {"unit", "low", "high"}
        with pytest.raises(ServiceError, match="speed: the argument 'x' is -1"):
            client.call("sim", "speed", x=-1)
        with pytest.raises(ServiceError, match="has no service 'dance'"):
            client.call("damper", "dance")


def test_unknown_names_are_answered_with_those_there_are(live: Any) -> None:
    with Client() as client:
        with pytest.raises(UnknownNameError, match="no node 'dumper' in domain 0; nodes are sim, damper, listener"):
            client.call("dumper", "status")
        with pytest.raises(WireError, match="not in the topic table"):
            next(client.stream("rotary_pendulum/stat"))


def test_a_domain_without_a_launch_is_said_so_at_once(live: Any) -> None:
    begin = time.monotonic()
    with pytest.raises(NotLiveError, match="no launch is live in domain 5"):
        Client(5)
    assert time.monotonic() - begin < 5.0


def test_recordings_are_read_through_the_client_too() -> None:
    assert read_recording is recording.read_recording


def test_the_client_imports_neither_the_runtime_nor_the_dynamics() -> None:
    code = (
        "import sys, nodes.framework.client\n"
        "heavy = ('nodes.framework.hosting', 'nodes.framework.plan', 'robots', 'sim_core', 'numba', 'casadi')\n"
        "light = ('sim_core', 'sim_core.support', 'sim_core.support.extras', 'sim_core.support.suggestion',"
        " 'sim_core.errors', 'sim_core.trusted_files')\n"
        "found = [m for m in sys.modules if m.startswith(heavy) and m not in light]\n"
        "sys.exit(f'imported {found}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=False)
    assert done.returncode == 0

"""The registry: one per domain, forgets the dead, and can be restarted under living nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from nodes.wire.domain import DomainError, domain_folder, ipc_endpoint
from nodes.wire.registry import (
    NodeEntry,
    Registry,
    RegistryAbsent,
    RegistryClient,
    RegistryError,
    calls_endpoint,
    is_alive,
)
from nodes.wire.registry_link import RegistryLink
from nodes.wire.service import ServiceClient, ServiceError

Until = Callable[..., Any]


def entry(name: str, pid: int | None = None, **more: Any) -> NodeEntry:
    return NodeEntry(name=name, pid=os.getpid() if pid is None else pid, **more)


def names(client: RegistryClient) -> list[str]:
    return [node.name for node in client.nodes()]


def test_a_second_registry_in_a_live_domain_is_refused_in_one_line(domain: int) -> None:
    with Registry(domain), pytest.raises(RegistryError) as refused, Registry(domain):
        pass
    line = str(refused.value)
    assert f"domain {domain} is live already (pid {os.getpid()})" in line
    assert "\n" not in line
    with Registry(domain), Registry(domain + 1):  # free again; others are not concerned
        pass


def test_the_domain_folder_is_private_and_left_empty(domain: int) -> None:
    with Registry(domain):
        assert domain_folder(domain).stat().st_mode & 0o777 == 0o700
    assert not list(domain_folder(domain).iterdir())


def test_what_killed_processes_left_is_swept_at_the_start(domain: int) -> None:
    for leaf in ("sim-1.data", "sim-1.data.lock"):
        (domain_folder(domain) / leaf).touch()
    with Registry(domain):
        assert not list(domain_folder(domain).glob("sim-1*"))


def test_a_domain_is_a_number_and_its_paths_are_short(domain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DomainError, match="not in 0"):
        domain_folder(-1)
    with pytest.raises(DomainError, match="longer than"):
        ipc_endpoint(domain, "x" * 100)


def test_nodes_register_get_ready_and_leave(domain: int) -> None:
    with Registry(domain), RegistryClient(domain) as client:
        sim = entry("sim", endpoints={"data": "ipc://x"}, speaks=["robot/state"])
        assert client.register(sim) == 1
        assert client.nodes() == [sim]
        client.ready("sim")
        assert client.nodes()[0].state == "ready"
        client.unregister("sim")
        assert client.nodes() == []
        assert client.register(entry("sim", endpoints={"data": "ipc://y"})) == 2
        with pytest.raises(RegistryError, match="no node 'arm'"):
            client.ready("arm")


def test_a_name_belongs_to_a_live_process(domain: int) -> None:
    with Registry(domain), RegistryClient(domain) as client:
        client.register(entry("sim"))
        with pytest.raises(RegistryError, match="taken by the live process"):
            client.register(entry("sim", pid=os.getppid()))


def test_no_registry_is_said_in_one_line(domain: int) -> None:
    with RegistryClient(domain, timeout_s=0.05) as client, pytest.raises(RegistryAbsent, match="no launch is live"):
        client.nodes()


def test_strange_calls_are_refused(domain: int) -> None:
    with Registry(domain), ServiceClient(calls_endpoint(domain)) as client:
        with pytest.raises(ServiceError, match="no call 'dance'"):
            client.call("dance")
        with pytest.raises(ServiceError, match="register"):
            client.call("register", {"name": 5})


def test_a_dead_process_is_removed_even_before_it_is_waited_for(domain: int, until: Until) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Registry(domain), RegistryClient(domain) as client:
        client.register(entry("node", pid=process.pid))
        assert names(client) == ["node"]
        process.kill()
        until(lambda: names(client) == [])
        process.communicate()
    assert not is_alive(process.pid)


def test_a_missed_lease_removes_an_entry_and_a_kept_one_stays(domain: int, until: Until) -> None:
    with Registry(domain, lease_s=1.5), RegistryClient(domain) as client:
        link = RegistryLink(domain)
        link.keep(entry("kept"))
        client.register(entry("forgotten"))
        until(lambda: names(client) == ["kept"])
        assert "kept" in names(client)
        link.close()
        assert names(client) == []


def test_changes_are_heard_and_states_reach_the_registry(domain: int, until: Until) -> None:
    heard: list[list[str]] = []
    with Registry(domain), RegistryClient(domain) as client:
        link = RegistryLink(domain, lambda nodes: heard.append([f"{n.name} {n.state}" for n in nodes]))
        link.keep(entry("a"))
        until(lambda: heard and heard[-1] == ["a starting"])
        link.set_state("ready")
        until(lambda: heard[-1] == ["a ready"])
        client.register(entry("b"))
        until(lambda: heard[-1] == ["a ready", "b starting"])
        link.close()


def test_nodes_register_anew_at_a_restarted_registry_and_links_do_not_notice(domain: int, until: Until) -> None:
    heard: list[list[str]] = []
    with Registry(domain):
        first = RegistryLink(domain, lambda nodes: heard.append(sorted(node.name for node in nodes)))
        second = RegistryLink(domain)
        first.keep(entry("a"))
        second.keep(entry("b"))
        until(lambda: heard and heard[-1] == ["a", "b"])
        seen = len(heard)
    with Registry(domain), RegistryClient(domain) as client:
        until(lambda: sorted(names(client)) == ["a", "b"])
        assert all(set(nodes) == {"a", "b"} for nodes in heard[seen:])
        first.close()
        second.close()


def test_a_node_that_starts_before_the_registry_is_entered_when_it_comes(domain: int, until: Until) -> None:
    link = RegistryLink(domain)
    link.keep(entry("early"))
    with Registry(domain), RegistryClient(domain) as client:
        until(lambda: names(client) == ["early"])
        link.close()

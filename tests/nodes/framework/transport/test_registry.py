"""The registry: one per domain, forgets the dead, and can be restarted under living nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.framework.messages.protocol import PROTOCOL
from nodes.framework.transport.bus import Subscriber
from nodes.framework.transport.domain import DomainError, domain_folder, ipc_endpoint
from nodes.framework.transport.host_config import HostConfig, read_host_config, remove_host_config, write_host_config
from nodes.framework.transport.registry import (
    LARGEST_GENERATION,
    SILENT_S,
    NodeEntry,
    Registry,
    RegistryAbsent,
    RegistryClient,
    RegistryError,
    calls_endpoint,
    is_alive,
)
from nodes.framework.transport.registry_link import RegistryLink
from nodes.framework.transport.service import ServiceClient, ServiceError
from nodes.framework.transport.sockets import AddressError

Until = Callable[..., Any]


def test_a_host_configuration_is_replaced_as_a_whole(domain: int) -> None:
    first, second = (HostConfig(host="desk", address=f"127.0.0.{k}") for k in (1, 2))
    write_host_config(domain, first)
    try:
        with (domain_folder(domain) / "host.json").open("rb") as reading:
            write_host_config(domain, second)
            assert msgspec.json.decode(reading.read(), type=HostConfig) == first
        assert read_host_config(domain) == second
        assert not list(domain_folder(domain).glob("*.part"))
    finally:
        remove_host_config(domain)


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


@pytest.mark.parametrize("runtime", ["XDG_RUNTIME_DIR", "fallback"])
@pytest.mark.parametrize("which", ["root", "domain"])
@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701, 0o1777])
def test_a_runtime_folder_that_is_open_to_others_is_refused_with_the_remedy(
    runtime: str, which: str, mode: int, domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runtime == "fallback":
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        monkeypatch.setattr("nodes.framework.transport.domain.FALLBACK", str(tmp_path / "armswing"))
    folder = domain_folder(domain)
    opened = folder if which == "domain" else folder.parent
    opened.chmod(mode)
    with pytest.raises(DomainError) as refused:
        domain_folder(domain)
    assert str(refused.value).startswith(f"{opened} is open to other users (mode {mode:04o})")
    assert f"'chmod go-rwx {opened}'" in str(refused.value)
    with pytest.raises(DomainError):
        Registry(domain).__enter__()
    opened.chmod(0o700)
    assert domain_folder(domain) == folder


def test_a_relative_runtime_folder_is_refused(domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "runtime/of/mine")
    with pytest.raises(DomainError, match=r"^XDG_RUNTIME_DIR='runtime/of/mine' is not an absolute path$"):
        domain_folder(domain)
    assert not list(tmp_path.iterdir())


def test_a_runtime_folder_that_others_may_write_to_is_refused_and_one_that_they_may_only_read_is_not(
    domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Path(os.environ["XDG_RUNTIME_DIR"])
    runtime.chmod(0o777)
    with pytest.raises(
        DomainError, match=rf"{runtime} is open to other users \(mode 0777\); close it with 'chmod go-w"
    ):
        domain_folder(domain)
    runtime.chmod(0o755)
    assert domain_folder(domain).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("runtime", ["XDG_RUNTIME_DIR", "fallback"])
def test_a_runtime_folder_of_another_user_is_refused(
    runtime: str, domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = os.getuid() + 1
    if runtime == "fallback":
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        monkeypatch.setattr("nodes.framework.transport.domain.FALLBACK", str(tmp_path / "armswing"))
    monkeypatch.setattr("nodes.framework.transport.domain.os.getuid", lambda: other)
    with pytest.raises(DomainError, match=rf"belongs to another user \(uid {other - 1}, yours is {other}\); set XDG"):
        domain_folder(domain)


def test_what_killed_processes_left_is_swept_at_the_start(domain: int) -> None:
    for leaf in ("sim-1.data", "sim-1.data.lock"):
        (domain_folder(domain) / leaf).touch()
    with Registry(domain):
        assert not list(domain_folder(domain).glob("sim-1*"))


def test_a_domain_is_a_number_and_its_paths_are_short(domain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DomainError, match="not in 0"):
        domain_folder(-1)
    with pytest.raises(DomainError, match="has more than"):
        ipc_endpoint(domain, "x" * 100)


def test_nodes_register_get_ready_and_leave(domain: int) -> None:
    with Registry(domain), RegistryClient(domain) as client:
        sim = entry("sim", endpoints={"data": "ipc://x"}, publishes=["robot/state"])
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


BAD_ADDRESSES = [
    "",
    "garbage",
    "tcp://8.8.8.8:99",
    "tcp://127.0.0.1:notaport",
    "tcp://127.0.0.1:0",
    "tcp://127.0.0.1:70000",
    "ipc://" + "x" * 200,
    "ipc://\0\0",
]


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_an_address_that_is_none_is_refused_at_the_door_and_by_every_listener(address: str, domain: int) -> None:
    with Registry(domain), RegistryClient(domain) as client:
        for use in ("data", "service", "step"):
            with pytest.raises(RegistryError, match=f"register: endpoint '{use}': "):
                client.register(entry("rogue", endpoints={use: address}))
        assert client.nodes() == []
    with zmq.Context() as context:
        subscriber = Subscriber(context, ["status"], "listener")
        with pytest.raises(AddressError):
            subscriber.connect("rogue", address)
        assert not subscriber.connections
        with pytest.raises(AddressError):
            ServiceClient(address, context)


def test_what_only_libzmq_refuses_is_an_address_error_too() -> None:
    with zmq.Context() as context, pytest.raises(AddressError, match=r"cannot connect to 'tcp://127.0.0.1:\*'"):
        Subscriber(context, ["status"], "listener").connect("rogue", "tcp://127.0.0.1:*")


def test_a_generation_beyond_counting_does_not_end_the_registry(domain: int) -> None:
    with Registry(domain), RegistryClient(domain) as client:
        for generation in (2**64 - 1, LARGEST_GENERATION + 1, -1):
            with pytest.raises(RegistryError, match="generation"):
                client.register(entry("sim", generation=generation))
        for address in ("ipc://a", "ipc://b", "ipc://c"):  # moved, and never refused for what it was given
            generation = client.register(entry("sim", endpoints={"data": address}, generation=LARGEST_GENERATION))
            assert generation == LARGEST_GENERATION
        assert names(client) == ["sim"]


plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=20)
addresses = st.sampled_from(BAD_ADDRESSES) | st.text(max_size=20).map("ipc://{}".format) | st.text(max_size=40)
entries = st.fixed_dictionaries(
    {"name": st.text(max_size=20) | plain, "pid": st.integers(-(2**63), 2**64 - 1) | plain},
    optional={
        "endpoints": st.dictionaries(st.text(max_size=8), addresses, max_size=3) | plain,
        "publishes": st.lists(st.text(max_size=10), max_size=3) | plain,
        "generation": st.integers(-(2**63), 2**64 - 1) | plain,
        "lossless": plain,
    },
)


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(call=st.sampled_from(["register", "ready", "unregister"]), args=entries)
def test_no_entry_is_more_than_refused(registry_here: ServiceClient, call: str, args: dict[str, Any]) -> None:
    with suppress(ServiceError):
        registry_here.call(call, args)
    registry_here.call("nodes")


@pytest.fixture
def registry_here(domain: int) -> Iterator[ServiceClient]:
    with Registry(domain), ServiceClient(calls_endpoint(domain)) as client:
        yield client


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
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Registry(domain, lease_s=1.5), RegistryClient(domain) as client:
        link = RegistryLink(domain)
        link.keep(entry("kept"))
        client.register(entry("forgotten", pid=process.pid))
        until(lambda: [node.name for node in link.nodes] == ["kept", "forgotten"])
        until(lambda: [node.name for node in link.nodes] == ["kept"])  # nobody is connected to it
        process.kill()
        until(lambda: names(client) == ["kept"])
        link.close()
        assert names(client) == []
    process.communicate()


def test_a_silent_node_is_in_the_list_for_as_long_as_its_process_exists(domain: int, until: Until) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Registry(domain, lease_s=1.5), RegistryClient(domain) as client:
        silent = entry("silent", pid=process.pid, silent_s=77.0)
        client.register(silent)
        assert [node.silent_s for node in client.nodes()] == [0.0]
        until(lambda: [node.silent_s > SILENT_S for node in client.nodes()] == [True])  # also beyond its lease
        client.register(silent)
        assert [(node.name, node.silent_s) for node in client.nodes()] == [("silent", 0.0)]
        until(lambda: client.nodes()[0].silent_s > 0.0)
        process.kill()
        until(lambda: client.nodes() == [])
    process.communicate()


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


@pytest.mark.parametrize(("given", "age"), [({}, "older"), ({"protocol": PROTOCOL + 1}, "newer")])
def test_an_entry_with_other_names_on_the_wire_is_refused(given: dict[str, int], age: str, domain: int) -> None:
    known = 1 if not given else PROTOCOL + 1
    with Registry(domain), ServiceClient(calls_endpoint(domain)) as client:
        with pytest.raises(ServiceError) as refused:
            client.call("register", {"name": "theirs", "pid": os.getpid(), **given}, 5.0)
        assert client.call("nodes", {}, 5.0) == []
    assert str(refused.value).endswith(
        f"node 'theirs' uses protocol {known}, this armswing protocol {PROTOCOL}: it is of {age} software; "
        "update the older software"
    )

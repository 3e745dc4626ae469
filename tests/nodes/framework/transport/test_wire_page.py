"""docs/wire.md says what the code does: topics, fields with types and defaults, sizes, names and times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

from nodes.framework.messages import structs as messages
from nodes.framework.messages.codec import LARGEST_SEQ, LATEST_S, MAX_BYTES
from nodes.framework.messages.topics import GLOBAL_TOPICS, NODE_TOPICS, ROBOT_TOPICS
from nodes.framework.transport import domain, registry, registry_link, service, sockets
from nodes.framework.transport.bus import PROBE

PAGE = (Path(__file__).parents[4] / "docs" / "wire.md").read_text()
PLAIN = {
    inspect.FloatType: "float",
    inspect.IntType: "int",
    inspect.StrType: "str",
    inspect.BytesType: "bytes",
    inspect.LiteralType: "str",
    inspect.BoolType: "bool",
    inspect.NoneType: "nil",
    inspect.AnyType: "any",
}


def said(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.UnionType):
        return " or ".join(said(each) for each in kind.types)
    if isinstance(kind, inspect.ListType):
        return f"array of {said(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        return f"map of {said(kind.value_type)}"
    return kind.cls.__name__ if isinstance(kind, inspect.StructType) else PLAIN[type(kind)]


def structs() -> Iterator[type[msgspec.Struct]]:
    for value in vars(messages).values():
        if isinstance(value, type) and issubclass(value, msgspec.Struct):
            yield value
    yield from (registry.NodeEntry, registry.News, service.Call, service.Reply)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading."""
    _, found, rest = PAGE.partition(f"\n{heading}\n")
    assert found, f"the page has no {heading!r}"
    part = re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("kind", list(structs()), ids=lambda kind: kind.__name__)
def test_every_field_of_every_message_is_on_the_page(kind: type[msgspec.Struct]) -> None:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    common = messages.Message.__struct_fields__ if kind is not messages.Message else ()
    wanted = []
    for field in info.fields:
        if issubclass(kind, messages.Message) and field.name in common:
            continue
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if default is msgspec.NODEFAULT and not field.required:  # UNSET
            wanted.append([f"`{field.name}`", said(field.type), "absent"])
            continue
        text = "required" if default is msgspec.NODEFAULT else f"`{msgspec.json.encode(default).decode()}`"
        wanted.append([f"`{field.name}`", said(field.type), "nil" if default is None else text])
    missing = "\n".join(f"| {' | '.join(row)} | |" for row in wanted)
    assert [row[:3] for row in rows(f"### {kind.__name__}")] == wanted, f"docs/wire.md needs these rows:\n{missing}"


def test_every_topic_is_on_the_page() -> None:
    table = ROBOT_TOPICS | {f"<node>/{name}": topic for name, topic in NODE_TOPICS.items()} | GLOBAL_TOPICS
    wanted = [
        [
            f"`{name}`",
            topic.message.__name__,
            "yes" if topic.latched else "no",
            "sampled" if topic.sampled else "lossless",
        ]
        for name, topic in table.items()
    ]
    assert rows("## Topics") == wanted


@pytest.mark.parametrize(
    "text",
    [
        f"`MAXMSGSIZE` {sockets.LARGEST_FRAME} bytes; a message above {MAX_BYTES} bytes is refused",
        f"`HEARTBEAT_IVL` is {sockets.HEARTBEAT_MS} ms",
        f"`HEARTBEAT_TIMEOUT` and `HEARTBEAT_TTL` {sockets.HEARTBEAT_TIMEOUT_MS} ms",
        f"whole number in 0 .. {domain.LARGEST_DOMAIN}",
        f"at most {domain.LONGEST_IPC_PATH} bytes",
        f"for the topic `{PROBE.decode()}`",
        f"subscribed to `{registry.NEWS_TOPIC.decode()}`",
        f"without a renewal for {registry.LEASE_S:g} s is removed",
        f"at every change and every {registry.NEWS_S:g} s",
        f"Every node replies to `{service.CLOCK}` with",
        f"to 2**{LARGEST_SEQ.bit_length() - 1}",
        f"0 .. {LATEST_S:.0e}".replace("e+09", "e9"),
    ],
)
def test_sizes_names_and_times_on_the_page_are_those_of_the_code(text: str) -> None:
    assert text in " ".join(PAGE.split())


def test_fixed_names_and_the_rate_of_renewals_are_those_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp/x")
    monkeypatch.setattr(domain, "domain_folder", lambda number: Path("/tmp/x/armswing") / str(number))
    assert registry.calls_endpoint(7) == "ipc:///tmp/x/armswing/7/registry"
    assert registry.news_endpoint(7) == "ipc:///tmp/x/armswing/7/registry-news"
    assert "Connect a DEALER to `registry` there, a SUB to `registry-news`" in PAGE
    assert registry_link.RENEW_S == 1.0
    assert "again once a second" in PAGE

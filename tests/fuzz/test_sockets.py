"""A short run of `make fuzz`: no socket dies of mutated frames, and all are accounted for."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.framework.messages.codec import WireError, decode, encode

MUTATIONS = 20_000


def script() -> ModuleType:
    """tests/fuzz/sockets.py as a module."""
    spec = importlib.util.spec_from_file_location("fuzz_sockets", Path(__file__).with_name("sockets.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FUZZ = script()
FRAMES = FUZZ.fuzz_frames
REAL = {topic: encode(message, topic) for topic, message in FRAMES.stream()}


@pytest.fixture
def runtime_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A short one: a socket's path may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="fz", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.mark.usefixtures("runtime_folder")
def test_no_socket_dies_of_mutated_frames_and_all_are_accounted_for() -> None:
    said: list[str] = []
    assert FUZZ.fuzz(MUTATIONS, seed=7, tell=said.append) >= MUTATIONS
    assert len(said) == len(FUZZ.TARGETS)


def test_a_seed_makes_the_same_mutations_each_time() -> None:
    real = FRAMES.stream_frames()
    first, second, other = (
        [mutator.mutate(real) for _ in range(200)]
        for mutator in (FRAMES.Mutator(1), FRAMES.Mutator(1), FRAMES.Mutator(2))
    )
    assert first == second != other


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data(), topic=st.sampled_from(sorted(REAL)))
def test_bytes_are_a_message_that_survives_the_way_back_or_an_error_of_the_wire(
    data: st.DataObject, topic: str
) -> None:
    whole = REAL[topic]
    place = st.integers(0, len(whole))
    begin, end, junk = data.draw(st.tuples(place, place, st.binary(max_size=12)))
    for payload in (junk, whole[:begin] + junk + whole[end:]):
        try:
            message = decode(topic, payload)
        except WireError:
            continue
        again = encode(message, topic)
        assert encode(decode(topic, again), topic) == again

"""The board's frames: what is encoded is read back, from any bytes around it, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robots.charmie.serial_frames import (
    COMMAND_BYTES,
    HEAD,
    STREAM_BYTES,
    Command,
    FrameReader,
    Stream,
    checksum,
    command_reader,
    stream_reader,
)

COUNT = st.integers(-(2**31), 2**31 - 1)
BYTE = st.integers(0, 255)
STREAMS = st.builds(
    Stream,
    number=BYTE,
    millis=st.integers(0, 2**32 - 1),
    counts=st.tuples(COUNT, COUNT, COUNT, COUNT),
    legs=st.integers(0, 1400).map(lambda tenths: tenths / 10.0),
    torso=st.integers(80, 1700).map(lambda tenths: tenths / 10.0),
    status=st.integers(0, 3),
)
SPEED = st.integers(0, 200)
COMMANDS = st.builds(
    Command,
    number=BYTE,
    right=SPEED,
    forward=SPEED,
    turn=SPEED,
    legs=st.none() | st.integers(0, 140),
    torso=st.none() | st.integers(8, 170),
)


def accounted(reader: FrameReader[Stream], size: int, fed: int) -> bool:
    """Whether each byte that came is in a frame, was skipped or waits."""
    return reader.frames * size + reader.skipped + reader.waiting == fed


def test_the_checksum_is_the_usual_crc_8() -> None:
    assert checksum(b"123456789") == 0xF4  # the check value of CRC-8 with polynomial 0x07


def test_a_stream_frame_has_29_bytes_and_looks_as_documented() -> None:
    frame = Stream(number=7, millis=1000, counts=(1, -1, 2250, -2250), legs=140.0, torso=8.0, status=1).encode()
    assert len(frame) == STREAM_BYTES == 29
    assert frame[:28].hex(" ") == (
        "23 23 07 e8 03 00 00 01 00 00 00 ff ff ff ff ca 08 00 00 36 f7 ff ff 78 05 50 00 01"
    )
    assert frame[28] == checksum(frame[2:28])


@given(st.lists(STREAMS, max_size=5), st.integers(1, 40))
def test_frames_are_read_back_however_they_are_cut(frames: list[Stream], size: int) -> None:
    data, reader = b"".join(frame.encode() for frame in frames), stream_reader()
    found = [frame for start in range(0, len(data), size) for frame in reader.feed(data[start : start + size])]
    assert found == frames
    assert (reader.frames, reader.bad, reader.skipped, reader.waiting) == (len(frames), 0, 0, 0)


@given(COMMANDS)
def test_commands_are_read_back(command: Command) -> None:
    data = command.encode()
    assert len(data) == COMMAND_BYTES == 9
    assert command_reader().feed(data) == [command]


@given(st.lists(st.binary(max_size=60) | STREAMS.map(Stream.encode), max_size=12), st.integers(1, 50))
def test_any_bytes_are_survived_and_each_is_accounted_for(pieces: list[bytes], size: int) -> None:
    data, reader = b"".join(pieces), stream_reader()
    for start in range(0, len(data), size):
        for frame in reader.feed(data[start : start + size]):
            assert stream_reader().feed(frame.encode()) == [frame]  # in range
    assert accounted(reader, STREAM_BYTES, len(data))
    assert reader.waiting < STREAM_BYTES


@given(st.binary(max_size=80).filter(lambda noise: b"#" not in noise), STREAMS, STREAMS)
def test_after_noise_the_next_frame_is_found(noise: bytes, first: Stream, second: Stream) -> None:
    reader = stream_reader()
    assert reader.feed(noise + first.encode() + noise + second.encode()) == [first, second]
    assert reader.skipped == 2 * len(noise)


@given(STREAMS, STREAMS, st.integers(1, STREAM_BYTES - 1))
def test_after_a_torn_frame_the_next_is_found_and_the_torn_one_counted(torn: Stream, whole: Stream, cut: int) -> None:
    reader = stream_reader()
    left = torn.encode()[:cut]
    found = reader.feed(left + whole.encode())
    if whole in found:
        assert found == [whole]
        assert reader.torn >= (left != HEAD[:1])
        assert reader.skipped == cut
    else:  # the torn head made a frame that happens to be right out of bytes of both: one in 256 at most
        assert reader.frames == 1
    assert accounted(reader, STREAM_BYTES, cut + STREAM_BYTES)


@given(STREAMS, st.integers(2, STREAM_BYTES - 1), st.integers(1, 255))
def test_a_frame_with_a_wrong_byte_is_never_taken(frame: Stream, place: int, flip: int) -> None:
    data = bytearray(frame.encode())
    data[place] ^= flip
    reader = stream_reader()
    assert reader.feed(bytes(data)) == []
    assert reader.bad >= 1


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("cut", [3, 10, 28])
def test_torn_frames_and_wrong_ones_are_counted_apart(cut: int, size: int) -> None:
    good = Stream(7, 1000, (1, -1, 2250, -2250), 140.0, 8.0).encode()
    flipped = good[:9] + bytes([good[9] ^ 4]) + good[10:]
    data, reader = good + good[:cut] + good + flipped + good[:cut] + good + flipped, stream_reader()
    found = [frame for start in range(0, len(data), size) for frame in reader.feed(data[start : start + size])]
    assert len(found) == 3
    assert (reader.torn, reader.wrong, reader.bad) == (2, 2, 4)


def test_values_out_of_range_are_no_frame_even_with_a_right_checksum() -> None:
    for wrong in (Stream(0, 0, (0, 0, 0, 0), 140.1, 8.0), Stream(0, 0, (0, 0, 0, 0), 0.0, 7.9, 0)):
        reader = stream_reader()
        assert reader.feed(wrong.encode()) == []
        assert reader.bad == 1
    reader = command_reader()
    assert reader.feed(Command(0, right=201).encode()) == []
    assert reader.bad == 1

"""Keys, tokens and attachments are those that rmw_zenoh's design document and live nodes show."""

from __future__ import annotations

import pytest

pytest.importorskip("xxhash", reason="xxhash is not installed: pip install 'armswing[ros2]'")

from nodes.framework.bridges.ros2 import graph
from nodes.framework.bridges.ros2.graph import Attachment, Endpoint, Qos

STRING = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
TALKER = (  # of the design document
    "@ros2_lv/0/8b20917502ee955ac4476e0266340d5c/0/10/MP/%/%/talker/%chatter/std_msgs::msg::dds_::String_/"
    f"{STRING}/::,7:,:,:,,"
)


def test_the_tokens_of_the_design_document_are_read_and_written_again() -> None:
    listener = "@ros2_lv/0/aac3178e146ba6f1fc6e6a4085e77f21/0/0/NN/%/%/listener"
    assert Endpoint.of_token(listener).token == listener
    talker = Endpoint.of_token(TALKER)
    assert talker.token == TALKER
    assert (talker.name, talker.full_node_name, talker.qos) == ("/chatter", "/talker", str(Qos(depth=7)))
    assert talker.key == f"0/chatter/{graph.dds_type('std_msgs/msg/String')}/{STRING}"
    assert Endpoint.of_token(f"{TALKER}/backends").token == TALKER  # rolling may add a part


def test_namespaces_and_latched_topics_are_in_the_token() -> None:
    endpoint = Endpoint(3, "ab", 1, 2, graph.SUBSCRIPTION, "/left", "arm", "/left/x", "a::msg::dds_::B_", STRING, "q")
    assert endpoint.token == f"@ros2_lv/3/ab/1/2/MS/%/%left/arm/%left%x/a::msg::dds_::B_/{STRING}/q"
    assert Endpoint.of_token(endpoint.token) == endpoint
    assert endpoint.full_node_name == "/left/arm"
    assert str(graph.LATCHED) == ":1:,1:,:,:,,"


@pytest.mark.parametrize(
    "token", ["", "0/chatter", TALKER.replace("@ros2_lv", "@"), TALKER.replace("/0/10/", "/x/10/"), TALKER[:-20]]
)
def test_other_text_is_no_token(token: str) -> None:
    if token == TALKER[:-20]:
        token = token.rpartition("/")[0]
    with pytest.raises(ValueError, match="no liveliness token"):
        Endpoint.of_token(token)


def test_the_gid_is_the_hash_of_the_token() -> None:
    """XXH3 of the empty text, 128 bits, is 99aa06d3014798d8 6001c324468d497f in its specification."""
    import xxhash

    assert xxhash.xxh3_128_hexdigest(b"") == "99aa06d3014798d86001c324468d497f"
    low_half_first = bytes.fromhex(xxhash.xxh3_128_hexdigest(TALKER.encode()))[::-1]
    assert Endpoint.of_token(TALKER).gid == low_half_first


def test_an_attachment_has_33_bytes() -> None:
    gid = bytes(range(16))
    sent = Attachment(7, 1_700_000_000_000_000_001, gid)
    data = (7).to_bytes(8, "little") + (1_700_000_000_000_000_001).to_bytes(8, "little") + b"\x10" + gid
    assert sent.encoded() == data
    assert Attachment.of_bytes(data) == sent
    for wrong in (b"", data[:-1], data + b"\0", data[:16] + b"\x0f" + gid, bytes(8) + data[8:]):
        with pytest.raises(ValueError, match="attachment"):
            Attachment.of_bytes(wrong)


def test_names_become_names_that_ros_allows() -> None:
    assert graph.ros_name("left/my-arm.2") == "left/my_arm_2"
    assert graph.ros_name("2dof") == "_2dof"

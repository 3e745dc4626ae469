"""Names of the ROS 2 graph as rmw_zenoh writes them: key expressions, liveliness tokens, quality of service,
attachments.

The format is that of Jazzy from rmw_zenoh 0.2.3 on, and of Kilted: https://github.com/ros2/rmw_zenoh, docs/design.md.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Self

import xxhash

ADMIN_SPACE = "@ros2_lv"
NO_HASH = "TypeHashNotSupported"  # in place of a type hash, in Humble
NODE, PUBLISHER, SUBSCRIPTION, SERVICE, CLIENT = "NN", "MP", "MS", "SS", "SC"
GID_LENGTH = 16
_ATTACHMENT = struct.Struct("<qqB16s")
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Qos:
    """Quality of service of an endpoint: reliable, and the latest `depth` messages are kept.

    transient_local  whether later subscribers receive the kept messages ("latched")
    """

    depth: int = 10
    transient_local: bool = False

    def __str__(self) -> str:
        """The part of a token; values that equal the defaults of rmw_zenoh are left out."""
        return f":{1 if self.transient_local else ''}:,{self.depth}:,:,:,,"


LATCHED = Qos(depth=1, transient_local=True)
STREAM = Qos()


@dataclass(frozen=True)
class Endpoint:
    """A node, publisher, subscription, service or client of the graph, with everything that its token contains.

    zid     id of the zenoh session
    node    number of the node within the session
    number  number of the endpoint within the session; that of the node for a node
    kind    NODE, PUBLISHER, SUBSCRIPTION, SERVICE or CLIENT
    name    full name of the topic or service, such as "/joint_states"; "" for a node
    type    type as in "sensor_msgs::msg::dds_::JointState_"; "" for a node
    hash    type hash, such as "RIHS01_a13e..."; "" for a node
    """

    domain: int
    zid: str
    node: int
    number: int
    kind: str
    namespace: str
    node_name: str
    name: str = ""
    type: str = ""
    hash: str = ""
    qos: str = ""

    @property
    def token(self) -> str:
        """Key expression of the liveliness token."""
        parts = [ADMIN_SPACE, self.domain, self.zid, self.node, self.number, self.kind, "%"]
        parts += [_mangled(self.namespace), _mangled(self.node_name)]
        if self.kind != NODE:
            parts += [_mangled(self.name), _mangled(self.type), _mangled(self.hash), self.qos]
        return "/".join(map(str, parts))

    @classmethod
    def of_token(cls, token: str) -> Self:
        """The endpoint of a token. Raises ValueError with a one-line message for text that is no token."""
        parts = token.split("/")
        wanted = 9 if parts[5:6] == [NODE] else 13
        numbers = [part for part in (parts[1:2] + parts[3:5]) if part.isdecimal() and len(part) < 20]
        if len(parts) < wanted or parts[0] != ADMIN_SPACE or len(numbers) != 3:
            raise ValueError(f"{token[:120]!r} is no liveliness token of rmw_zenoh")
        domain, node, number = map(int, numbers)
        named = [_plain(part) for part in parts[9:12]] + parts[12:13] if wanted == 13 else []
        return cls(domain, parts[2], node, number, parts[5], _plain(parts[7]), _plain(parts[8]), *named)

    @property
    def full_node_name(self) -> str:
        """Name of the node with its namespace, such as "/left/controller"."""
        return f"{self.namespace.rstrip('/')}/{self.node_name}"

    @property
    def key(self) -> str:
        """Key expression of the topic or service."""
        return f"{self.domain}/{self.name.strip('/')}/{self.type}/{self.hash}"

    @property
    def gid(self) -> bytes:
        """The endpoint's global id: the XXH3 hash (128 bits) of its token, low half first."""
        digest = xxhash.xxh3_128_intdigest(self.token.encode())
        return digest.to_bytes(GID_LENGTH, "little")


@dataclass(frozen=True)
class Attachment:
    """What accompanies each message, request and response.

    number   sequence number, from 1 on for each publisher or client
    time_ns  time of sending, ns since the epoch
    gid      global id of the publisher or client
    """

    number: int
    time_ns: int
    gid: bytes

    def encoded(self) -> bytes:
        """The 33 bytes that are sent."""
        return _ATTACHMENT.pack(self.number, self.time_ns, GID_LENGTH, self.gid)

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """The attachment in `data`. Raises ValueError with a one-line message for other data."""
        if len(data) != _ATTACHMENT.size:
            raise ValueError(
                f"its attachment has {len(data)} bytes, not the {_ATTACHMENT.size} of rmw_zenoh 0.2.3 (Jazzy) or later"
            )
        number, time_ns, length, gid = _ATTACHMENT.unpack(data)
        if length != GID_LENGTH or not 0 < number <= _LARGEST:
            raise ValueError(f"its attachment has the sequence number {number} and a gid of {length} bytes")
        return cls(number, time_ns, gid)


def ros_name(name: str) -> str:
    """The name with "_" in place of each character that ROS names may not contain, and before a leading digit.

    Slashes, which separate namespaces, stay.
    """
    parts = [re.sub(r"\W", "_", part, flags=re.ASCII) for part in name.split("/")]
    return "/".join(f"_{part}" if part[:1].isdigit() else part for part in parts)


def dds_type(type_name: str) -> str:
    """Type name in keys: "sensor_msgs/msg/JointState" -> "sensor_msgs::msg::dds_::JointState_"."""
    package, kind, name = type_name.split("/")
    return f"{package}::{kind}::dds_::{name}_"


def graph_key(domain: int) -> str:
    """Key expression that matches the tokens of all endpoints of a domain."""
    return f"{ADMIN_SPACE}/{domain}/**"


def _mangled(text: str) -> str:
    return text.replace("/", "%")


def _plain(text: str) -> str:
    return text.replace("%", "/")

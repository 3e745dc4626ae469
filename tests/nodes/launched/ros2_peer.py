"""A process of a ROS 2 graph, written from the public format of rmw_zenoh with the codec of rosbags.

It shares no code with armswing. It reads requests as JSON lines from stdin, and writes one line for each to stdout.
Key expressions are DOMAIN/NAME/TYPE/HASH, attachments 33 bytes (sequence number, ns, length 16, gid), payloads CDR.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from typing import Any

import numpy as np
import zenoh
import zenoh.ext
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

RESULT = "uint8 result\nstring error_message\n"
STATE = "std_msgs/Header header\ngeometry_msgs/Pose pose\ngeometry_msgs/Twist twist\ngeometry_msgs/Accel acceleration\n"
FILTERS = (
    "string filter\nsimulation_interfaces/EntityCategory[] categories\nsimulation_interfaces/TagsFilter tags\n"
    "simulation_interfaces/Bounds bounds\n"
)
DEFINITIONS = {  # of simulation_interfaces 1.x, without comments and constants
    "Result": RESULT,
    "SimulationState": "uint8 state\n",
    "SimulatorFeatures": "uint16[] features\nstring[] spawn_formats\nstring custom_info\n",
    "EntityCategory": "uint8 category\n",
    "TagsFilter": "string[] tags\nuint8 filter_mode\n",
    "Bounds": "uint8 type\ngeometry_msgs/Vector3[] points\n",
    "EntityFilters": FILTERS,
    "EntityState": STATE,
    "GetSimulatorFeatures_Request": "uint8 structure_needs_at_least_one_member\n",
    "GetSimulatorFeatures_Response": "simulation_interfaces/SimulatorFeatures features\n",
    "GetSimulationState_Request": "uint8 structure_needs_at_least_one_member\n",
    "GetSimulationState_Response": "simulation_interfaces/SimulationState state\nsimulation_interfaces/Result result\n",
    "SetSimulationState_Request": "simulation_interfaces/SimulationState state\n",
    "SetSimulationState_Response": "simulation_interfaces/Result result\n",
    "ResetSimulation_Request": "uint8 scope\n",
    "ResetSimulation_Response": "simulation_interfaces/Result result\n",
    "StepSimulation_Request": "uint64 steps\n",
    "StepSimulation_Response": "simulation_interfaces/Result result\n",
    "GetEntities_Request": "simulation_interfaces/EntityFilters filters\n",
    "GetEntities_Response": "simulation_interfaces/Result result\nstring[] entities\n",
    "GetEntityState_Request": "string entity\n",
    "GetEntityState_Response": "simulation_interfaces/Result result\nsimulation_interfaces/EntityState state\n",
    "SetEntityState_Request": "string entity\nsimulation_interfaces/EntityState state\n",
    "SetEntityState_Response": "simulation_interfaces/Result result\n",
}
PARAMETERS = {  # requests and responses of rcl_interfaces
    "ListParameters_Request": "string[] prefixes\nuint64 depth\n",
    "ListParameters_Response": "rcl_interfaces/ListParametersResult result\n",
    "GetParameters_Request": "string[] names\n",
    "GetParameters_Response": "rcl_interfaces/ParameterValue[] values\n",
    "GetParameterTypes_Request": "string[] names\n",
    "GetParameterTypes_Response": "uint8[] types\n",
    "DescribeParameters_Request": "string[] names\n",
    "DescribeParameters_Response": "rcl_interfaces/ParameterDescriptor[] descriptors\n",
    "SetParameters_Request": "rcl_interfaces/Parameter[] parameters\n",
    "SetParameters_Response": "rcl_interfaces/SetParametersResult[] results\n",
    "SetParametersAtomically_Request": "rcl_interfaces/Parameter[] parameters\n",
    "SetParametersAtomically_Response": "rcl_interfaces/SetParametersResult result\n",
}
GID = bytes(range(16))


def typestore() -> Any:
    """The types of Jazzy, and those of the services."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types: dict[str, Any] = {}
    for package, definitions in (("simulation_interfaces", DEFINITIONS), ("rcl_interfaces", PARAMETERS)):
        for name, text in definitions.items():
            types |= get_types_from_msg(text, f"{package}/msg/{name}")
    store.register(types)
    return store


class Peer:
    """A zenoh session of its own, and what it received."""

    def __init__(self, address: str) -> None:
        self.store = typestore()
        config = {
            "mode": "client",
            "connect": {"endpoints": [address], "retry": {"period_init_ms": 100, "period_max_ms": 500}},
            "scouting": {"multicast": {"enabled": False}},
        }
        self.zenoh = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
        self.heard: dict[str, list[tuple[int, int, bytes, bytes]]] = {}
        self.sent = 0
        self.kept: list[Any] = []
        self.balancing: dict[str, float] = {}

    # -- the graph

    def do_graph(self) -> list[list[str]]:
        """Parts of all tokens."""
        replies = self.zenoh.liveliness().get("@ros2_lv/0/**", timeout=5.0)
        return [str(reply.ok.key_expr).split("/") for reply in replies if reply.ok is not None]

    def key(self, name: str) -> tuple[str, str]:
        """Key expression and type of a topic or service, from the tokens."""
        for parts in self.do_graph():
            if len(parts) > 9 and parts[9].replace("%", "/") == name:
                package, kind, _, leaf = parts[10].split("::")
                return f"0{name}/{parts[10]}/{parts[11]}", f"{package}/{kind}/{leaf.removesuffix('_')}"
        raise LookupError(f"{name} is in no token")

    def topic_key(self, name: str, kind: str) -> str:
        """Key expression of a topic, with the hash of rosbags."""
        package, _, leaf = kind.split("/")
        return f"0{name}/{package}::msg::dds_::{leaf}_/{self.store.hash_rihs01(kind)}"

    # -- topics

    def do_listen(self, name: str, kind: str, latched: bool = False) -> None:
        """Receive a topic."""
        heard = self.heard.setdefault(name, [])

        def take(sample: Any) -> None:
            attachment = bytes(sample.attachment)
            assert len(attachment) == 33, len(attachment)
            assert attachment[16] == 16
            number, sent_ns = (int.from_bytes(attachment[k : k + 8], "little") for k in (0, 8))
            heard.append((time.time_ns() - sent_ns, number, attachment[17:], bytes(sample.payload)))

        key = self.topic_key(name, kind)
        if latched:
            history = zenoh.ext.HistoryConfig(detect_late_publishers=True)
            self.kept.append(zenoh.ext.declare_advanced_subscriber(self.zenoh, key, take, history=history))
        else:
            self.kept.append(self.zenoh.declare_subscriber(key, take))

    def do_heard(self, name: str, kind: str) -> dict[str, Any]:
        """Number, gaps, publishers, and the latest message of a topic."""
        heard = list(self.heard[name])
        numbers: dict[bytes, list[int]] = {}
        for _, number, gid, _ in heard:
            numbers.setdefault(gid, []).append(number)
        gaps = sum(each[-1] - each[0] + 1 - len(each) for each in numbers.values())
        last = self.plain(self.store.deserialize_cdr(heard[-1][3], kind)) if heard else None
        return {"count": len(heard), "gaps": gaps, "publishers": len(numbers), "last": last}

    def do_forget(self, name: str) -> None:
        """Forget what was received on a topic."""
        self.heard[name].clear()

    def do_publish(self, name: str, kind: str, message: dict[str, Any], count: int = 1) -> None:
        """Publish a message, again and again."""
        payload = bytes(self.store.serialize_cdr(self.message(kind, message), kind))
        self.put(self.topic_key(name, kind), payload, count)

    def do_publish_bytes(self, name: str, kind: str, data: str, attachment: str | None = None, count: int = 1) -> None:
        """Publish bytes that are no message, or with another attachment."""
        key, payload = self.topic_key(name, kind), base64.b64decode(data)
        for _ in range(count if attachment is not None else 0):
            self.zenoh.put(key, payload, attachment=base64.b64decode(attachment or ""))
        if attachment is None:
            self.put(key, payload, count)

    def do_publish_key(self, key: str, data: str) -> None:
        """Publish bytes on any key."""
        self.put(key, base64.b64decode(data), 1)

    def do_token(self, key: str) -> None:
        """Declare a token."""
        self.kept.append(self.zenoh.liveliness().declare_token(key))

    def do_offer(self, name: str, kind: str) -> None:
        """Declare the token of a publisher."""
        key = self.topic_key(name, kind).split("/")
        mangled = "%".join(["", *name.strip("/").split("/")])
        self.do_token(f"@ros2_lv/0/{self.zenoh.zid()}/0/1/MP/%/%/peer/{mangled}/{key[-2]}/{key[-1]}/::,7:,:,:,,")

    def put(self, key: str, payload: bytes, count: int = 1) -> None:
        """Publish with our attachment."""
        publisher = self.zenoh.declare_publisher(key, congestion_control=zenoh.CongestionControl.BLOCK)
        for _ in range(count):
            publisher.put(payload, attachment=self.attachment())
        publisher.undeclare()

    def attachment(self) -> bytes:
        """The next attachment."""
        self.sent += 1
        return b"".join(x.to_bytes(8, "little") for x in (self.sent, time.time_ns())) + b"\x10" + GID

    # -- services

    def do_call(self, name: str, request: dict[str, Any], timeout_s: float = 20.0) -> Any:
        """Response of a service."""
        key, kind = self.key(name)
        base = kind.replace("/srv/", "/msg/")
        payload = bytes(self.store.serialize_cdr(self.message(f"{base}_Request", request), f"{base}_Request"))
        return self._answer(key, payload, f"{base}_Response", timeout_s)

    def do_call_bytes(self, name: str, data: str, timeout_s: float = 5.0) -> Any:
        """Number of responses to a request of any bytes."""
        key, _ = self.key(name)
        replies = self.zenoh.get(key, payload=base64.b64decode(data), attachment=self.attachment(), timeout=timeout_s)
        return len([reply for reply in replies if reply.ok is not None])

    def _answer(self, key: str, payload: bytes, kind: str, timeout_s: float) -> Any:
        attachment = self.attachment()
        replies = self.zenoh.get(
            key,
            target=zenoh.QueryTarget.ALL_COMPLETE,
            consolidation=zenoh.ConsolidationMode.NONE,
            payload=payload,
            attachment=attachment,
            timeout=timeout_s,
        )
        for reply in replies:
            if reply.ok is not None:
                told = bytes(reply.ok.attachment)
                assert told[:8] == attachment[:8], "the sequence number of the request"
                assert told[16:] == attachment[16:], "the gid of the request"
                return self.plain(self.store.deserialize_cdr(bytes(reply.ok.payload), kind))
        raise TimeoutError(f"no response of {key}")

    # -- a controller

    def do_balance(self, robot: str, gains: list[float], mode: str = "effort") -> None:
        """Command the arm by linear feedback of the joint states, from a thread of zenoh."""
        kind, command = "sensor_msgs/msg/JointState", f"/{robot}/joint_command"
        publisher = self.zenoh.declare_publisher(self.topic_key(command, kind))
        states, commands = self.store.types[kind], self.store.types[kind]

        def take(sample: Any) -> None:
            state = self.store.deserialize_cdr(bytes(sample.payload), kind)
            places = [state.name.index(name) for name in ("arm", "pendulum")]
            q, v = state.position[places], state.velocity[places]
            tilt = (q[1] - np.pi + np.pi) % (2 * np.pi) - np.pi  # of the pendulum from upright
            effort = -float(np.dot(gains, [q[0], tilt, v[0], v[1]]))
            self.balancing = {"time": state.header.stamp.sec + 1e-9 * state.header.stamp.nanosec, "tilt": float(tilt)}
            none = np.zeros(0)
            message = commands(state.header, ["arm"], none, none, np.array([effort]))
            publisher.put(bytes(self.store.serialize_cdr(message, kind)), attachment=self.attachment())

        assert states is not None
        self.do_offer(command, kind)
        self.kept.append(self.zenoh.declare_subscriber(self.topic_key(f"/{robot}/joint_states", kind), take))

    def do_balanced(self) -> dict[str, float]:
        """Time and tilt of the latest state that was answered."""
        return self.balancing

    # -- messages as plain data

    def message(self, kind: str, values: dict[str, Any]) -> Any:
        """A message with some values; the others are zero or empty."""
        fields = {}
        for name, (node, what) in self.store.fielddefs[kind][1]:
            fields[name] = self._value(int(node), what, values.get(name))
        unknown = values.keys() - fields.keys()
        assert not unknown, unknown
        return self.store.types[kind](**fields)

    def _value(self, node: int, what: Any, given: Any) -> Any:
        if node == 2:  # another message
            return self.message(what, given or {})
        if node == 1:
            zero: Any = {"string": "", "bool": False}.get(what[0], 0)
            return zero if given is None else given
        (inner, element), length = what
        if int(inner) == 2:
            return [self.message(element, each) for each in given or []]
        if element[0] in ("string",):
            return list(given or [])
        values = list(given) if given is not None else [0] * (length if node == 3 else 0)
        return np.array(values, dtype={"octet": np.uint8}.get(element[0], element[0]))

    def plain(self, value: Any) -> Any:
        """A message as dicts and lists."""
        if hasattr(value, "__msgtype__"):
            names = [name for name, _ in self.store.fielddefs[value.__msgtype__][1]]
            return {name: self.plain(getattr(value, name)) for name in names}
        if isinstance(value, np.ndarray):
            return [self.plain(each) for each in value.tolist()]
        return [self.plain(each) for each in value] if isinstance(value, list) else value


def main() -> None:
    """Answer requests until stdin ends."""
    peer = Peer(sys.argv[1])
    lock = threading.Lock()
    print(json.dumps({"ok": str(peer.zenoh.zid())}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with lock:
                told: dict[str, Any] = {"ok": getattr(peer, f"do_{request.pop('do')}")(**request)}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(told), flush=True)
    peer.zenoh.close()


if __name__ == "__main__":
    main()

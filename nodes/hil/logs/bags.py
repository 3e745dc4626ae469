"""Tables from bags of ROS (rosbag2 and rosbag1, read by `rosbags`) and from MCAP files with messages in JSON.

Each topic is a table, with a column per number: "stamp" (s, of the message's header), "time" (s, when it was recorded)
and the fields, such as "position[elbow]" of a message with names, "twist.linear.x" or "data[3]".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from mcap.exceptions import McapError
from mcap.reader import make_reader

from nodes.hil.logs.tables import LogError, Table
from sim_core.support.extras import INSTALLS

STAMP, TIME = "stamp", "time"
NAME_FIELDS = ("name", "joint_names", "names")  # texts that name the entries of the message's arrays
MOST_ENTRIES = 200  # longest array that becomes columns; longer ones are images and point clouds
JSON = "json"


def read_bag(path: Path) -> list[Table]:
    """The tables of a rosbag2 folder, a .mcap, .db3 or .bag file; a topic without numbers has none.

    Raises LogError for a file that cannot be read, or if `rosbags` is needed and is not installed.
    """
    messages = _json_messages(path) if _is_json(path) else _ros_messages(path)
    rows: dict[tuple[str, tuple[str, ...]], list[dict[str, float]]] = {}
    for topic, time_s, content in messages:
        found = {TIME: time_s, **dict(_numbers(content))}
        rows.setdefault((topic, tuple(_names(content))), []).append(found)
    tables: list[Table] = []
    for (topic, _), lines in rows.items():
        names = dict.fromkeys(name for line in lines for name in line)
        columns = {name: np.array([line.get(name, np.nan) for line in lines]) for name in names}
        number = sum(table.name.partition("#")[0] == topic for table in tables) + 1  # a topic of several publishers
        if len(columns) > 1:
            tables.append(Table(topic if number == 1 else f"{topic}#{number}", columns))
    if not tables:
        raise LogError(f"{str(path)!r} has no messages with numbers")
    return tables


def _is_json(path: Path) -> bool:
    if path.suffix.lower() != ".mcap":
        return False
    try:
        with path.open("rb") as file:
            summary = make_reader(file).get_summary()
    except (McapError, OSError, ValueError) as error:
        raise LogError(f"{str(path)!r} cannot be read as MCAP: {error}") from None
    channels = summary.channels.values() if summary is not None else []
    return any(channel.message_encoding == JSON for channel in channels)


def _json_messages(path: Path) -> Iterator[tuple[str, float, Any]]:
    try:
        with path.open("rb") as file:
            for _, channel, message in make_reader(file).iter_messages(log_time_order=False):
                if channel.message_encoding == JSON:
                    yield channel.topic, 1e-9 * message.log_time, msgspec.json.decode(message.data)
    except (McapError, OSError, ValueError) as error:
        raise LogError(f"{str(path)!r} cannot be read as MCAP: {error}") from None


def _ros_messages(path: Path) -> Iterator[tuple[str, float, Any]]:
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ModuleNotFoundError as error:
        raise LogError(f"{str(path)!r} is a bag of ROS; {INSTALLS}[logs]' installs its reader ({error})") from None
    try:
        store = get_typestore(Stores.LATEST)  # for bags that have no definitions of their messages
        with AnyReader([path], default_typestore=store) as reader:
            for connection, time_ns, data in reader.messages():
                yield connection.topic, 1e-9 * time_ns, _plain(reader.deserialize(data, connection.msgtype))
    except Exception as error:  # a damaged file may cause any error of the library, the database or the compression
        text = str(error).partition("\n")[0] or type(error).__name__
        raise LogError(f"{str(path)!r} cannot be read as a bag of ROS: {text}") from None


def _plain(value: Any) -> Any:
    """A message of rosbags as dictionaries, lists and numbers."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__ if name != "__msgtype__"}
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= MOST_ENTRIES else []
    return [_plain(each) for each in value[:MOST_ENTRIES]] if isinstance(value, list | tuple) else value


def _names(content: Any) -> list[str]:
    if not isinstance(content, dict):
        return []
    found: Any = next((content[key] for key in NAME_FIELDS if key in content), None)
    return [str(name) for name in found] if isinstance(found, list) else []


def _numbers(content: Any, path: str = "", names: list[str] | None = None) -> Iterator[tuple[str, float]]:
    """Yield (name of a column, number) for every number in a message."""
    if isinstance(content, dict):
        own = _names(content) or names or []
        for key, value in content.items():
            if key == "header" and isinstance(value, dict) and isinstance(value.get("stamp"), dict):
                stamp: dict[str, Any] = value["stamp"]
                yield STAMP, float(stamp.get("sec", 0)) + 1e-9 * float(stamp.get("nanosec", stamp.get("nsec", 0)))
            else:
                yield from _numbers(value, f"{path}.{key}" if path else key, own)
    elif isinstance(content, list):
        labels = names if names is not None and len(names) == len(content) else [str(k) for k in range(len(content))]
        if len(content) <= MOST_ENTRIES:
            for label, value in zip(labels, content, strict=True):
                yield from _numbers(value, f"{path}[{label}]", names)
    elif isinstance(content, int | float):
        yield path, float(content)

"""Writes a recording as a bag of ROS 2: its messages as ROS messages, and all of them once more without loss."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from mcap.exceptions import McapError
from mcap.reader import make_reader
from rosbags.interfaces import Connection, Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer

from nodes.framework.bridges.ros2.model import RobotModel, model_of
from nodes.framework.bridges.rosbag2.archive import HEADING, ArchivedMessage, Heading, archived_topics
from nodes.framework.bridges.rosbag2.ros_view import LATCHED, RosView
from nodes.framework.plan.key_checks import convert
from nodes.framework.plan.launch_plan import SimPlan
from nodes.framework.recording.new_file import NotWrittenError
from nodes.framework.recording.reader import Recorded, RecordingError, RecordingFile
from nodes.framework.recording.runs import RunCutter
from nodes.framework.recording.sidecar import folders_of, read_sidecar
from nodes.framework.ros2.cdr import encode
from nodes.framework.ros2.definition import definition
from nodes.framework.ros2.interface import RosMessage, type_name
from nodes.framework.ros2.interfaces.std_msgs import String
from nodes.framework.ros2.type_hash import type_hash
from robots.files import located_if_there, with_located_corrections

STORAGES = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}
VERSION = 9  # of metadata.yaml, as Jazzy and Kilted write it
SHOWN_EVERY = 500  # messages between reports of progress
LATEST_NS = 2**63 - 1

_UNLIMITED = QosTime(9223372036, 854775807)  # as rosbag2 writes it


class Export:
    """Result of an export.

    messages  number of messages of the recording
    topics    {topic of the bag: number of its messages}
    notes     one line for each thing that was left out
    damage    one line on messages that the recording lacks; "" for an intact recording
    """

    def __init__(self) -> None:
        self.messages = 0
        self.topics: dict[str, int] = {}
        self.notes: list[str] = []
        self.damage = ""


def export_rosbag2(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    storage: str = "mcap",
    replace: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Export:
    """Write the recording `source` as the rosbag2 folder `target`.

    storage   "mcap" or "sqlite3"
    replace   whether a bag at `target` is replaced
    progress  function that is called with the numbers of messages written and to be written

    After an error there is no new folder, and an earlier one is unchanged. Raises RecordingError for a file that is no
    recording, and OSError if the folder cannot be written.
    """
    folder = Path(target)
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir()
        with Writer(part / folder.name, version=VERSION, storage_plugin=STORAGES[storage]) as writer:
            found = _Exporter(Path(source), writer, progress).run()
        if replace and folder.exists():
            folder.rename(part / ".before")
        try:
            (part / folder.name).rename(folder)
        except OSError:
            if replace and (part / ".before").exists():
                (part / ".before").rename(folder)
            raise
    except sqlite3.Error as error:  # as for a full disk
        number = errno.ENOSPC if "full" in str(error) else errno.EIO
        raise NotWrittenError(number, os.strerror(number), os.fspath(target)) from error
    except OSError as error:
        raise NotWrittenError(error.errno, error.strerror, os.fspath(target)) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return found


class _Exporter:
    """Writes the messages of one recording to the writer of a bag."""

    def __init__(self, source: Path, writer: Writer, progress: Callable[[int, int], None]) -> None:
        self._source, self._writer, self._progress = source, writer, progress
        self._found = Export()
        self._times = BagTimes()
        self._connections: dict[str, Connection] = {}

    def run(self) -> Export:
        file = RecordingFile(self._source)
        count, start = 0, 0
        for recorded in file:
            start = recorded.time_ns if count == 0 else start
            count += 1
        heading = self._heading(file, count)
        self._write(HEADING, String(msgspec.json.encode(heading).decode()), start)
        names = {each.topic: each.ros_topic for each in heading.topics}
        view = RosView(self._models(file.metadata))
        for index, recorded in enumerate(RecordingFile(self._source)):
            if index % SHOWN_EVERY == 0:
                self._progress(index, count)
            time = self._times.at(recorded.topic, recorded.time_ns, recorded.payload)
            self._write(names[recorded.topic], _archived(index, recorded), time)
            message = recorded.message()
            for topic, ros_message in (
                () if message is None else view.convert(recorded.topic, message, recorded.time_ns)
            ):
                self._write(topic, ros_message, time)
        self._progress(count, count)
        self._found.messages = count
        return self._found

    def _heading(self, file: RecordingFile, count: int) -> Heading:
        sidecar = read_sidecar(self._source) or {}
        self._found.damage = file.warning
        return Heading(
            messages=count,
            metadata=file.metadata,
            topics=archived_topics(file.channels, _definitions(self._source)),
            damage=file.warning,
            sidecar={key: sidecar[key] for key in ("plan_folder", "robot_file") if key in sidecar},
        )

    def _models(self, metadata: Mapping[str, str]) -> dict[str, RobotModel]:
        """{robot: its model}, from the recorded plan. Without a plan, there are no models, and a note says so."""
        try:
            plain = msgspec.json.decode(metadata.get("plan", "{}"), type=dict[str, Any])
            plans = [plain, *plain.get("simulations", {}).values()]
            sims = [convert(each["sim"], SimPlan, f"{self._source}: plan") for each in plans if each.get("sim")]
            folders = folders_of(self._source)
            models = {}
            for sim in sims:
                if not sim.robot:
                    continue
                sim.robot = located_if_there(sim.robot, *folders)
                sim.parameters = with_located_corrections(sim.parameters, *folders)
                models[sim.robot_name] = model_of(sim.make_mechanism(), sim.robot_name)
        except (ValueError, OSError, ImportError, AttributeError, TypeError) as error:  # also a plan of another version
            self._found.notes.append(f"no robot_description and tf_static: {error}")
            return {}
        self._found.notes += [model.note for model in models.values() if model.note]
        return models

    def _write(self, topic: str, message: RosMessage, time_ns: int) -> None:
        connection = self._connections.get(topic)
        if connection is None:
            kind = type(message)
            connection = self._connections[topic] = self._writer.add_connection(
                topic,
                type_name(kind),
                msgdef=definition(kind),
                rihs01=type_hash(kind),
                offered_qos_profiles=[_qos(topic)],
            )
        self._writer.write(connection, time_ns, encode(message))
        self._found.topics[topic] = self._found.topics.get(topic, 0) + 1


class BagTimes:
    """Times of messages in a bag: their log times, in ns.

    Another run of a recording begins, in the bag, where the earlier one has ended, although its log times go back.
    """

    def __init__(self) -> None:
        self._cutter = RunCutter()
        self._shifts = [0]
        self._latest = 0

    def at(self, topic: str, time_ns: int, payload: bytes) -> int:
        """Time in the bag of the next message in the file."""
        run = self._cutter.place(topic, time_ns, payload)
        while len(self._shifts) < len(self._cutter.runs):
            self._shifts.append(max(0, self._latest - time_ns))
        time = time_ns + self._shifts[-1 if run is None else run]
        if time > LATEST_NS:
            raise RecordingError(f"{topic}: the runs of the recording are longer together than the times of a bag")
        self._latest = max(self._latest, time)
        return time


def _archived(index: int, recorded: Recorded) -> String:
    try:
        text = msgspec.json.encode(ArchivedMessage(index, recorded.time_ns, msgspec.Raw(recorded.payload))).decode()
    except UnicodeDecodeError as error:
        raise RecordingError(f"{recorded.topic}: a message is no text: {error}") from None
    return String(text)


def _definitions(source: Path) -> dict[str, str]:
    """{topic: JSON Schema of its messages}, from the file's index; {} for a file without one."""
    try:
        with source.open("rb") as file:
            summary = make_reader(file).get_summary()
    except (McapError, OSError, ValueError, struct.error):
        return {}
    if summary is None:
        return {}
    schemas = {number: schema.data.decode(errors="replace") for number, schema in summary.schemas.items()}
    return {each.topic: schemas.get(each.schema_id, "") for each in summary.channels.values()}


def _qos(topic: str) -> Qos:
    is_latched = topic == HEADING or topic.rpartition("/")[2] in LATCHED
    return Qos(
        QosHistory.KEEP_LAST,
        1 if is_latched else 10,
        QosReliability.RELIABLE,
        QosDurability.TRANSIENT_LOCAL if is_latched else QosDurability.VOLATILE,
        _UNLIMITED,
        _UNLIMITED,
        QosLiveliness.AUTOMATIC,
        _UNLIMITED,
        False,
    )

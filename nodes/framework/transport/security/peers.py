"""Identity of a connection's peer: a process of this computer or the holder of a key.

The identity never comes from data that a peer writes. Over ipc, libzmq reads the user id and the process id from the
kernel. Over tcp with keys, the authenticator reports the key that the CURVE handshake proved.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import zmq

from nodes.framework.transport.security import allow_list, keys

CREDENTIALS = re.compile(r"[^:]*:(\d+):(\d+):(\d+)")  # Peer-Address over ipc: process name, user, group, process id
MOST_ANCESTORS = 64


@dataclass(frozen=True)
class Peer:
    """The sender of a frame: a process of this computer (uid, pid), the holder of a key (key, address), or unknown."""

    uid: int = -1
    pid: int = 0
    key: str = ""
    address: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the peer is a process on this computer that runs as this user or as root."""
        return self.pid > 0 and self.uid in (os.getuid(), 0)

    @property
    def text(self) -> str:
        """The peer as text, such as "process 4711" or "key 'robot' at 10.77.0.2"."""
        if self.key:
            return f"key {name_of(self.key)!r} at {self.address}"
        return f"process {self.pid}" + ("" if self.is_local else f" of user {self.uid}") if self.pid else "nobody known"


def peer_of(frame: zmq.Frame, keyed: bool) -> Peer:
    """Return the peer that sent a frame.

    keyed  whether all tcp connections of the frame's socket use CURVE. Without CURVE a tcp peer could claim any
           identity, so the peer is then unknown
    """
    try:
        address = str(frame.get("Peer-Address"))
    except zmq.ZMQError:
        return Peer()
    local = CREDENTIALS.fullmatch(address)
    if local is not None:
        return Peer(uid=int(local[1]), pid=int(local[3]))
    if keyed:
        with suppress(zmq.ZMQError):
            key = str(frame.get("User-Id"))
            if keys.KEY.fullmatch(key):
                return Peer(key=key, address=address.removeprefix("::ffff:"))
    return Peer(address=address)


def name_of(key: str) -> str:
    """Name of a key on the allow-list, or the first digits of a key that is not on it."""
    with suppress(keys.KeysError):
        for name, known in allow_list.allowed().items():
            if known == key:
                return name
    return f"{key[:8]}..."


def descends_from(pid: int, ancestor: int) -> bool:
    """Whether a process is `ancestor` or one of its descendants."""
    for _ in range(MOST_ANCESTORS):
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            return False
        if pid <= 1:
            return pid == ancestor
    return False

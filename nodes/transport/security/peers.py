"""The other end of a connection, as the kernel or CURVE tells of it: a process of this computer, or a key's holder.

What a peer writes of itself counts for nothing here. Over ipc libzmq asks the kernel for user and process; over tcp
with keys the door names the key that the handshake proved.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import zmq

from nodes.transport.security import keys

CREDENTIALS = re.compile(r"[^:]*:(\d+):(\d+):(\d+)")  # of Peer-Address over ipc: user, group, process
MOST_ANCESTORS = 64


@dataclass(frozen=True)
class Peer:
    """A process of this computer (user and pid), the holder of a key (key and address), or neither: nobody known."""

    uid: int = -1
    pid: int = 0
    key: str = ""
    address: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is a process of this user, or of the administrator, on this computer."""
        return self.pid > 0 and self.uid in (os.getuid(), 0)

    @property
    def text(self) -> str:
        """ "process 4711", "key 'robot' at 10.77.0.2"; for messages."""
        if self.key:
            return f"key {name_of(self.key)!r} at {self.address}"
        return f"process {self.pid}" + ("" if self.is_local else f" of user {self.uid}") if self.pid else "nobody known"


def peer_of(frame: zmq.Frame, keyed: bool) -> Peer:
    """The sender of a frame.

    keyed  whether everything that came to its socket by tcp came with a key: without keys a peer names itself
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
    """The name of a key on the allow-list, else its first digits."""
    with suppress(keys.KeysError):
        for name, known in keys.allowed().items():
            if known == key:
                return name
    return f"{key[:8]}..."


def descends_from(pid: int, ancestor: int) -> bool:
    """Whether a process is this one or was started by it, at any remove."""
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

"""CURVE keys: the key pair of this computer's user, and the allow-list of permitted public keys.

This computer accepts connections only from holders of keys on the allow-list, and connects only to them. The files are
in $XDG_CONFIG_HOME/armswing/keys, or ~/.config/armswing/keys: `own`, readable by its owner alone, and `allowed`, with a
line "NAME KEY" per key. A public key is written as 64 hexadecimal digits.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

import zmq
from zmq.utils import z85

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
KEY = re.compile(r"[0-9a-f]{64}")
NAMED_KEY = re.compile(rf"({NAME.pattern})\s+({KEY.pattern})\s*")


class KeysError(ValueError):
    """Raised for a missing, malformed or conflicting key.

    The only argument is a one-line message for the user, with the command to run.
    """


@dataclass(frozen=True)
class OwnKey:
    """Key pair of this computer's user: its name, and the public and the secret key as hexadecimal digits."""

    name: str
    public: str
    secret: str


def keys_folder() -> Path:
    """Folder of the key files, which may not exist yet."""
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "armswing" / "keys"


def own_key() -> OwnKey:
    """Return this user's key pair. Raises KeysError if there is none, or if other users can read its file."""
    file = keys_folder() / "own"
    try:
        if file.stat().st_mode & 0o077:
            raise KeysError(f"{file} can be read by others than its owner; correct this with 'chmod 600 {file}'")
        words = file.read_text(encoding="ascii").split()
    except FileNotFoundError:
        raise KeysError(f"no key in {file.parent}: 'armswing keys new' makes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise KeysError(f"{file} cannot be read: {error}") from None
    if len(words) != 3 or not (NAME.fullmatch(words[0]) and KEY.fullmatch(words[1]) and KEY.fullmatch(words[2])):
        raise KeysError(f"{file} holds no key; make another with 'armswing keys new NAME --force'")
    return OwnKey(*words)


def make_key(name: str, replace: bool = False) -> OwnKey:
    """Make a key pair for this user, or rename the existing pair. Returns the pair.

    replace  whether an existing pair is replaced by a new one. If not, an existing pair is renamed to `name`, and
             KeysError is raised if it already has this name
    """
    _check_name(name)
    file = keys_folder() / "own"
    if file.exists() and not replace:
        if (own := own_key()).name != name:  # renaming needs no new pair: others name a key as they like
            _write(file, f"{name} {own.public} {own.secret}\n")
            return OwnKey(name, own.public, own.secret)
        raise KeysError(
            f"{file} exists; show its key with 'armswing keys list', or replace it by 'armswing keys new NAME --force'"
        )
    public, secret = (z85.decode(half).hex() for half in zmq.curve_keypair())
    _write(file, f"{name} {public} {secret}\n")
    return OwnKey(name, public, secret)


def allowed() -> dict[str, str]:
    """{name: public key} of the allow-list, in the order of the file; empty without a file."""
    file = keys_folder() / "allowed"
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise KeysError(f"{file} cannot be read: {error}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        named = NAMED_KEY.fullmatch(text)
        if text and named is None:
            raise KeysError(f"{file}, line {number} is invalid; write a name and a key of 64 hexadecimal digits")
        if named is not None:
            found[named[1]] = named[2]
    return found


def allow(name: str, key: str) -> None:
    """Put a key on the allow-list. Raises KeysError if the list has another key of the same name."""
    _check_name(name)
    key = key.strip().lower()
    if not KEY.fullmatch(key):
        raise KeysError(
            f"{key[:80]!r} is no public key; give the 64 hexadecimal digits that 'armswing keys list' shows there"
        )
    known = allowed()
    if known.get(name, key) != key:
        raise KeysError(
            f"{name!r} is allowed with another key; first revoke that key with 'armswing keys revoke {name}'"
        )
    _write_allowed(known | {name: key})


def revoke(name: str) -> str:
    """Remove a key from the allow-list; returns the key."""
    known = allowed()
    if name not in known:
        there = ", ".join(known) or "none"
        raise KeysError(f"the allow-list has no key {name!r}; its keys are {there}")
    key = known.pop(name)
    _write_allowed(known)
    return key


def key_of_host(host: str) -> str:
    """Return the public key of another host of a launch.

    Raises KeysError, with the command that allows a key, if the allow-list has no key of this host.
    """
    key = allowed().get(host)
    if key is None:
        raise KeysError(
            f"no key of host {host!r} is allowed; run 'armswing keys allow {host} KEY',"
            f" with the key that 'armswing keys list' shows on {host!r}"
        )
    return key


def be_server(socket: zmq.Socket[bytes]) -> str:
    """Make the socket a CURVE server with this user's key at later binds. Returns the public key."""
    own = own_key()
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(own.secret))
    return own.public


def be_client(socket: zmq.Socket[bytes], server_key: str) -> None:
    """Use CURVE for later connections of a socket.

    server_key  public key of the peer, which must be on the allow-list
    """
    own = own_key()
    if server_key not in allowed().values():
        raise KeysError(f"key {server_key} is not allowed; allow it with 'armswing keys allow NAME {server_key}'")
    socket.setsockopt(zmq.CURVE_SERVERKEY, bytes.fromhex(server_key))
    socket.setsockopt(zmq.CURVE_PUBLICKEY, bytes.fromhex(own.public))
    socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(own.secret))


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise KeysError(f"{name[:80]!r} is no name of a key; use at most 64 letters, digits, _ . and -, a letter first")


def _write_allowed(known: dict[str, str]) -> None:
    _write(keys_folder() / "allowed", "".join(f"{name} {key}\n" for name, key in known.items()))


def _write(file: Path, text: str) -> None:
    """Replace a file atomically, with mode 0600: readers see either the old or the new content."""
    import tempfile

    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=file.parent)  # made with mode 0600
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise KeysError(f"{file} cannot be written: {error.strerror}") from None

"""CURVE keys: the key pair of this computer's user.

The key pair is in the file `own` in the folder $XDG_CONFIG_HOME/armswing/keys, or ~/.config/armswing/keys if the
variable is not set. Only the owner of the file can read it. A public key is written as 64 hexadecimal digits.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import zmq
from zmq.utils import z85

from sim_core.trusted_files import PRIVATE, WRITABLE, UntrustedFile, require_own

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
KEY = re.compile(r"[0-9a-f]{64}")
NAMED_KEY = re.compile(rf"({NAME.pattern})\s+({KEY.pattern})\s*")
SETTLED_NS = 1_000_000_000  # a file that was changed more recently may change again without a new time stamp

_texts: dict[Path, tuple[tuple[int, ...], str]] = {}  # {file: (its state when it was read, its text)}


class KeysError(ValueError):
    """Raised for a missing, malformed or conflicting key.

    The only argument is a one-line message for the user, for example with a command to run.
    """

    exit_code = 2


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
        words = key_file_text(file, PRIVATE).split()
    except FileNotFoundError:
        raise KeysError(f"there is no key in {file.parent}; make one with 'armswing keys new'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise KeysError(f"the key file {file} cannot be read: {error}; correct the file") from None
    if len(words) != 3 or not (NAME.fullmatch(words[0]) and KEY.fullmatch(words[1]) and KEY.fullmatch(words[2])):
        raise KeysError(f"{file} contains no valid key; make a new one with 'armswing keys new NAME --force'")
    return OwnKey(*words)


def key_file_text(file: Path, closed: int = WRITABLE) -> str:
    """Text of a key file. The file is read again only if it changed, because each refused call looks at the keys.

    Raises KeysError if another user could have written the file, and OSError or UnicodeDecodeError if the file cannot
    be read.

    closed  mode bits that the file must not have
    """
    try:
        require_own(file, file.parents[2], "set XDG_CONFIG_HOME to a folder of your own", closed)
    except UntrustedFile as error:
        raise KeysError(str(error)) from None
    found = file.stat()
    state = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode
    known = _texts.get(file)
    if known is not None and known[0] == state:
        return known[1]
    text = file.read_text(encoding="utf-8")
    if abs(time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns)) > SETTLED_NS:
        _texts[file] = state, text
    return text


def make_key(name: str, replace: bool = False) -> OwnKey:
    """Make a key pair for this user, or give the existing pair this name. Returns the pair.

    replace  whether to replace an existing pair by a new pair
    """
    check_name(name)
    file = keys_folder() / "own"
    if file.exists() and not replace:
        if (own := own_key()).name != name:  # renaming needs no new pair: others name a key as they like
            write_key_file(file, f"{name} {own.public} {own.secret}\n")
        return OwnKey(name, own.public, own.secret)
    public, secret = (z85.decode(half).hex() for half in zmq.curve_keypair())
    write_key_file(file, f"{name} {public} {secret}\n")
    return OwnKey(name, public, secret)


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise KeysError(f"{name[:80]!r} is no name of a key; use at most 64 letters, digits, _ . and -, a letter first")


def write_key_file(file: Path, text: str) -> None:
    """Replace a file atomically, with mode 0600: readers see either the old or the new content."""
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

"""Check of files that this program runs or relies on: no other user may have written them."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from functools import cache
from itertools import pairwise
from pathlib import Path

from sim_core.errors import InvalidRequest

PRIVATE = 0o077  # mode bits with which others than the owner can read or write
WRITABLE = 0o022  # mode bits with which others than the owner can write
BY_ALL = 0o002  # mode bit with which every user can write
CLOSED = {PRIVATE: "go-rwx", WRITABLE: "go-w", BY_ALL: "o-w"}  # {mode bits: how chmod clears them}


class UntrustedFile(InvalidRequest):
    """Raised for a file or folder that another user could have written. The only argument is a one-line message."""


def require_own(path: Path, base: Path, remedy: str, closed: int = WRITABLE) -> None:
    """Raise UntrustedFile unless only this user can write a file or folder that this program finds by itself.

    The path and the folders above it up to `base` must belong to this user, root or the owner of this program's source
    files. Their modes must give no other user permission to write. A group whose only member is the owner counts as the
    owner. The folders above `base` are checked as in `require_named`. Raises OSError if there is no such file.

    remedy  what a user can do if the path belongs to another user, such as "set XDG_CACHE_HOME to a folder of your own"
    closed  mode bits that the path itself must not have, a key of CLOSED; with PRIVATE, it must belong to this user
    """
    _require_mode(path, closed)
    if closed == PRIVATE and (owner := path.stat().st_uid) != os.getuid():
        raise _of_another_user(path, owner, remedy)
    for each in (path, *(folder for folder in path.parents if folder.is_relative_to(base))):
        _require_owner(each, remedy)
        _require_mode(each, WRITABLE)
    _require_place(path, remedy)


def require_named(path: Path) -> None:
    """Raise UntrustedFile if any user of this computer could have written a file that the user named.

    That is the case if the mode of the file, or of a folder above it, gives every user permission to write. In a folder
    such as /tmp, in which every user can make files but cannot replace those of others, the file must belong to this
    user, root or the owner of this program's source files. Raises OSError if there is no such file.
    """
    _require_mode(path, BY_ALL)
    _require_place(path, "copy it to a folder of your own")


def is_open_folder(folder: Path) -> bool:
    """Whether every user can make files in a folder, as in /tmp."""
    return bool(folder.stat().st_mode & BY_ALL)


def _require_owner(path: Path, remedy: str) -> None:
    """Raise UntrustedFile unless a path, and the file it points to if it is a link, has an owner that is trusted."""
    for owner in {path.lstat().st_uid, path.stat().st_uid} - {os.getuid(), 0, _owner_of_program()}:
        raise _of_another_user(path, owner, remedy)


def _of_another_user(path: Path, owner: int, remedy: str) -> UntrustedFile:
    return UntrustedFile(f"{path} belongs to another user (uid {owner}, yours is {os.getuid()}); {remedy}")


def _require_mode(path: Path, closed: int) -> None:
    """Raise UntrustedFile if the mode of a path has one of the bits in `closed`, a key of CLOSED."""
    found = path.stat()
    own_group = closed == WRITABLE and _is_private_group(found.st_gid, found.st_uid)
    if (mode := stat.S_IMODE(found.st_mode)) & (BY_ALL if own_group else closed):
        raise UntrustedFile(
            f"{path} is open to other users (mode {mode:04o}); close it with 'chmod {CLOSED[closed]} {path}'"
        )


def _require_place(path: Path, remedy: str) -> None:
    """Raise UntrustedFile if every user could have put the file, or a folder above it, in its place."""
    real = Path(os.path.realpath(path))
    for inner, folder in pairwise((real, *real.parents)):
        if is_open_folder(folder):
            if not folder.stat().st_mode & stat.S_ISVTX:
                _require_mode(folder, BY_ALL)
            _require_owner(inner, remedy)


@cache
def _owner_of_program() -> int:
    return os.stat(__file__).st_uid


@cache
def _is_private_group(group: int, owner: int) -> bool:
    """Whether a group contains nobody but the owner of a file: many systems make such a group for each user."""
    try:
        name, found = pwd.getpwuid(owner).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}

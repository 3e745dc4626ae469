"""The folder of a domain, which contains its sockets, lock files and plans.

Launches in different domains do not interact.
"""

from __future__ import annotations

import os
from pathlib import Path

from sim_core.trusted_files import PRIVATE, UntrustedFile, require_own

LARGEST_DOMAIN = 232
FALLBACK = "/tmp/armswing"  # followed by the user's id; used where XDG_RUNTIME_DIR is not set
LONGEST_IPC_PATH = 100  # sockaddr_un holds 107 bytes, some of which suffixes such as ".lock" need


class DomainError(ValueError):
    """Raised for a domain that cannot be used. The only argument is a one-line message for the user."""

    exit_code = 2


def default_domain() -> int:
    """Number of the domain from the environment variable ARMSWING_DOMAIN; 0 if it is not set.

    Raises DomainError if the variable is not a whole number from 0 to 232.
    """
    text = os.environ.get("ARMSWING_DOMAIN", "0")
    if not text.isdecimal() or int(text) > LARGEST_DOMAIN:
        raise DomainError(f"ARMSWING_DOMAIN={text!r} is not a whole number in 0 .. {LARGEST_DOMAIN}")
    return int(text)


def domain_folder(domain: int) -> Path:
    """Path of a domain's folder, created with mode 0700 if missing.

    The folder is $XDG_RUNTIME_DIR/armswing/<domain>, or /tmp/armswing-<uid>/<domain> if XDG_RUNTIME_DIR is not set.
    Raises DomainError if XDG_RUNTIME_DIR is a relative path, or if other users could reach the sockets in the folder,
    because the folder belongs to another user, its mode gives other users access, or other users may write to a folder
    above it.
    """
    if not 0 <= domain <= LARGEST_DOMAIN:
        raise DomainError(f"domain {domain} is not in 0 .. {LARGEST_DOMAIN}")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and not Path(runtime).is_absolute():  # as the XDG specification asks; each working folder had its own
        raise DomainError(f"XDG_RUNTIME_DIR={runtime!r} is not an absolute path")
    root = Path(runtime) / "armswing" if runtime else Path(f"{FALLBACK}-{os.getuid()}")
    folder = root / str(domain)
    try:
        if runtime:
            Path(runtime).mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in (root, folder):
            each.mkdir(mode=0o700, exist_ok=True)
            require_own(each, root.parent if runtime else root, "set XDG_RUNTIME_DIR to a folder of your own", PRIVATE)
    except UntrustedFile as error:
        raise DomainError(str(error)) from None
    except OSError as error:
        raise DomainError(
            f"folder {root} cannot be used: {error.strerror}; set XDG_RUNTIME_DIR to another folder"
        ) from None
    return folder


def ipc_endpoint(domain: int, leaf: str) -> str:
    """Return the ipc endpoint of a socket in this domain's folder.

    Raises DomainError if the path of the socket is too long.

    leaf  file name of the socket
    """
    path = str(domain_folder(domain) / leaf)
    if len(path) > LONGEST_IPC_PATH:
        raise DomainError(
            f"ipc path {path!r} has more than {LONGEST_IPC_PATH} characters; set XDG_RUNTIME_DIR to a shorter path"
        )
    return f"ipc://{path}"

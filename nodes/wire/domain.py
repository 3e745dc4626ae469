"""Where a domain's sockets, locks and plans live; launches in different domains do not meet."""

from __future__ import annotations

import os
from pathlib import Path

LARGEST_DOMAIN = 232
LONGEST_IPC_PATH = 100  # sockaddr_un holds 107 bytes; ".lock" and the like need some


class DomainError(ValueError):
    """A domain that cannot be used; the only argument is one line for a person."""


def default_domain() -> int:
    """ARMSWING_DOMAIN, or 0."""
    text = os.environ.get("ARMSWING_DOMAIN", "0")
    if not text.isdecimal() or int(text) > LARGEST_DOMAIN:
        raise DomainError(f"ARMSWING_DOMAIN={text!r} is not a whole number in 0 .. {LARGEST_DOMAIN}")
    return int(text)


def domain_folder(domain: int) -> Path:
    """The folder of a domain, created with mode 0700.

    $XDG_RUNTIME_DIR/armswing/<domain>, or /tmp/armswing-<uid>/<domain> where that is not set.
    """
    if not 0 <= domain <= LARGEST_DOMAIN:
        raise DomainError(f"domain {domain} is not in 0 .. {LARGEST_DOMAIN}")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(runtime) / "armswing" if runtime else Path(f"/tmp/armswing-{os.getuid()}")
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if root.stat().st_uid != os.getuid():
            raise DomainError(f"{root} belongs to another user; set XDG_RUNTIME_DIR to a folder of your own")
        folder = root / str(domain)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise DomainError(f"{root} cannot be used: {error.strerror}; set XDG_RUNTIME_DIR") from None
    return folder


def ipc_endpoint(domain: int, leaf: str) -> str:
    """The ipc address of a socket of this domain; DomainError when the path is too long for one."""
    path = str(domain_folder(domain) / leaf)
    if len(path) > LONGEST_IPC_PATH:
        raise DomainError(f"ipc path {path!r} is longer than {LONGEST_IPC_PATH}; set a shorter XDG_RUNTIME_DIR")
    return f"ipc://{path}"

"""The allow-list: names and public keys of the computers that may connect, and to which this computer may connect.

The list is the file `allowed` beside this user's key pair (see keys.py), with a line "NAME KEY" per computer.
"""

from __future__ import annotations

from nodes.framework.transport.security.keys import (
    KEY,
    NAMED_KEY,
    KeysError,
    check_name,
    key_file_text,
    keys_folder,
    write_key_file,
)


def allowed() -> dict[str, str]:
    """{name: public key} of the allow-list, in the order of the file; empty without a file."""
    file = keys_folder() / "allowed"
    try:
        lines = key_file_text(file).splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise KeysError(f"the allow-list {file} cannot be read: {error}; correct the file") from None
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
    check_name(name)
    key = key.strip().lower()
    if not KEY.fullmatch(key):
        raise KeysError(
            f"{key[:80]!r} is no public key; give the 64 hexadecimal digits that 'armswing keys list' shows on the "
            "other computer"
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


def _write_allowed(known: dict[str, str]) -> None:
    write_key_file(keys_folder() / "allowed", "".join(f"{name} {key}\n" for name, key in known.items()))

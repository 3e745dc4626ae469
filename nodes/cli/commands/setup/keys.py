"""`armswing keys`: manages this user's CURVE key and the keys allowed to connect over the network."""

from __future__ import annotations

import platform
import re
from typing import Annotated

import typer

from nodes.cli.terminal import AsJson, print_json, print_line, print_table
from nodes.framework.transport.security import allow_list, keys

app = typer.Typer(epilog="Example: armswing keys list", no_args_is_help=True)

KeyName = Annotated[str, typer.Argument(help="Name of the host in \\[hosts] of a launch file.", show_default=False)]


@app.command(epilog="Example: armswing keys new robot")
def new(
    name: Annotated[
        str | None, typer.Argument(help="Name of the key; by default the name of this computer.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing key.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make this user's key pair, and print the public key.

    An existing pair is kept, and gets NAME if that is given; --force replaces it.
    """
    file = keys.keys_folder() / "own"
    kept = file.exists() and not force
    if name is None and kept:
        name = keys.own_key().name
    elif name is None:
        name = re.sub(r"[^A-Za-z0-9_.-]|^[^A-Za-z]+", "", platform.node())[:64] or "localhost"
    made = keys.make_key(name, replace=force)
    if as_json:
        print_json({"name": made.name, "key": made.public, "file": str(file), "is_new": not kept})
        return
    where = f"the existing key is kept as {made.name!r} in {file}" if kept else f"key {made.name!r} is in {file}"
    print_line(f"{where}; this command allows it on another computer:")
    print_line(f"  armswing keys allow {made.name} {made.public}")


@app.command("list", epilog="Example: armswing keys list --json")
def list_keys(as_json: AsJson = False) -> None:
    """List this user's public key, and the keys that are allowed to connect."""
    allowed = allow_list.allowed()
    own = keys.own_key() if (keys.keys_folder() / "own").exists() else None
    if as_json:
        own_row = None if own is None else {"name": own.name, "key": own.public}
        others = [{"name": name, "key": key} for name, key in allowed.items()]
        print_json({"folder": str(keys.keys_folder()), "own": own_row, "allowed": others})
        return
    if own is None:
        print_line(f"no key in {keys.keys_folder()}: 'armswing keys new' makes one")
    rows = [] if own is None else [("own", own.name, own.public)]
    print_table(("", "name", "key"), [*rows, *(("allowed", name, key) for name, key in allowed.items())])


@app.command(epilog="Example: armswing keys allow robot $(ssh robot armswing keys list --json | jq -r .own.key)")
def allow(
    name: KeyName,
    key: Annotated[str, typer.Argument(help="Public key to allow: 64 hexadecimal digits.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Allow a key to connect. This takes effect at the next connection, without a restart.

    This computer's own key is refused.
    """
    key = key.strip().lower()
    if (keys.keys_folder() / "own").exists() and keys.own_key().public == key:
        raise keys.KeysError(
            f"this is the own key of this computer, and not that of {name!r}; 'armswing keys list' on {name!r} prints "
            "the key to allow"
        )
    allow_list.allow(name, key)
    if as_json:
        print_json({"name": name, "key": key})
    else:
        print_line(f"key {name!r} is allowed")


@app.command(epilog="Example: armswing keys revoke robot")
def revoke(name: KeyName, as_json: AsJson = False) -> None:
    """Revoke an allowed key. Live launches close the connections of this key within a second, without a restart."""
    key = allow_list.revoke(name)
    if as_json:
        print_json({"name": name, "key": key})
    else:
        print_line(f"key {name!r} is revoked; live launches close its connections within a second")

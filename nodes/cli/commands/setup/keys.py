"""`armswing keys`: manages this user's CURVE key and the keys allowed to connect over the network."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from nodes.cli.terminal import AsJson, print_json, print_line, print_table

app = typer.Typer(
    help="Keys for launches that span computers.", epilog="Example: armswing keys list", no_args_is_help=True
)

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

    An existing pair is not replaced but gets the new name; --force replaces it.
    """
    import platform

    from nodes.transport.security import keys

    if name is None:
        name = re.sub(r"[^A-Za-z0-9_.-]|^[^A-Za-z]+", "", platform.node())[:64] or "localhost"
    made = keys.make_key(name, replace=force)
    if as_json:
        print_json({"name": made.name, "key": made.public, "file": str(keys.keys_folder() / "own")})
        return
    print_line(f"key {made.name!r} is in {keys.keys_folder() / 'own'}; this command allows it on another computer:")
    print_line(f"  armswing keys allow {made.name} {made.public}")


@app.command("list", epilog="Example: armswing keys list --json")
def list_keys(as_json: AsJson = False) -> None:
    """List this user's public key, and the keys that are allowed to connect."""
    from nodes.transport.security import allow_list, keys

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
    """Allow a key to connect. This takes effect at the next connection, without a restart."""
    from nodes.transport.security import allow_list, keys

    allow_list.allow(name, key)
    allowed = allow_list.allowed()[name]
    if as_json:
        print_json({"name": name, "key": allowed})
        return
    print_line(f"key {name!r} is allowed")
    if (keys.keys_folder() / "own").exists() and keys.own_key().public == allowed:
        print_line(f"but it is this computer's own key; 'armswing keys list' on {name!r} prints the key to allow")


@app.command(epilog="Example: armswing keys revoke robot")
def revoke(name: KeyName, as_json: AsJson = False) -> None:
    """Revoke an allowed key. Live launches close the connections of this key within a second, without a restart."""
    from nodes.transport.security import allow_list

    key = allow_list.revoke(name)
    if as_json:
        print_json({"name": name, "key": key})
    else:
        print_line(f"key {name!r} is revoked; live launches close its connections within a second")

"""`armswing message`: lists the message types of the topics and shows their fields."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import msgspec
import typer

from nodes.cli.terminal import AsJson, InputError, print_json, print_line, print_table
from nodes.framework.messages import Message
from nodes.framework.messages import structs as messages
from nodes.framework.messages.topics import known_topics
from nodes.framework.plan.key_checks import type_text
from sim_core.support.suggestion import did_you_mean

app = typer.Typer(epilog="Example: armswing message list", no_args_is_help=True)


def _messages() -> dict[str, Any]:
    """Return {name: type} of all message types of the standard topics, and of the structs that these types contain."""
    carried = {row.message.__name__: row.message for row in known_topics().values()}
    parts = (
        *(messages.JointDescription, messages.ActuatorDescription, messages.BodyDescription, messages.Shape),
        *(messages.SpringDescription, messages.ForceDescription, messages.GripperDescription),
    )
    return carried | {part.__name__: part for part in parts}


@app.command("list", epilog="Example: armswing message list")
def list_messages(as_json: AsJson = False) -> None:
    """List every message with its topic and description."""
    topics: dict[str, str] = {}
    for name, row in known_topics().items():
        kind = row.message.__name__
        topics[kind] = f"{topics[kind]}, {name}" if kind in topics else name
    rows = [
        (name, topics.get(name, "part of Description"), (inspect.getdoc(kind) or "").partition("\n")[0])
        for name, kind in _messages().items()
    ]
    if as_json:
        print_json([dict(zip(("message", "topic", "about"), row, strict=True)) for row in rows])
    else:
        print_table(("message", "topic", "what it is"), rows)


@app.command("show", epilog="Example: armswing message show JointCommand")
def show_message(
    name: Annotated[
        str, typer.Argument(help="Name of a message, as `armswing message list` prints it.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Show the fields, types, defaults and units of a message; with --json, show its JSON Schema."""
    known = _messages()
    if name not in known:
        raise InputError(f"no message {name!r}; messages are {', '.join(known)}{did_you_mean(name, known)}")
    kind = known[name]
    if as_json:
        print_json(msgspec.json.schema(kind))
        return
    print_line(inspect.getdoc(kind) or name)
    if issubclass(kind, Message):
        print_line("\nin every message")
        print_line("\n".join(f"  {line}" for line in (inspect.getdoc(Message) or "").splitlines()[2:]))
    print_line("")
    own = [field for field in msgspec.structs.fields(kind) if field.name not in Message.__struct_fields__]
    print_table(("field", "type", "default"), [(f.name, type_text(f.type), default_text(f)) for f in own])


def default_text(field: Any) -> str:
    """Default of a message's field, as JSON.

    The text is "required" for a field without a default, and "absent" for a field that is not sent unless it is set.
    """
    if field.required:
        return "required"
    made = field.default_factory is not msgspec.NODEFAULT
    if field.default is msgspec.UNSET:
        return "absent"
    return msgspec.json.encode(field.default_factory() if made else field.default).decode()

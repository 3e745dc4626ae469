"""Generates the reference pages and diagrams from the code, before Sphinx reads its sources.

    launch keys             nodes/framework/plan/launch_plan.py
    topics, messages        nodes/framework/messages
    steppers, stabilizers   the registries of sim_core
    controllers             nodes/controllers
    robots                  robots/registry.py
    commands                the typer application

Pages include the generated tables by `include`. `write(folder)` returns {file name: text}, which the tests read too.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

HERE = Path(__file__).resolve().parent


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") if text else ""


def code(text: str) -> str:
    """Text as inline code; "" for an empty text."""
    return f"`{text}`" if text else ""


def launch_keys() -> str:
    """Every key of a launch file: type, default, meaning."""
    from nodes.framework.plan.key_reference import TABLES, keys, parameters

    parts = []
    for name in TABLES:
        parts.append(f"## {code(name) if name else 'Above all tables'}\n")
        rows = [(code(key), code(kind), code(default), about) for key, kind, default, about in keys(name)]
        parts.append(table(("key", "type", "default", "meaning"), rows))
    for kind in ("stepper", "stabilizer"):
        parts.append(f"## `[sim.{kind}]`\n\nA table in place of the name: `name`, and the parameters of that {kind}.\n")
        rows = [(code(name), code(key), code(default), about) for name, key, default, about in parameters(kind)]
        parts.append(table((kind, "key", "default", "meaning"), rows))
    return "\n".join(parts)


def methods(kind: str) -> str:
    """Table of the steppers or stabilizers that can be selected by name."""
    from nodes.framework.plan.key_reference import ABOUT_METHODS, default_text
    from sim_core.integrators.steppers import ADJUSTABLE, STEPPERS
    from sim_core.stabilization.registry import stabilizers_by_name
    from sim_core.tables import defaults_of

    makers: dict[str, Any] = stabilizers_by_name() if kind == "stabilizer" else {n: ADJUSTABLE.get(n) for n in STEPPERS}

    def shown(maker: Any) -> str:
        choices = defaults_of(maker) if maker else {}
        texts = {key: default_text(default) for key, default in choices.items()}
        return ", ".join(f"`{key}`" + ("" if text == "-" else f" = `{text}`") for key, text in texts.items()) or "none"

    rows = [(code(name), ABOUT_METHODS[name], shown(maker)) for name, maker in makers.items()]
    return table((kind, "what it is", "parameters and their defaults"), rows)


def topics() -> str:
    """Table of all topics."""
    from nodes.framework.messages.topics import known_topics

    rows = [
        (code(name), f"[{row.message.__name__}](#{row.message.__name__.lower()})", _delivery(row))
        for name, row in known_topics().items()
    ]
    return table(("topic", "message", "delivery"), rows)


def _delivery(row: Any) -> str:
    return ", ".join([*(["latched"] if row.latched else []), "sampled" if row.sampled else "lossless"])


def messages() -> str:
    """Tables of every message and its parts, field by field."""
    from nodes.cli.commands.network.messages import _messages as carried
    from nodes.framework.messages import Message

    return "\n".join(_struct(kind) for kind in (Message, *carried().values()))


def _struct(kind: type[msgspec.Struct]) -> str:
    from nodes.cli.commands.network.messages import default_text
    from nodes.framework.messages import Message
    from nodes.framework.plan.key_checks import type_text

    first, rest, told = _docstring(kind)
    common = Message.__struct_fields__ if kind is not Message else ()
    rows = []
    for field in msgspec.structs.fields(kind):
        if field.name not in common or not issubclass(kind, Message):
            default = code(default_text(field))
            rows.append((code(field.name), code(type_text(field.type)), default, told.get(field.name, "")))
    return f"### {kind.__name__}\n\n{first}\n\n{rest}\n\n" + table(("field", "type", "default", "meaning"), rows)


def _docstring(kind: Any) -> tuple[str, str, dict[str, str]]:
    """First paragraph of a docstring, the rest without field lines, and {field: description}."""
    from nodes.framework.plan.key_reference import docstring_of

    first, rest, told = docstring_of(kind)
    return first, rest, {key: text.replace("<", "&lt;") for key, text in told.items()}


def public_names() -> str:
    """Table of the names and modules of the package armswing."""
    import armswing

    rows = []
    for name in armswing.__all__:
        found = getattr(armswing, name)
        rows.append((code(name), (inspect.getdoc(found) or "").partition("\n\n")[0]))
    return table(("name", "what it is"), rows)


def robots() -> str:
    """Table of every built-in robot."""
    from robots.registry import BUILTIN, build

    rows = []
    for name, builder in sorted(BUILTIN.items()):
        mechanism = build(name)
        about = (inspect.getdoc(builder) or "").partition("\n")[0]
        size = len(mechanism.bodies), len(mechanism.moving_joints), len(mechanism.actuators)
        rows.append((code(name), about, mechanism.coordinates, *map(str, size)))
    return table(("robot", "what it is", "coordinates", "bodies", "joints", "actuators"), rows)


def controllers() -> str:
    """Every shipped controller: what it does, the robots that it holds, and its parameters with units."""
    import importlib

    from nodes.framework.plan.key_checks import type_text
    from nodes.node import Node

    parts = []
    for file in sorted((HERE.parent / "nodes/controllers").glob("*.py")):
        module = importlib.import_module(f"nodes.controllers.{file.stem}")
        for name, kind in vars(module).items():
            is_own = isinstance(kind, type) and issubclass(kind, Node) and kind.__module__ == module.__name__
            if not is_own or inspect.isabstract(kind):
                continue
            first, rest, _ = _docstring(kind)
            about = {key: text for base in reversed(kind.Params.__mro__) for key, text in _docstring(base)[2].items()}
            comments = {key: text for base in reversed(kind.Params.__mro__) for key, text in _comments(base).items()}
            rows = []
            for field in msgspec.structs.fields(kind.Params):
                default = "" if field.required else code(_default_text(field))
                told, comment = about.get(field.name, ""), comments.get(field.name, "")
                meaning = told if comment in told else "; ".join(filter(None, (told, comment)))
                rows.append((code(field.name), code(type_text(field.type)), default, meaning))
            parts.append(f"## {name}\n\n{code(f'nodes/controllers/{file.name}:{name}')}\n\n{first}\n\n{rest}\n")
            parts.append(table(("parameter", "type", "default", "unit and meaning"), rows))
    return "\n".join(parts)


def _default_text(field: Any) -> str:
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return repr(default).replace("'", '"')


def _comments(kind: type) -> dict[str, str]:
    """{field: comment behind it} of a class, which has the unit."""
    if not issubclass(kind, msgspec.Struct) or kind is msgspec.Struct:
        return {}
    found, field = {}, ""
    for line in inspect.getsource(kind).splitlines():
        declared = re.match(r"    (\w+): ", line)
        field = declared[1] if declared else field
        if field and (comment := re.search(r"  # (.+)$", line)):
            found.setdefault(field, comment[1])
        field = "" if line.strip() == "" else field
    return found


def robot_parameters() -> str:
    """The parameters of every robot, as `armswing robot show` lists them."""
    from robots.registry import BUILTIN, parameters

    parts = []
    for name in sorted(BUILTIN):
        rows = [
            (
                code(p.name),
                code("" if p.default is None else str(p.default)),
                p.unit,
                p.meaning,
                " ".join(map(str, p.choices)),
            )
            for p in parameters(name)
        ]
        if rows:
            parts.append(f"### `{name}`\n\n" + table(("parameter", "default", "unit", "meaning", "choices"), rows))
    return "\n".join(parts)


def commands() -> str:
    """Every command with its arguments, options and an example."""
    from typer.main import get_command

    from nodes.cli.application import application

    def walk(command: Any, path: str) -> Iterator[str]:
        below = getattr(command, "commands", {})
        if not below:
            yield _command(command, path)
        for name, each in below.items():
            yield from walk(each, f"{path} {name}")

    return "\n".join(walk(get_command(application()), "armswing"))


def _command(command: Any, path: str) -> str:
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        option = parameter.param_type_name == "option"
        shown = ", ".join(parameter.opts) if option else parameter.name.upper()
        default = parameter.default
        plain = isinstance(default, str | int | float) and not isinstance(default, bool)
        text = (getattr(parameter, "help", "") or "").replace("\\[", "[")
        rows.append((code(shown), text, code(str(default)) if plain else ""))
    help_text = inspect.cleandoc(command.help or "").replace("\\[", "[")
    example = (command.epilog or "").removeprefix("Example: ")
    parts = [f"## `{path}`\n", help_text, ""]
    parts += [table(("argument or option", "meaning", "default"), rows)] if rows else []
    return "\n".join(parts) + (f"\n```sh\n{example}\n```\n" if example else "")


# Pages of the site for Markdown files outside of docs/: {file: page}
ELSEWHERE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "sim_core/NOTATION.md": "reference/notation.md",
    "sim_core/REFERENCES.md": "reference/references.md",
}


def copied(file: str, page: str) -> str:
    """Text of a Markdown file below its title, with its links adapted to the page that includes it."""
    path = HERE.parent / file

    def link(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if "://" in target or target.startswith("#"):
            return found[0]
        there = (path.parent / target).resolve().relative_to(HERE.parent.resolve())
        own = HERE / ELSEWHERE[str(there)] if str(there) in ELSEWHERE else HERE.parent / there
        return f"{text}({os.path.relpath(own, (HERE / page).parent)})"

    body = path.read_text().partition("\n")[2]
    return re.sub(r"(\[[^\]]*\])\(([^)\s]+)\)", link, body)


def sources() -> str:
    """Text of the sources of every robot's numbers."""
    files = sorted((HERE.parent / "robots").glob("*/SOURCES.md"))
    parts = [(file.parent.name, copied(str(file.relative_to(HERE.parent)), "robots/sources.md")) for file in files]
    return "\n\n".join(f"## {name}\n{re.sub(r'^#', '##', text, flags=re.MULTILINE)}" for name, text in parts)


PAGES = {
    "contributing.md": lambda: copied("CONTRIBUTING.md", "contributing.md"),
    "changelog.md": lambda: copied("CHANGELOG.md", "changelog.md"),
    "notation.md": lambda: copied("sim_core/NOTATION.md", "reference/notation.md"),
    "references.md": lambda: copied("sim_core/REFERENCES.md", "reference/references.md"),
    "sources.md": sources,
    "launch_keys.md": launch_keys,
    "steppers.md": lambda: methods("stepper"),
    "stabilizers.md": lambda: methods("stabilizer"),
    "topics.md": topics,
    "messages.md": messages,
    "public_names.md": public_names,
    "controllers.md": controllers,
    "robots.md": robots,
    "robot_parameters.md": robot_parameters,
    "commands.md": commands,
}


def pictures() -> dict[str, str]:
    """{file name: text} of the diagrams and tables of the architecture pages."""
    sys.path[:0] = [] if str(HERE) in sys.path else [str(HERE)]
    import walks

    found = {"processes.svg": walks.processes()}
    for walk in walks.WALKS:
        rows = [(lane, code(name) if ":" in name else name, does) for lane, name, does in walks.table(walk)]
        found |= {f"{walk.page}.svg": walks.picture(walk), f"{walk.page}.md": table(("where", "name", "does"), rows)}
    return found


def fitted_log(folder: Path) -> None:
    """Import and fit the log of `armswing import --example`, and keep the picture of the tail as fit_tail.png."""
    import tempfile

    from nodes.cli.application import run

    with tempfile.TemporaryDirectory() as made:
        log = HERE.parent / "nodes/hil/logs/example/swing"
        recording, results = Path(made) / "swing.mcap", Path(made) / "fit"
        for words in (
            ["import", f"{log}.csv", "--columns", f"{log}.toml", "-o", str(recording)],
            ["hil", "fit", str(recording), "-o", str(results)],
        ):
            if code := run(words):
                raise RuntimeError(f"armswing {' '.join(words)}: exit code {code}")
        (folder / "fit_tail.png").write_bytes((results / "plots/joint_02.png").read_bytes())


def write(folder: Path) -> None:
    """Write every generated page that changed, so that a second build has less to do."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ({name: made() for name, made in PAGES.items()} | pictures()).items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    fitted_log(folder)


def as_rst(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText: lines `name  text` become a definition list; special characters are escaped."""
    out: list[str] = []
    in_fields = False
    for line in lines:
        found = re.match(r"([A-Za-z_]\w*(?:(?:, | \.\. )\w+)*)(?:  +|: (?=[a-z]))(\S.*)$", line)
        if found and "  " in line[: len(found[1]) + 2]:
            out += [] if in_fields or not out or not out[-1] else [""]
            out += [f"``{found[1]}``", f"    {_escaped(found[2])}"]
            in_fields = True
        elif in_fields and line.startswith("  "):
            out.append(f"    {_escaped(line.strip())}")
        elif line.startswith("    ") and (not out or not out[-1].startswith("| ")):
            out += ["| " + _escaped(line.strip())]
        elif line.startswith("    "):
            out.append("| " + _escaped(line.strip()))
        else:
            out += [""] if line.strip() and out and out[-1].startswith(("| ", "    ")) else []
            out.append(_escaped(line.strip()))
            in_fields = False
    return out


def _escaped(text: str) -> str:
    parts = re.split(r"(`+[^`]+`+)", text)
    plain = [re.sub(r"([*|\\]|_(?!\w))", r"\\\1", part) for part in parts[::2]]
    quoted = [f"``{part.strip('`')}``" for part in parts[1::2]]
    joined = "".join(a + b for a, b in zip(plain, [*quoted, ""], strict=True))
    return re.sub(r"(``[^`]+``)(?=\w|\\?_)", r"\1\\ ", joined)


def _convert(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    if not any(":param" in line for line in lines):
        lines[:] = [*as_rst(lines), ""]


def setup(app: Any) -> dict[str, Any]:
    """Sphinx extension entry point: writes the generated pages before Sphinx reads its sources."""
    app.connect("builder-inited", lambda _: write(HERE / "_generated"))
    app.connect("autodoc-process-docstring", _convert)
    return {"parallel_read_safe": True}

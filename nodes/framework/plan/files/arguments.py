"""Arguments of a launch file: the table [args], their values, and their use as `"${name}"` and in conditions `if`.

A condition, such as `if = "args.viewer and not args.robot == 'gibbon'"`, depends on the arguments alone.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from nodes.framework.plan.files.document import Document
from nodes.framework.plan.files.source import Source
from nodes.framework.plan.key_checks import PlanError, convert, suggestion
from nodes.framework.plan.launch_plan import NAME
from nodes.framework.plan.node_classes import shortened
from sim_core.support.suggestion import did_you_mean

Value = bool | int | float | str | list[Any]
KINDS: dict[str, tuple[type, str]] = {
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
    "number": (float, "a number"),
    "text": (str, "text"),
    "list": (list, "a list"),
}
_USE = re.compile(r"\$\$\{|\$\{(?:([^{}]*)\})?")  # "$${", "${name}", or a "${" that does not begin a name
_IN_CONDITION = re.compile(r"\bargs\.(\w+)")


class Argument(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An entry of the table [args], `name = { ... }`: an argument of the launch file, used as `"${name}"`.

    default  value of the argument if none is given; an argument without a default has to be given
    type     type of the values; by default the type of `default` or of `choices`
    help     meaning of the argument, with its unit
    choices  allowed values
    min      smallest allowed number
    max      largest allowed number
    """

    default: Value | None = None
    type: Literal["boolean", "integer", "number", "text", "list"] | None = None
    help: str = ""
    choices: list[bool | int | float | str] = []
    min: float | None = None
    max: float | None = None

    @property
    def kind(self) -> str:
        """Type of the values, one of KINDS."""
        if self.type is not None:
            return self.type
        example = self.default if self.default is not None else self.choices[0]
        return next(name for name, (kind, _) in KINDS.items() if type(example) is kind)

    def limits(self) -> str:
        """Allowed values as text; "" if every value of the type is allowed."""
        if self.choices:
            return " | ".join(map(text_of, self.choices))
        if self.min is not None and self.max is not None:
            return f"{self.min:g} .. {self.max:g}"
        if self.min is not None:
            return f"at least {self.min:g}"
        return "" if self.max is None else f"at most {self.max:g}"


@dataclass(frozen=True)
class Arguments:
    """The arguments of one launch file.

    declared  {name: argument} of its table [args]
    values    {name: value}
    warnings  one line, with file and line, for each argument that is not used in the file
    """

    declared: dict[str, Argument]
    values: dict[str, Any]
    warnings: list[str]

    @property
    def choices(self) -> dict[str, list[bool | int | float | str]]:
        """{name: allowed values} of the arguments that have choices."""
        return {name: each.choices for name, each in self.declared.items() if each.choices}


def arguments_of(document: Document, given: Mapping[str, Any] | Sequence[str], at: str = "") -> Arguments:
    """The arguments of a launch file with their values. Raises PlanError with a one-line message for a wrong one.

    given  {name: value}, or texts "name=value" as on the command line
    at     text of the place where the values are given, for messages; by default the name of the file
    """
    source, declared = document.source, declared_by(document)
    if not isinstance(given, Mapping):
        try:
            given = parsed_arguments(given, declared)
        except PlanError as error:
            raise PlanError(f"{source.file}: {error}") from None
    values = argument_values(declared, given, source, at)
    return Arguments(declared, values, unused(declared, document.values, source))


def declared_by(document: Document) -> dict[str, Argument]:
    """The arguments that a launch file declares."""
    return declared_arguments(document.values.get("args", {}), document.source.table("[args]", "args"))


def declared_arguments(table: object, source: Source) -> dict[str, Argument]:
    """The arguments in a file's table [args]. Raises PlanError, with file, line and key, for an invalid argument."""
    if not isinstance(table, dict):
        raise PlanError(f"{source}: args must be a table; write [args]")
    declared = {}
    for name, entry in table.items():
        where = source.table(f"[args]: argument {name!r}", name)
        if not NAME.fullmatch(name):
            raise PlanError(f"{where}: the name is not allowed; use letters, digits and _, with a letter first")
        if keyword.iskeyword(name) or name in ("true", "false"):
            raise PlanError(
                f"{where}: the name is not allowed, as conditions use it as an operator or value; choose another name"
            )
        if not isinstance(entry, dict):
            raise PlanError(
                f"{where}: the value is not a table; write {name} = {{ default = {text_of(entry, quoted=True)} }}"
            )
        _check_default(entry.get("default"), where)
        argument = declared[name] = convert(entry, Argument, where)
        if argument.type is None and argument.default is None and not argument.choices:
            raise PlanError(
                f"{where}: the type is unknown; give a default, choices, or a type, which is one of {', '.join(KINDS)}"
            )
        if (argument.min is not None or argument.max is not None) and argument.kind not in ("integer", "number"):
            raise PlanError(
                f"{where}: the type is {argument.kind}, but min and max are for numbers only; remove min and max"
            )
        if argument.min is not None and argument.max is not None and argument.min > argument.max:
            raise PlanError(
                f"{where.at('min')}: key 'min' is {argument.min:g} and max is {argument.max:g}; min must not be "
                "above max"
            )
        for key, text in [("default", argument.default), *(("choices", choice) for choice in argument.choices)]:
            if uses := [use[0] for each in _texts(text) for use in _USE.finditer(each) if use[0] != "$${"]:
                raise PlanError(
                    f"{where.at(key)}: key {key!r} has {uses[0]!r}, but values of arguments are not replaced in the "
                    "table [args]; write the value itself"
                )
        for choice in argument.choices:
            plain = msgspec.structs.replace(argument, choices=[], type=argument.kind)
            _fitting(choice, plain, where.at("choices") + ": key 'choices'")
        if argument.default is not None:
            argument.default = _fitting(argument.default, argument, where.at("default") + ": key 'default'")
    return declared


def _check_default(value: object, where: Source) -> None:
    """Raise PlanError for a default of a type that no argument has, such as a table."""
    if value is None or isinstance(value, bool | int | str | list):
        return
    if isinstance(value, float) and math.isfinite(value):
        return
    found = "a table" if isinstance(value, dict) else value
    raise PlanError(
        f"{where.at('default')}: key 'default' is {found}; it must be true or false, a finite number, text or a list"
    )


def argument_values(
    declared: Mapping[str, Argument], given: Mapping[str, Any], source: Source, at: str = ""
) -> dict[str, Any]:
    """{argument: value} of all arguments, with the given values and the defaults of the others.

    Raises PlanError for an argument that is unknown, missing, or has an invalid value.

    at  text of the place where the values are given, for messages; by default the name of the file
    """
    place = at or str(source.file)
    for name in given:
        if name not in declared:
            hint = suggestion(name, declared) if declared else "; the file has no table [args]"
            of = f" of {source.file}" if at else ""
            raise PlanError(f"{place}: unknown argument {name!r}{of}{hint}")
    values = {}
    for name, argument in declared.items():
        if name in given:
            values[name] = _fitting(given[name], argument, f"{place}: argument {name!r}")
        elif argument.default is not None:
            values[name] = argument.default
        else:
            where = source.at("args", name)
            about = f" ({argument.help})" if argument.help else ""
            give = f"add args = {{ {name} = VALUE }}" if at else f"give {name}=VALUE"
            raise PlanError(
                f"{at or where}: argument {name!r}{about} is missing; {give}, where VALUE is {_permitted(argument)}"
            )
    return values


def parsed_arguments(texts: Sequence[str], declared: Mapping[str, Argument]) -> dict[str, Any]:
    """{argument: value} of "name=value" texts, as on the command line; values of text arguments need no quotes."""
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals and (name := name.strip()) in declared:
            raise PlanError(
                f"argument {name!r} has no value; write {name}=VALUE, where VALUE is {_permitted(declared[name])}"
            )
        if not equals or not name.strip():
            names = f"; the arguments are {', '.join(declared)}" if declared else "; the file has no arguments"
            raise PlanError(f"{text!r} is no argument; write name=value{names}{did_you_mean(text, declared)}")
        name, value = name.strip(), value.strip()
        if name in values:
            raise PlanError(
                f"argument {name!r} is given twice, as {text_of(values[name])} and as {value}; give it once"
            )
        is_text = name in declared and declared[name].kind == "text"
        values[name] = value if is_text and value[:1] not in "\"'" else _parsed(value)
    return values


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _fitting(value: Any, argument: Argument, where: str) -> Any:
    """A value converted to the type of an argument.

    Raises PlanError, whose message begins with `where`, for a value that the argument does not accept.
    """
    kind, _ = KINDS[argument.kind]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = (number and math.isfinite(value)) if kind is float else type(value) is kind
    if fits and argument.choices:
        fits = value in argument.choices
    elif fits and number:
        low, high = argument.min, argument.max
        fits = (low is None or value >= low) and (high is None or value <= high)
    if not fits:
        near = did_you_mean(value, argument.choices) if argument.choices else ""
        given = shortened(text_of(value, quoted=True))
        raise PlanError(f"{where}: {given} is not allowed; give {_permitted(argument)}{near}")
    return float(value) if kind is float else value


def _permitted(argument: Argument) -> str:
    if argument.choices:
        return f"one of {', '.join(map(text_of, argument.choices))}"
    limits = argument.limits()
    word = "in" if ".." in limits else "of"
    return f"{KINDS[argument.kind][1]}{f' {word} {limits}' if limits else ''}"


def text_of(value: object, quoted: bool = False) -> str:
    """A value as it is written in a launch file, but text without quotes unless `quoted` is true.

    Texts inside a list always have quotes.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not quoted:
        return value
    if isinstance(value, list):
        return f"[{', '.join(text_of(item, quoted=True) for item in value)}]"
    return repr(value)


def unused(declared: Mapping[str, Argument], values: Mapping[str, Any], source: Source) -> list[str]:
    """One line for each argument that a launch file declares and does not use.

    values  all tables of the file
    """
    texts = list(_texts({key: table for key, table in values.items() if key != "args"}))
    used = {name for text in texts for name in _names(text)}
    used |= {name for text in texts for name in _IN_CONDITION.findall(text)}
    return [
        f'{source.at("args", name)}: argument {name!r} has no effect; use it in the file as "${{{name}}}", or as '
        f"args.{name} in a condition"
        for name in declared
        if name not in used
    ]


def _texts(values: Any) -> Iterator[str]:
    """Yield all texts in tables and lists."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, dict | list):
        for item in values.values() if isinstance(values, dict) else values:
            yield from _texts(item)


def substituted(values: Any, arguments: Mapping[str, Any], source: Source) -> Any:
    """A copy of tables, lists and texts in which `"${name}"` is replaced by the argument's value.

    A text such as "${name}", without other characters, becomes the argument's value with the value's own type, such as
    a number. `"$${"` becomes "${".
    """
    if isinstance(values, dict):
        return {key: substituted(item, arguments, source.table(source.label, key)) for key, item in values.items()}
    if isinstance(values, list):
        return [
            substituted(item, arguments, source.table(source.label, index))
            if isinstance(item, str | dict | list)
            else item
            for index, item in enumerate(values)
        ]
    if not isinstance(values, str) or "${" not in values:
        return values
    key = next((key for key in reversed(source.path) if isinstance(key, str)), "")
    if any(use[0] == "${" for use in _USE.finditer(values)):
        raise PlanError(
            f"{source}: key {key!r}: {shortened(values)!r} has a '${{' without a name and its '}}'; write ${{name}}, "
            "or '$${' for the text '${'"
        )
    for name in _names(values):
        if name not in arguments:
            hint = suggestion(name, arguments) if arguments else "; the file has no table [args]"
            raise PlanError(f"{source}: key {key!r}: {values!r} uses argument {name!r}, which does not exist{hint}")
    whole = _USE.fullmatch(values)
    if whole and whole[1] is not None:
        return arguments[whole[1].strip()]
    return _USE.sub(lambda use: "${" if use[1] is None else text_of(arguments[use[1].strip()]), values)


def _names(text: str) -> Iterator[str]:
    return (use[1].strip() for use in _USE.finditer(text) if use[1] is not None)


LONGEST = 500  # characters of a condition
NO_ARGUMENTS = "; the file has no table [args]"
FORM = "write a condition with args.NAME, not, and, or, ==, != and values such as 'text', 1.5, true"


def is_true(condition: object, arguments: Arguments, where: str) -> bool:
    """Whether a condition is true. Raises PlanError, whose message begins with `where`, for an invalid condition.

    A comparison of an argument with a value that the argument cannot have is invalid.
    """
    if isinstance(condition, bool):
        return condition
    if not isinstance(condition, str):
        raise PlanError(f"{where}: key 'if': {condition!r} is neither text nor true or false; {FORM}")
    try:
        if len(condition) > LONGEST:
            raise ValueError(f"the condition has {len(condition)} characters; shorten it to at most {LONGEST}")
        body = ast.parse(condition.strip(), mode="eval").body
        is_on = _truth(body, arguments.values)
        _check_choices(body, arguments.values, arguments.choices)
        return is_on
    except SyntaxError as error:
        raise PlanError(f"{where}: key 'if': {condition!r}: {error.msg}; {FORM}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise PlanError(f"{where}: key 'if': {condition[:LONGEST]!r}: {error}") from None


def _truth(part: ast.expr, arguments: Mapping[str, Any]) -> bool:
    value = _value_of(part, arguments)
    if not isinstance(value, bool):
        text = ast.unparse(part)
        raise ValueError(f"{text} is {value!r}, neither true nor false; compare it, as in {text} == {value!r}")
    return value


def _value_of(part: ast.expr, arguments: Mapping[str, Any]) -> Any:
    match part:
        case ast.BoolOp(op=ast.And()):
            return False not in _truths(part, arguments)
        case ast.BoolOp():
            return True in _truths(part, arguments)
        case ast.UnaryOp(op=ast.Not()):
            return not _truth(part.operand, arguments)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() as compare], comparators=[right]):
            return _equal(part, right, arguments) == isinstance(compare, ast.Eq)
        case ast.Constant(value=bool() | str() | int() | float() as value):
            return value
        case ast.Name(id="true" | "false" as word):
            return word == "true"
        case ast.Attribute(value=ast.Name(id="args"), attr=name):
            if name not in arguments:
                raise ValueError(
                    f"there is no argument {name!r}{suggestion(name, arguments) if arguments else NO_ARGUMENTS}"
                )
            return arguments[name]
        case ast.Name(id=name) if name in arguments:
            raise ValueError(f"{name!r} is an argument; write args.{name}")
    raise ValueError(f"{ast.unparse(part)!r} is not allowed; {FORM}")


def _truths(part: ast.BoolOp, arguments: Mapping[str, Any]) -> list[bool]:
    """Truth values of all parts of an `and` or `or`.

    Every part is evaluated, so that an error in any part is found.
    """
    return [_truth(one, arguments) for one in part.values]


def _equal(part: ast.Compare, right: ast.expr, arguments: Mapping[str, Any]) -> bool:
    first, second = _value_of(part.left, arguments), _value_of(right, arguments)
    if _kind(first) is not _kind(second):
        raise ValueError(
            f"{ast.unparse(part)} compares {first!r} with {second!r}, which are never equal because their types "
            "differ; compare values of one type"
        )
    return bool(first == second)


def _check_choices(body: ast.expr, arguments: Mapping[str, Any], choices: Mapping[str, Sequence[Any]]) -> None:
    """Raise ValueError for a comparison of an argument with a value that is not among its choices."""
    for part in ast.walk(body):
        if not isinstance(part, ast.Compare):
            continue
        for argument, other in ((part.left, part.comparators[0]), (part.comparators[0], part.left)):
            name = argument.attr if isinstance(argument, ast.Attribute) else ""
            if name not in choices or isinstance(other, ast.Attribute):
                continue
            value = _value_of(other, arguments)
            if value not in choices[name]:
                raise ValueError(
                    f"args.{name} is never {value!r}; its choices are {', '.join(map(repr, choices[name]))}"
                    f"{did_you_mean(value, choices[name])}"
                )


def _kind(value: object) -> type:
    """Type of a value for comparisons; whole numbers and other numbers have the same type, float."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)

"""Conditions in a launch file, such as `if = "args.viewer and not args.robot == 'gibbon'"`.

A condition depends on the arguments of the launch file alone.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from nodes.plan.key_checks import PlanError, suggestion
from sim_core.support.suggestion import did_you_mean

LONGEST = 500  # characters of a condition
NO_ARGUMENTS = "; the file has no table [args]"
FORM = "write a condition with args.NAME, not, and, or, ==, != and values such as 'text', 1.5, true"


def is_true(condition: object, arguments: Mapping[str, Any], choices: Mapping[str, Sequence[Any]], where: str) -> bool:
    """Whether a condition is true. Raises PlanError, whose message begins with `where`, for an invalid condition.

    A comparison of an argument with a value that the argument cannot have is invalid.

    arguments  {name: value}
    choices    {name: allowed values} of the arguments that have choices
    """
    if isinstance(condition, bool):
        return condition
    if not isinstance(condition, str):
        raise PlanError(f"{where}: key 'if': {condition!r} is neither text nor true or false; {FORM}")
    try:
        if len(condition) > LONGEST:
            raise ValueError(f"the condition has {len(condition)} characters; shorten it to at most {LONGEST}")
        body = ast.parse(condition.strip(), mode="eval").body
        is_on = _truth(body, arguments)
        _check_choices(body, arguments, choices)
        return is_on
    except SyntaxError as error:
        raise PlanError(f"{where}: key 'if': {condition!r}: {error.msg}; {FORM}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise PlanError(f"{where}: key 'if': {condition[:LONGEST]!r}: {error}") from None


def _truth(part: ast.expr, arguments: Mapping[str, Any]) -> bool:
    value = _value(part, arguments)
    if not isinstance(value, bool):
        text = ast.unparse(part)
        raise ValueError(f"{text} is {value!r}, neither true nor false; compare it, as in {text} == {value!r}")
    return value


def _value(part: ast.expr, arguments: Mapping[str, Any]) -> Any:
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
    first, second = _value(part.left, arguments), _value(right, arguments)
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
            value = _value(other, arguments)
            if value not in choices[name]:
                raise ValueError(
                    f"args.{name} is never {value!r}; its choices are {', '.join(map(repr, choices[name]))}"
                    f"{did_you_mean(value, choices[name])}"
                )


def _kind(value: object) -> type:
    """Type of a value for comparisons; whole numbers and other numbers have the same type, float."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)

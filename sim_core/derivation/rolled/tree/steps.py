"""Sweeps made of single steps, each of which reads and writes records of any width at any place of an array."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import casadi as ca

from sim_core.derivation.rolled.tree.sweeps import Slot, function_of
from sim_core.kernels.rolled import Group, Records, Sweep


@dataclass(frozen=True)
class At:
    """Numbers of an array: its name, the first of the numbers, and how many they are.

    moving  place of a number that is found while the kernel runs: the numbers begin so many times `unit` later, by
            default `width`
    """

    array: str
    first: int
    width: int
    moving: At | None = None
    unit: int = 0


@dataclass
class _Kind:
    """Steps that share a function, and the places from which and to which each of them reads and writes."""

    function: ca.Function
    number: int
    inputs: list[list[At]] = field(default_factory=list)
    results: list[list[At]] = field(default_factory=list)


class Steps:
    """Steps in the order in which they are added. Those of one kind share a function.

    in_order  whether the order matters; otherwise all steps of a kind run one after the other
    """

    def __init__(self, name: str, in_order: bool = False) -> None:
        self._name, self._in_order = name, in_order
        self._kinds: dict[Hashable, _Kind] = {}
        self._runs: list[tuple[int, int, int]] = []

    def add(
        self,
        kind: Hashable,
        inputs: Sequence[At],
        results: Sequence[At],
        step: Callable[..., Sequence[ca.SX]],
    ) -> None:
        """Add a step.

        kind  value that is equal for steps with an equal function
        step  function that takes the input symbols, columns, and returns the results
        """
        if kind not in self._kinds:
            symbols = [ca.SX.sym(f"{at.array}_{k}", at.width) for k, at in enumerate(inputs)]
            found = step(*symbols)
            slots = [Slot("", symbol) for symbol in symbols], [Slot("", ca.SX(value)) for value in found]
            number = len(self._kinds)
            self._kinds[kind] = _Kind(function_of(f"{self._name}_{number}", *slots), number)
        own = self._kinds[kind]
        number, place = len(own.inputs), own.number
        own.inputs.append(list(inputs))
        own.results.append(list(results))
        if not self._in_order:
            return
        if self._runs and self._runs[-1][0] == place:
            self._runs[-1] = place, self._runs[-1][1], self._runs[-1][2] + 1
        else:
            self._runs.append((place, number, 1))

    @staticmethod
    def cleared(array: str, size: int) -> list[Sweep]:
        """Sweep that sets the first numbers of an array to zero."""
        zero = function_of("clear_1", [], [Slot("", ca.SX.zeros(1))])
        return [Sweep.of(Group(zero, [], [Records(array, 1)], size))] if size else []

    def sweeps(self) -> list[Sweep]:
        """The sweep over these steps; empty without steps."""
        if not self._kinds:
            return []
        groups = [
            Group(kind.function, _records(kind.inputs), _records(kind.results), len(kind.inputs))
            for kind in self._kinds.values()
        ]
        runs = self._runs if self._in_order else [(k, 0, group.count) for k, group in enumerate(groups)]
        if len(groups) > 1 and not self._in_order:
            return [Sweep.of(group) for group in groups]
        return [Sweep(groups, runs)]


def _records(places: Sequence[Sequence[At]]) -> list[Records]:
    found = []
    for column in zip(*places, strict=True):
        width = column[0].width
        firsts = [at.first for at in column]
        if column[0].moving is not None:
            unit = column[0].unit or width
            moving = Records(column[0].moving.array, 1, [at.moving.first for at in column if at.moving is not None])
            found.append(Records(column[0].array, width, [first // unit for first in firsts], step=unit, moving=moving))
        elif all(first % width == 0 for first in firsts):
            found.append(Records(column[0].array, width, [first // width for first in firsts]))
        else:
            found.append(Records(column[0].array, width, firsts, step=1))
    return found

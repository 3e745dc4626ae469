"""Evaluation order of a program's values: single nodes, pairs of corresponding nodes, groups of angles.

A unit is a tuple of node indices that one piece of code computes: one node, the two nodes of a pair, or all sines and
cosines whose angles depend on no sines and cosines but those of earlier groups.
"""

from __future__ import annotations

from sim_core.kernels.program import Program

Unit = tuple[int, ...]
TRIGONOMETRIC = ("sin", "cos")


def angle_groups(program: Program) -> list[Unit]:
    """All sines and cosines, grouped by depth: the number of layers of sines and cosines below them."""
    depth = [0] * len(program.nodes)
    groups: dict[int, list[int]] = {}
    for index, node in enumerate(program.nodes):
        depth[index] = max((depth[arg] for arg in node.args), default=0)
        if node.op in TRIGONOMETRIC:
            groups.setdefault(depth[index], []).append(index)
            depth[index] += 1
    return [tuple(group) for group in groups.values()]


def units_of(program: Program, pairs: list[tuple[int, int]]) -> list[Unit]:
    """Units, each after those it depends on. Pairs with a circular dependency are split into single nodes."""
    groups = angle_groups(program)
    member: dict[int, Unit] = {index: group for group in groups for index in group}
    for pair in pairs:
        if not any(index in member for index in pair):
            member |= dict.fromkeys(pair, pair)
    units: list[Unit] = []
    done: set[int] = set()
    for root in program.results.values():
        _visit(program, root, member, done, units)
    return units


def _visit(program: Program, root: int, member: dict[int, Unit], done: set[int], units: list[Unit]) -> None:
    stack, waiting = [root], set[Unit]()
    while stack:
        top = stack[-1]
        if top in done:
            stack.pop()
            continue
        unit = member.get(top, (top,))
        needs = [arg for index in unit for arg in program.nodes[index].args if arg not in done]
        if not needs:
            stack.pop()
            waiting.discard(unit)
            done.update(unit)
            units.append(unit)
        elif unit in waiting and any(member.get(arg, (arg,)) in waiting for arg in needs):
            for arg in needs:  # a circular dependency: its pairs are split
                for index in member.get(arg, ()) if len(member.get(arg, ())) == 2 else ():
                    waiting.discard(member.pop(index, ()))
            waiting.discard(unit)
            if len(unit) == 2:
                for index in unit:
                    member.pop(index, None)
        else:
            waiting.add(unit)
            stack += reversed(needs)

"""Evaluation order of a kernel program: units of one node, of a pair of nodes, or of a group of sines and cosines.

A unit is a tuple of indices of nodes that are computed together: a single node, the two nodes of a pair (see
pairing.py), or a group of sines and cosines. The angles of a group depend on no sines and cosines of the same group or
of later groups.
"""

from __future__ import annotations

from sim_core.kernels.program import Program

Unit = tuple[int, ...]
TRIGONOMETRIC = ("sin", "cos")


def angle_groups(program: Program) -> list[Unit]:
    """Sines and cosines of a program, grouped by depth, the number of nested sines and cosines in their angles."""
    depth = [0] * len(program.nodes)
    groups: dict[int, list[int]] = {}
    for index, node in enumerate(program.nodes):
        depth[index] = max((depth[arg] for arg in node.args), default=0)
        if node.op in TRIGONOMETRIC:
            groups.setdefault(depth[index], []).append(index)
            depth[index] += 1
    return [tuple(group) for group in groups.values()]


def units_of(program: Program, pairs: list[tuple[int, int]]) -> list[Unit]:
    """The nodes of a program in evaluation order, grouped into units: tuples of nodes that are evaluated together.

    pairs  indices of two nodes that can be evaluated by one vector instruction; a pair is split into single nodes if
           one of its nodes depends on the other, directly or through other units
    """
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

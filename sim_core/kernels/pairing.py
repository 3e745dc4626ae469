"""Pairing of equal operations in two branches of a mechanism with equal structure, such as left and right arm.

One vector instruction with two lanes can then compute both operations of a pair. The indices of corresponding inputs of
the two branches ("twins") are given. Each operation of the left branch is paired with the operation of the right branch
that has the same kind and corresponding arguments; arguments from outside the branches must be the same for both. Pairs
that depend on each other in a circle are split later (see order.py). Sums over both branches are regrouped such that
the terms of each branch are summed first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from sim_core.kernels.program import COMMUTATIVE, LIFTED, Builder, Node, Program, rebuilt

Twins = list[tuple[int, int]]
LEFT, RIGHT, BOTH = "L", "R", "B"
SUMS = ("fadd", "fsub")
Key = tuple[object, ...]


def paired(program: Program, twins: Mapping[str, Twins]) -> tuple[Program, list[tuple[int, int]]]:
    """Return an equivalent program that is suited for pairing, and its pairs (left node, right node).

    In the returned program, sums are regrouped, and the two nodes of a pair have their arguments in the same order.

    twins  {argument: pairs of indices of corresponding elements in the left and the right branch}
    """
    if not any(twins.get(name) for name in program.input_names):
        return program, []
    program = _regrouped(program, twins)
    seeds = _seeds(program, twins)
    partner = _partners(program, seeds)
    nodes = list(program.nodes)
    for right, left in partner.items():
        nodes[right] = nodes[right]._replace(args=_aligned(nodes, partner, left, right))
    pairs = [(left, right) for right, left in partner.items()]
    return replace(program, nodes=nodes), pairs


def _place_of(program: Program, node: Node) -> tuple[str, int] | None:
    """(name of the argument, index of the element) of an `input` or `lift` node; None for other nodes."""
    if node.op == "input":
        return program.input_names[node.place[0]], node.place[1]
    return (LIFTED, node.place[0]) if node.op == "lift" else None


def _seeds(program: Program, twins: Mapping[str, Twins]) -> dict[int, int]:
    """Pairs of corresponding nodes that read inputs, from which pairing starts.

    The pairs are given as {index of the right node: index of the left node}. The nodes have the operations `input` and
    `lift`.

    twins  {argument: (index of the left element, index of the right element) of each pair of corresponding elements}
    """
    at = {place: index for index, node in enumerate(program.nodes) if (place := _place_of(program, node))}
    return {
        at[name, right]: at[name, left]
        for name, elements in twins.items()
        for left, right in elements
        if (name, left) in at and (name, right) in at
    }


def _sides(program: Program, twins: Mapping[str, Twins]) -> list[str]:
    """Branch on which each node depends: LEFT, RIGHT, BOTH, or "" for neither."""
    side_of = {(name, left): LEFT for name, elements in twins.items() for left, _ in elements}
    side_of |= {(name, right): RIGHT for name, elements in twins.items() for _, right in elements}
    sides: list[str] = []
    for node in program.nodes:
        place = _place_of(program, node)
        if place is not None:
            sides.append(side_of.get(place, ""))
            continue
        found = {sides[arg] for arg in node.args}
        one = found & {LEFT, RIGHT}
        sides.append(BOTH if len(one) == 2 else one.pop() if one else BOTH if BOTH in found else "")
    return sides


def _partners(program: Program, seeds: dict[int, int]) -> dict[int, int]:
    """All pairs of a left and a right node that can be computed together, as {index of right node: index of left node}.

    Left nodes are those that depend on the left node of a seed. If several left nodes fit a right node, a left node
    with equal constants is preferred.

    seeds  pairs from which pairing starts, in the same form as the result
    """
    nodes = program.nodes
    left_values = set(seeds.values())
    lefts: dict[Key, list[int]] = {}
    on_left = set(left_values)
    for index, node in enumerate(nodes):
        if index not in left_values and index not in seeds and any(arg in on_left for arg in node.args):
            on_left.add(index)
            for exact in (True, False):
                lefts.setdefault(_key(nodes, node, {}, exact), []).append(index)
    partner, taken = dict(seeds), set(left_values)
    for index, node in enumerate(nodes):
        if index in seeds or not any(arg in partner for arg in node.args):
            continue
        for exact in (True, False):
            found = [left for left in lefts.get(_key(nodes, node, partner, exact), []) if left not in taken]
            if found and found[0] != index:
                partner[index] = found[0]
                taken.add(found[0])
                break
    return partner


def _key(nodes: list[Node], node: Node, partner: dict[int, int], exact: bool) -> Key:
    """Key of a node, made from its operation and arguments. Two nodes with equal keys can be paired.

    partner  {index of a right node: index of the left node it is paired with}; in the key, these left nodes take the
             places of right nodes
    exact    whether the key contains the values of constant arguments, so that paired nodes have equal constants
    """
    keys = [_argument_key(nodes, arg, partner, exact) for arg in node.args]
    return (node.op, exact, *(sorted(keys) if node.op in COMMUTATIVE else keys))


def _argument_key(nodes: list[Node], arg: int, partner: dict[int, int], exact: bool) -> tuple[str, float]:
    if nodes[arg].op == "const":
        return ("const", nodes[arg].value if exact else 0.0)
    return ("node", partner.get(arg, arg))


def _aligned(nodes: list[Node], partner: dict[int, int], left: int, right: int) -> tuple[int, ...]:
    """Arguments of the right node of a pair, in the order of the corresponding arguments of the left node.

    partner      {index of a right node: index of the left node it is paired with}
    left, right  indices of the two nodes of the pair
    """
    args = nodes[right].args
    if len(args) != 2 or nodes[right].op not in COMMUTATIVE:
        return args
    fits = [
        nodes[a].op == nodes[b].op == "const" or partner.get(b, b) == a
        for a, b in zip(nodes[left].args, args, strict=True)
    ]
    return args if all(fits) else (args[1], args[0])


# -- sums -------------------------------------------------------------------------------------------------------------


def _regrouped(program: Program, twins: Mapping[str, Twins]) -> Program:
    """The program, with the sums that have terms of both twin branches rewritten.

    Such a sum becomes (other terms) + ((terms of the left branch) + (terms of the right branch)). Twin branches are two
    branches of equal structure, such as two arms.

    twins  {argument: pairs of indices of corresponding elements in the left and the right branch}
    """
    nodes, sides = program.nodes, _sides(program, twins)
    uses = Counter(arg for node in nodes for arg in node.args) + Counter(program.results.values())
    inside = {arg for node in nodes if node.op in SUMS for arg in node.args if nodes[arg].op in SUMS and uses[arg] == 1}
    builder, new, skipped = Builder(), dict[int, int](), set[int]()
    sums: dict[int, list[tuple[int, int]]] = {}
    for index, node in enumerate(nodes):
        if node.op in SUMS and index not in inside:
            terms, within = _terms(nodes, inside, index)
            if {LEFT, RIGHT} <= {sides[term] for _, term in terms}:
                sums[index] = terms
                skipped |= within
    if not sums:
        return program
    for index, node in enumerate(nodes):
        if index in skipped:
            continue
        if index in sums:
            new[index] = _sum(builder, [(sign, new[term], sides[term]) for sign, term in sums[index]])
        else:
            new[index] = builder.add(Node(node.op, tuple([new[arg] for arg in node.args]), node.value, node.place))
    results = {place: new[old] for place, old in program.results.items()}
    return rebuilt(replace(program, nodes=builder.nodes, results=results))


def _terms(nodes: list[Node], inside: set[int], root: int) -> tuple[list[tuple[int, int]], set[int]]:
    """([(sign, node)] of the terms of the sum at the node `root`, in order; set of the sum's intermediate nodes)."""
    terms, within, stack = [], set[int](), [(1, root)]
    while stack:
        sign, index = stack.pop()
        if index != root and index not in inside:
            terms.append((sign, index))
            continue
        if index != root:
            within.add(index)
        a, b = nodes[index].args
        stack += [(-sign if nodes[index].op == "fsub" else sign, b), (sign, a)]
    return terms, within


def _sum(builder: Builder, terms: list[tuple[int, int, str]]) -> int:
    groups = [
        [(sign, node) for sign, node, side in terms if side in sides] for sides in (("", BOTH), (LEFT,), (RIGHT,))
    ]
    rest, left, right = ([_group(builder, group)] if group else [] for group in groups)
    sign, node = _group(builder, [*rest, _group(builder, [*left, *right])])
    return node if sign > 0 else builder.of("fneg", node)


def _group(builder: Builder, terms: list[tuple[int, int]]) -> tuple[int, int]:
    """Add nodes that compute the sum of some terms, each given as (sign, node); returns the sum as (sign, node).

    The returned sign is -1 if all terms are negative, otherwise 1.
    """
    first = next((k for k, (sign, _) in enumerate(terms) if sign > 0), 0)
    whole = terms[first][0]
    value = terms[first][1]
    for k, (sign, node) in enumerate(terms):
        if k != first:
            value = builder.of("fadd" if sign == whole else "fsub", value, node)
    return whole, value

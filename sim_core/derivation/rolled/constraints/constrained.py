"""The constrained equations of a tree, as loops: M x + J' y = r1, J x = r2 by the Schur complement S = J M^-1 J'.

A row of the Jacobian J is a wrench on each link on which a constraint acts. It is passed inward from link to link, as
the wrenches of the articulated-body algorithm are. The elimination of the joints is a factorization M = L' D L. The
efforts that the row leaves at the joints on its way are a column of L'^-1 J', and S is the sum of their products over
D. The cost thus grows with the links between the constraints and the ground; a few loops on a large tree are cheap.

Regularization and refinement are those of sim_core.derivation.solving.constrained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from sim_core.derivation.rolled.constraints.elimination import Elimination
from sim_core.derivation.rolled.constraints.rows import PULL, Block
from sim_core.derivation.rolled.tree.frames import FRAME
from sim_core.derivation.rolled.tree.links import Links
from sim_core.derivation.rolled.tree.segments import CHOSEN, Segments
from sim_core.derivation.rolled.tree.steps import At, Steps
from sim_core.derivation.rolled.tree.sweeps import Kind, Tree
from sim_core.derivation.solving.constrained import EPSILON, LONGEST, REFINEMENTS
from sim_core.kernels.rolled import Sweep
from sim_core.mechanism.constraints import PrescribedMotion
from sim_core.mechanism.description import Mechanism


@dataclass(frozen=True)
class Scales:
    """Row scales (n_r,) of the regularization, and whether S needs the last refinement (see `Regularization`).

    There are no row scales if the rows keep their rank.
    """

    row_scales: Sequence[float]
    is_ill_conditioned: bool


class Constrained:
    """Sweeps of the constraint rows of a tree.

    blocks  the rows, one block per constraint
    mass    scales for S with the mass matrix; least: with the identity in place of it
    """

    def __init__(
        self,
        mechanism: Mechanism,
        links: Links,
        tree: Tree,
        segments: Segments,
        blocks: Sequence[Block],
        mass: Scales,
        least: Scales,
    ) -> None:
        self._mechanism, self._links, self._tree, self._segments = mechanism, links, tree, segments
        self.blocks, self._mass, self._least = blocks, mass, least
        self.first_rows, self.n_rows = list[int](), 0
        for block in blocks:
            self.first_rows.append(self.n_rows)
            self.n_rows += block.n_rows
        self._pairs = self._found_pairs()
        self._along, self._pulls, total = dict[tuple[int, int], int](), dict[tuple[int, int], int](), 0
        for link, c in self._pairs:
            self._along[c, link] = total
            self._pulls[c, link] = PULL * total
            total += blocks[c].n_rows
        self._at_links: dict[int, list[int]] = {}
        for link, c in self._pairs:
            self._at_links.setdefault(link, []).append(c)
        touching = {(c, d) for here in self._at_links.values() for c in here for d in here if c < d}
        sizes = [block.n_rows for block in blocks]
        self.elimination = Elimination(sizes, sorted(touching), "S", "pivots")
        self._own_places, own = dict[tuple[int, int], int](), 0
        for c, block in enumerate(blocks):
            for end in range(len(block.ends)):
                self._own_places[c, end] = own
                own += PULL * block.n_rows
        self._is_regular = bool(mass.row_scales)
        self.factor_parts = {"along": total, "S": self.elimination.size, "pivots": self.n_rows}
        self.factor_parts |= {"added": self.n_rows} if self._is_regular else {}
        vectors = ("b", "before", "left", "dlam", "whole_rows", "target")
        self.sizes = {"own": own, "pull": PULL * total, "jac": total, **self.factor_parts, "sums": 2}
        self.sizes |= dict.fromkeys(vectors, self.n_rows)
        self.tables = self._found_tables()

    def _found_pairs(self) -> list[tuple[int, int]]:
        """(link, block) of each link between the ends of a block and the ground, from the last link to the first."""
        found = set[tuple[int, int]]()
        for c, block in enumerate(self.blocks):
            for end in block.ends:
                for link in self._segments.chain(end) or (end,):
                    while link >= 0 and (link, c) not in found:
                        found.add((link, c))
                        link = self._links.links[link].parent
        return sorted(found, key=lambda pair: (-pair[0], pair[1]))

    def _found_tables(self) -> dict[str, np.ndarray]:
        numbers: dict[object, list[np.ndarray]] = {}
        self._constants = list[At]()
        for block in self.blocks:
            rows = numbers.setdefault(block.key, [])
            name = f"rows_{[*numbers].index(block.key)}"
            self._constants.append(At(name, len(rows) * len(block.constants), len(block.constants)))
            rows.append(block.constants)
        found = {f"rows_{k}": np.array(rows) for k, rows in enumerate(numbers.values())}
        places = [self._pulls[c, link] for c, _, chain in self._chosen for link in chain]
        found |= {"places_of_pulls": np.array(places, dtype=float).reshape(-1, 1)} if places else {}
        for name, scales in (("scales", self._mass), ("least_scales", self._least)) if self._mass.row_scales else ():
            found[name] = np.array(scales.row_scales, dtype=float).reshape(-1, 1)
        return found

    @cached_property
    def _chosen(self) -> list[tuple[int, int, range]]:
        """(block, its end, links of the chain) of each end that is at a chosen segment."""
        return [(c, end, chain) for c, block in enumerate(self.blocks) for end, record in enumerate(block.links)
                if (chain := self._segments.chain(record)) is not None]  # fmt: skip

    def _at_chosen(self) -> list[Sweep]:
        """Sweeps that copy the rows of the Jacobian at chosen segments to the links of these segments."""
        finding, copying, first = Steps("finding_pull"), Steps("pulling_chosen"), 0
        for number, (c, end, chain) in enumerate(self._chosen):
            block = self.blocks[c]
            chosen = self._chosen_number(c, end)
            finding.add(0, [At("places_of_pulls", first, 1, chosen)], [At("pull_of", number, 1)], lambda x: [x])
            width, where = PULL * block.n_rows, At("pull_of", number, 1)
            copying.add(width, [self._own(c, end)], [At("pull", 0, width, where, 1)], lambda own: [own])
            first += len(chain)
        return [*finding.sweeps(), *copying.sweeps()]

    def _chosen_number(self, c: int, end: int) -> At:
        """Place of the number of the chosen segment at an end."""
        return At(CHOSEN, self.blocks[c].links[end] - self._links.count_of_records, 1)

    @property
    def operations(self) -> int:
        """Approximate number of multiplications to factorize S."""
        paths = sum(30 * self.blocks[c].n_rows for _, c in self._pairs)
        sums = sum(
            self.blocks[c].n_rows * self.blocks[d].n_rows
            for here in self._at_links.values()
            for c in here
            for d in here
        )
        return paths + sums + self.elimination.operations

    def rows(self, c: int, array: str) -> At:
        """Place of the rows of a block in a vector of all rows."""
        return At(array, self.first_rows[c], self.blocks[c].n_rows)

    def _pair(self, c: int, link: int, array: str) -> At:
        return At(array, self._along[c, link], self.blocks[c].n_rows)

    def _flag(self, c: int) -> list[At]:
        flag = self.blocks[c].flag
        return [At("p", flag, 1)] if flag >= 0 else []

    # -- rows ---------------------------------------------------------------------------------------------------------

    def violations(self) -> list[Sweep]:
        """Sweeps that compute the violations "Phi" and their rates "Phidot" from the frames."""
        steps = Steps("violated")
        for c, block in enumerate(self.blocks):
            holonomic = bool(block.kind.Phi.numel())
            results = [*([self.rows(c, "Phi")] if holonomic else []), self.rows(c, "Phidot")]
            kind = block.kind
            expressions = [*([kind.Phi] if holonomic else []), kind.Phidot]
            self._add(steps, c, results, expressions, with_bias=False)
        return steps.sweeps()

    def pulls(self) -> list[Sweep]:
        """Sweeps that compute the rows of the Jacobian at the links, "own", and the right-hand sides "target"."""
        steps, motions = Steps("pulling"), self._segments.gathered("motion", 18)
        for c, block in enumerate(self.blocks):
            results = [self.rows(c, "target"), *[self._own(c, end) for end in range(len(block.ends))]]
            self._add(steps, c, results, [block.kind.gamma, *block.kind.pulls], with_bias=True)
        return [*motions, *steps.sweeps()]

    def numbers_of(self, c: int) -> list[At]:
        """Places of the time, the constants, the flag, the parameters and the actuator inputs of a block."""
        block = self.blocks[c]
        own = [At("t", 0, 1), self._constants[c], *self._flag(c)]
        return own + [At("p", k, 1) for k in block.parameters] + [At("u", k, 1) for k in block.inputs]

    def _own(self, c: int, end: int) -> At:
        return At("own", self._own_places[c, end], PULL * self.blocks[c].n_rows)

    def _add(self, steps: Steps, c: int, results: Sequence[At], expressions: Sequence[ca.SX], with_bias: bool) -> None:
        block, kind = self.blocks[c], self.blocks[c].kind
        inputs = [At("t", 0, 1), self._constants[c], *self._flag(c)]
        inputs += [At("frame", FRAME * link, FRAME) for link in block.links]
        inputs += [At(array, link, 1) for link in block.joints for array in ("q", "v")]
        inputs += [At("p", k, 1) for k in block.parameters] + [At("u", k, 1) for k in block.inputs]
        inputs += [At("motion", 18 * link, 9) for link in block.links] if with_bias else []
        g = ca.DM(self._mechanism.gravity)

        flag = [kind.flag] if block.flag >= 0 else []
        old = [kind.t, kind.constants, *flag, *kind.frames]
        halves = [half for place in kind.places for half in ca.vertsplit(place)]
        old += [*halves, *kind.parameters, *kind.inputs, *(kind.biases if with_bias else [])]

        def step(*given: ca.SX) -> list[ca.SX]:
            new = list(given)
            if with_bias:
                motions = new[len(new) - len(kind.biases) :]
                new[len(new) - len(kind.biases) :] = [ca.vertcat(each[3:6], each[6:] + g) for each in motions]
            return list(ca.substitute(list(expressions), old, new))

        steps.add((block.key, with_bias), inputs, results, step)

    # -- along the tree -----------------------------------------------------------------------------------------------

    def passed_inward(self, array: str, articulated: bool) -> list[Sweep]:
        """Sweeps that compute the efforts of the rows of the Jacobian along the joints, in an array.

        articulated  whether the joints are free to move, which gives a column of L'^-1 J'; otherwise rows of J
        """
        begin, more = Steps("begun"), Steps("begun_more")
        steps = Steps(f"inward_{articulated:d}", in_order=True)
        ends: dict[tuple[int, int], list[int]] = {}
        for c, block in enumerate(self.blocks):
            for end, link in enumerate(block.ends):
                ends.setdefault((c, link), []).append(end)
        for link, c in self._pairs:
            n = self.blocks[c].n_rows
            pull = At("pull", self._pulls[c, link], PULL * n)
            own = [self._own(c, end) for end in ends.get((c, link), ())]
            if own:
                begin.add(("copied", n), own[:1], [pull], lambda own: [own])
            else:
                begin.add(("cleared", n), [], [pull], _zeros(PULL * n))
            for each in own[1:]:
                more.add(n, [each, pull], [pull], lambda own, pull: [own + pull])
        kinds = {kind.name: kind for kind in self._tree.kinds}
        for link, c in self._pairs:
            n, parent = self.blocks[c].n_rows, self._links.links[link].parent
            kind = self._links.links[link].kind
            pull = At("pull", self._pulls[c, link], PULL * n)
            inputs = [pull, At("axis", 3 * link, 3), At("reach", 3 * link, 3)]
            if articulated:
                inputs += [At("V", 6 * link, 6), At("inverse", link, 1)]
            results = [self._pair(c, link, array)]
            if parent >= 0:
                above = At("pull", self._pulls[c, parent], PULL * n)
                inputs.append(above)
                results.append(above)
            step = _inward(kinds[kind], n, articulated, parent >= 0)
            steps.add((kind, n, parent >= 0), inputs, results, step)
        return [*begin.sweeps(), *more.sweeps(), *self._at_chosen(), *steps.sweeps()]

    def along_coordinates(self, array: str) -> list[Sweep]:
        """Sweeps that replace the efforts of the rows about the axes of links by those along coordinates."""
        steps = Steps("turned")
        for number, first in enumerate(self._links.oriented):
            for c in self._at_links.get(first, ()):
                three = [self._pair(c, first + k, array) for k in range(3)]
                steps.add(three[0].width, [At("B", 9 * number, 9), *three], three, _turned)
        return steps.sweeps()

    # -- the Schur complement -----------------------------------------------------------------------------------------

    def factorize(self, array: str, weighted: bool, scales: str) -> list[Sweep]:
        """Sweeps that compute and factorize S from the efforts of the rows along the joints.

        weighted  whether the joints have the reciprocal inertias "inverse"; otherwise 1
        scales    name of the table of row scales
        """
        sums = Steps("sum")
        for link, here in self._at_links.items():
            weight = [At("inverse", link, 1)] if weighted else []
            for k, c in enumerate(here):
                for d in here[k:]:
                    target, turned = self.elimination.entry(c, d)
                    row, column = (d, c) if turned else (c, d)
                    pair = [self._pair(row, link, array), self._pair(column, link, array)]
                    sums.add((pair[0].width, pair[1].width), [*pair, *weight, target], [target], _summed)
        factor = self.elimination.factorization
        return [*self.cleared_matrix(), *sums.sweeps(), *self.regularized(scales), *factor]

    def cleared_matrix(self) -> list[Sweep]:
        """Sweep that sets S to zero."""
        return Steps.cleared("S", self.elimination.size)

    def regularized(self, scales: str) -> list[Sweep]:
        """Sweep that adds the regularization to the diagonal of S, and 1 for rows that are switched off.

        scales  name of the table of row scales
        """
        regular = Steps("regular")
        for c, block in enumerate(self.blocks):
            own, n = self.elimination.entry(c, c)[0], block.n_rows
            if not self._is_regular:
                if block.flag >= 0:
                    regular.add(n, [own, *self._flag(c)], [own], _idled(n))
                continue
            inputs = [own, At(scales, self.first_rows[c], n), *self._flag(c)]
            regular.add((n, block.flag >= 0), inputs, [own, self.rows(c, "added")], _regularized(n))
        return regular.sweeps()

    def multipliers(
        self, array: str, weighted: bool, lam: str, given: Sequence[str], rest: str = "rest"
    ) -> list[Sweep]:
        """Sweeps that compute the multipliers S y = J M^-1 r1 - r2, proximally refined.

        array  efforts of the rows along the joints
        lam    array of the result
        given  arrays whose difference, first minus second, is r2; or only the first
        rest   what is left of the right-hand side r1 at the joints; "" without r1
        """
        begin, sums = Steps("begin_b"), Steps("sum_b")
        for c in range(len(self.blocks)):
            begin.add(
                self.blocks[c].n_rows, [self.rows(c, each) for each in given], [self.rows(c, "b")], _negative_difference
            )
        for link, c in self._pairs if rest else ():
            inverse = [At("inverse", link, 1)] if weighted else []
            inputs = [self._pair(c, link, array), At(rest, link, 1), *inverse, self.rows(c, "b")]
            sums.add(self.blocks[c].n_rows, inputs, [self.rows(c, "b")], _added_to_b)
        return [*begin.sweeps(), *sums.sweeps(), *self.solved(lam)]

    def solved(self, lam: str) -> list[Sweep]:
        """Sweeps that solve S y = b, proximally refined, for the array `lam` of the multipliers y."""
        found = self._each("copied", ["b"], lam, lambda b: b)
        found += self.elimination.solve(lam)
        for _ in range(REFINEMENTS if self._is_regular else 0):
            found += self._each("copied", [lam], "before", lambda y: y)
            found += self._each("proximal", ["b", "added", lam], lam, lambda b, e, y: b + e * y)
            found += self.elimination.solve(lam)
        return found

    def _each(self, name: str, arrays: Sequence[str], result: str, step: Callable[..., ca.SX]) -> list[Sweep]:
        """Sweep over all rows."""
        steps = Steps(f"each_{name}")
        for row in range(self.n_rows):
            steps.add(0, [At(array, row, 1) for array in arrays], [At(result, row, 1)], lambda *x: [step(*x)])
        return steps.sweeps()

    def pushed(self, array: str, lam: str, target: str) -> list[Sweep]:
        """Sweep that subtracts the efforts of the multipliers from an array with a number per link."""
        steps = Steps("pushed")
        for link, c in self._pairs:
            at = At(target, link, 1)
            inputs = [self._pair(c, link, array), self.rows(c, lam), at]
            steps.add(self.blocks[c].n_rows, inputs, [at], lambda y, x, rest: [rest - ca.dot(y, x)])
        return steps.sweeps()

    def exerted(self, lam: str) -> list[Sweep]:
        """Sweeps that subtract the wrenches of the multipliers on the bodies from "wrench" (see `Links.records`)."""
        steps, chains = Steps("exerted"), {(c, end): chain for c, end, chain in self._chosen}
        for c, block in enumerate(self.blocks):
            for end, record in enumerate(block.records):
                at = At("wrench", 6 * record, 6)
                if (c, end) in chains:
                    at = At("wrench", 6 * chains[c, end].start, 6, self._chosen_number(c, end))
                inputs = [self._own(c, end), self.rows(c, lam), at]
                steps.add((block.n_rows, (c, end) in chains), inputs, [at], _exerted)
        return steps.sweeps()

    @property
    def prescribed(self) -> list[int]:
        """Indices of the blocks that prescribe motions, and so do work."""
        return [c for c, block in enumerate(self.blocks) if isinstance(block.constraint, PrescribedMotion)]

    def power_of_prescribed(self) -> list[Sweep]:
        """Sweeps that add the power -lam' J v of prescribed motions to "power"; the multipliers are in "lam"."""
        steps, power = Steps("prescribed"), At("power", 0, 1)
        for c in self.prescribed:
            block = self.blocks[c]
            for end, link in enumerate(block.ends):
                is_joint = end >= len(block.links)
                motion = At("v", link, 1) if is_joint else At("frame", FRAME * link + 12, 6)
                inputs = [self._own(c, end), motion, self.rows(c, "lam"), power]
                steps.add(is_joint, inputs, [power], _working)
        return steps.sweeps()

    def is_refined(self, least: bool) -> bool:
        """Whether the solution needs a last refinement."""
        return (self._least if least else self._mass).is_ill_conditioned

    def missing_of_links(self, lam: str, given: Sequence[str]) -> list[Sweep]:
        """Sweeps that compute "left", the residual J x - r2 of the rows, from the accelerations of links and joints."""
        begin, steps = [*self._segments.gathered("gain", 6), *self.begun_left(lam, given)], Steps("missing")
        for c, block in enumerate(self.blocks):
            n, left = block.n_rows, self.rows(c, "left")
            for end, link in enumerate(block.ends):
                is_joint = end >= len(block.links)
                motion = At("x", link, 1) if is_joint else At("gain", 6 * link, 6)
                steps.add((n, is_joint), [self._own(c, end), motion, left], [left], _missing(n, is_joint))
        return [*begin, *steps.sweeps()]

    def missing_of_coordinates(self, lam: str, given: Sequence[str]) -> list[Sweep]:
        """Sweeps that compute "left", the residual J x - r2 of the rows, from the accelerations "x" of coordinates."""
        begin, steps = self.begun_left(lam, given), Steps("missing_q")
        for link, c in self._pairs:
            inputs = [self._pair(c, link, "jac"), At("x", link, 1), self.rows(c, "left")]
            steps.add(self.blocks[c].n_rows, inputs, [inputs[-1]], lambda y, x, left: [left + y * x])
        return [*begin, *steps.sweeps()]

    def begun_left(self, lam: str, given: Sequence[str], sign: float = 1.0) -> list[Sweep]:
        """Sweep that sets "left" to -r2, less the multipliers of rows that are switched off.

        given  arrays whose difference is r2; sign: its sign
        """
        begin = Steps("begin_left")
        for c, block in enumerate(self.blocks):
            inputs = [self.rows(c, lam), *self._flag(c), *[self.rows(c, each) for each in given]]
            begin.add(
                (block.n_rows, block.flag >= 0), inputs, [self.rows(c, "left")], _begun_left(block.flag >= 0, sign)
            )
        return begin.sweeps()

    def small_left(self, lam: str) -> list[Sweep]:
        """Sweep that computes "left", the residual of the multipliers that the regularization leaves."""
        return self._each("left", ["added", lam, "before"], "left", lambda e, y, before: e * (y - before))

    def refined(self, lam: str) -> list[Sweep]:
        """Sweeps that compute the refinement "dlam" of multipliers from "left", and add it."""
        sums, scaled = Steps("gained"), Steps("length")
        total = At("sums", 0, 2)
        clear = Steps("clear_sums")
        clear.add(0, [], [total], _zeros(2))
        for row in range(self.n_rows):
            each = [At(array, row, 1) for array in ("left", "dlam", "added")]
            sums.add(0, [*each, total], [total], _gained)
            both = [At("dlam", row, 1), At(lam, row, 1)]
            scaled.add(0, [total, *both], both, _lengthened)
        copied = self._each("copied", ["left"], "dlam", lambda left: left)
        return [*copied, *self.elimination.solve("dlam"), *clear.sweeps(), *sums.sweeps(), *scaled.sweeps()]

    # -- other kernels ------------------------------------------------------------------------------------------------

    def jacobian(self, n_q: int) -> list[Sweep]:
        """Sweeps that write the results "J" (n_r, n_q) and "gamma"."""
        steps = Steps("entered")
        for link, c in self._pairs:
            at = At("J", link * self.n_rows + self.first_rows[c], self.blocks[c].n_rows)
            steps.add(at.width, [self._pair(c, link, "jac")], [at], lambda y: [y])
        gamma = self._each("copied", ["target"], "gamma", lambda x: x)
        return [*Steps.cleared("J", self.n_rows * n_q), *steps.sweeps(), *gamma]

    def residual_of_solution(self) -> list[Sweep]:
        """Sweeps that write the results "missing" and "whole" of the kernel `solve_residual`."""
        begin, steps = Steps("begin_residual"), Steps("residual")
        for c, block in enumerate(self.blocks):
            both = [self.rows(c, "left"), self.rows(c, "whole_rows")]
            inputs = [self.rows(c, "target"), self.rows(c, "correction"), *self._flag(c)]
            begin.add((block.n_rows, block.flag >= 0), inputs, both, _begun_residual)
        for link, c in self._pairs:
            both = [self.rows(c, "left"), self.rows(c, "whole_rows")]
            steps.add(both[0].width, [self._pair(c, link, "jac"), At("a", link, 1), *both], both, _residual)
        return [*begin.sweeps(), *steps.sweeps(), *self.largest_residual()]

    def largest_residual(self) -> list[Sweep]:
        """Sweeps that write the largest entries of "left" and "whole_rows" to the results "missing" and "whole"."""
        most, results = Steps("largest"), [At("missing", 0, 1), At("whole", 0, 1)]
        clear = Steps("clear_results")
        clear.add(0, [], results, lambda: [ca.SX(0), ca.SX(0)])
        for row in range(self.n_rows):
            most.add(0, [At("left", row, 1), At("whole_rows", row, 1), *results], results, _largest)
        return [*clear.sweeps(), *most.sweeps()]

    @property
    def pivot_rows(self) -> list[int]:
        """Row to which each reciprocal pivot belongs; empty if the rows keep their rank."""
        return self.elimination.rows if self._is_regular else []

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name of the constraint of each row."""
        return tuple(block.constraint.name for block in self.blocks for _ in range(block.n_rows))

    @property
    def lengths(self) -> tuple[bool, ...]:
        """Whether each row is a length."""
        return tuple(block.lengths for block in self.blocks for _ in range(block.n_rows))

    @property
    def n_holonomic(self) -> int:
        """Number of holonomic rows."""
        return sum(block.kind.Phi.numel() for block in self.blocks)


def _zeros(n: int) -> Callable[[], list[ca.SX]]:
    return lambda: [ca.SX.zeros(n)]


def _inward(kind: Kind, n: int, articulated: bool, has_parent: bool) -> Callable[..., list[ca.SX]]:
    def step(pull: ca.SX, axis: ca.SX, r: ca.SX, *rest: ca.SX) -> list[ca.SX]:
        others, parts = list(rest), kind.parts(axis)
        V, inverse = (others.pop(0), others.pop(0)) if articulated else (ca.SX.zeros(6), ca.SX(0))
        efforts, passed = list[ca.SX](), list[ca.SX]()
        for k in range(n):
            moment, force, effort = pull[PULL * k : PULL * k + 3], pull[PULL * k + 3 : PULL * k + 6], pull[PULL * k + 6]
            efforts.append(ca.dot(parts[0], moment) + ca.dot(parts[1], force) + effort)
            wrench = ca.vertcat(moment + ca.cross(r, force), force) - V * (efforts[-1] * inverse)
            passed += [wrench, ca.SX(0)]
        return [ca.vertcat(*efforts), *([others[0] + ca.vertcat(*passed)] if has_parent else [])]

    return step


def _turned(B: ca.SX, *three: ca.SX) -> list[ca.SX]:
    turned = ca.horzcat(*three) @ ca.reshape(B, 3, 3)
    return [turned[:, k] for k in range(3)]


def _summed(y: ca.SX, z: ca.SX, *rest: ca.SX) -> list[ca.SX]:
    weighted = z * rest[0] if len(rest) > 1 else z
    return [rest[-1] + ca.vec(y @ weighted.T)]


def _regularized(n: int) -> Callable[..., list[ca.SX]]:
    def step(own: ca.SX, scales: ca.SX, *flag: ca.SX) -> list[ca.SX]:
        S = ca.reshape(ca.SX(own), n, n)
        added = [EPSILON * ca.fmax(S[k, k], scales[k]) for k in range(n)]
        for k in range(n):
            S[k, k] = S[k, k] + added[k] + (1 - flag[0] if flag else 0)
        return [ca.vec(S), ca.vertcat(*added)]

    return step


def _idled(n: int) -> Callable[..., list[ca.SX]]:
    return lambda own, flag: [own + ca.vec(ca.SX.eye(n)) * (1 - flag)]


def _negative_difference(first: ca.SX, *second: ca.SX) -> list[ca.SX]:
    return [second[0] - first if second else -first]


def _added_to_b(y: ca.SX, rest: ca.SX, *others: ca.SX) -> list[ca.SX]:
    free = rest * others[0] if len(others) > 1 else rest
    return [others[-1] + y * free]


def _missing(n: int, is_joint: bool) -> Callable[..., list[ca.SX]]:
    def step(own: ca.SX, motion: ca.SX, left: ca.SX) -> list[ca.SX]:
        rows = ca.reshape(own, PULL, n)
        return [left + (rows[6, :].T * motion if is_joint else rows[:6, :].T @ motion)]

    return step


def _exerted(own: ca.SX, lam: ca.SX, wrench: ca.SX) -> list[ca.SX]:
    """Wrench that is needed, from the rows J of the Jacobian at a link: the force of the rows is -J' lam."""
    return [wrench + ca.reshape(own, PULL, lam.numel())[:6, :] @ lam]


def _working(own: ca.SX, motion: ca.SX, lam: ca.SX, power: ca.SX) -> list[ca.SX]:
    along = own[:6] if motion.numel() == 6 else own[6]
    return [power - ca.dot(along, motion) * lam]


def _begun_left(is_switched: bool, sign: float) -> Callable[..., list[ca.SX]]:
    def step(y: ca.SX, *rest: ca.SX) -> list[ca.SX]:
        idle, given = (1 - rest[0], rest[1:]) if is_switched else (ca.SX(0), rest)
        r2 = given[0] - given[1] if len(given) > 1 else given[0]
        return [-sign * r2 - idle * y]

    return step


def _gained(left: ca.SX, dy: ca.SX, added: ca.SX, sums: ca.SX) -> list[ca.SX]:
    return [sums + ca.vertcat(left * dy, added * dy * dy)]


def _lengthened(sums: ca.SX, dy: ca.SX, y: ca.SX) -> list[ca.SX]:
    gained, held = sums[0] + 1e-280, sums[1]  # the quotient stays finite if the residual is zero
    scaled = dy * (gained / ca.fmax(gained - held, gained / LONGEST))
    return [scaled, y + scaled]


def _begun_residual(target: ca.SX, correction: ca.SX, *flag: ca.SX) -> list[ca.SX]:
    U = correction * flag[0] if flag else correction
    return [U - target, ca.fabs(U) + ca.fabs(target)]


def _residual(y: ca.SX, a: ca.SX, left: ca.SX, whole: ca.SX) -> list[ca.SX]:
    return [left + y * a, whole + ca.fabs(y) * (ca.fabs(a) + 1)]


def _largest(left: ca.SX, whole: ca.SX, missing: ca.SX, total: ca.SX) -> list[ca.SX]:
    return [ca.fmax(missing, ca.fabs(left)), ca.fmax(total, whole)]

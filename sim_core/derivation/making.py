"""CasADi functions of the kernels, made from expressions.

If the equations of a kernel use lookup tables, the required rows of these tables are additional inputs of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from sim_core.derivation.beams import Lookup
from sim_core.derivation.symbols import Lifted, Symbols
from sim_core.kernels.program import LIFTED, LIFTED_VALUES


def dense_function(
    name: str, inputs: dict[str, ca.SX], results: list[ca.SX], lifted: Lifted | None = None
) -> ca.Function:
    """CasADi function of named inputs with dense results, as kernels require.

    lifted  subexpressions that symbols replace in the results (see `Lifted`); the symbols become the function's last
            input, and the subexpressions its last result
    """
    results, names = [ca.densify(result) for result in results], [f"result_{k}" for k in range(len(results))]
    places = lifted.needed_by(results) if lifted is not None else []
    if lifted is not None and places:
        values = ca.SX.zeros(len(lifted.values))
        for place in places:
            values[place] = lifted.values[place]
        inputs = inputs | {LIFTED: ca.vertcat(*lifted.symbols)}
        results, names = [*results, values], [*names, LIFTED_VALUES]
    return ca.Function(name, list(inputs.values()), results, list(inputs), names)


def arguments(symbols: Symbols, **in_place_of_u: ca.SX) -> dict[str, ca.SX]:
    """{name: symbols} of the inputs t, q, v, u, p that most kernels have.

    For kernels with another input in place of u, a keyword argument gives its name and symbols, such as tau=tau.
    """
    fourth = in_place_of_u or {"u": symbols.u}
    return {"t": symbols.t, "q": symbols.q, "v": symbols.v, **fourth, "p": symbols.p}


@dataclass
class KernelMaker:
    """Collects the kernel functions of one mechanism.

    rewrite  function that rewrites an expression of all coordinates in terms of those that the mechanism's formulation
             keeps; "partitioned" formulations eliminate one coordinate
    uses     {function: names of the lookup tables whose rows are the last inputs of the function}
    """

    symbols: Symbols
    rewrite: Callable[[ca.SX], ca.SX]
    functions: dict[str, ca.Function] = field(default_factory=dict)
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def lookups(self) -> dict[str, Lookup]:
        """{contact: table lookup} of the mechanism's beam contacts."""
        return {name: lookup for name, (_, lookup) in self.symbols.contacts.items()}

    def add(self, name: str, inputs: dict[str, ca.SX], results: list[ca.SX]) -> None:
        """Add a kernel function with this name, from its named inputs and result expressions."""
        results = [self.rewrite(result) for result in results]
        needed = tuple(x for x, lookup in self.lookups.items() if ca.depends_on(ca.veccat(*results), lookup.row))
        inputs = inputs | {f"row_{x}": self.lookups[x].row for x in needed}
        self.functions[name] = dense_function(name.rpartition(".")[2], inputs, results, self.symbols.lifted)
        if needed:
            self.uses[name] = needed

    def add_all(self, prefix: str, kernels: dict[str, tuple[dict[str, ca.SX], list[ca.SX]]]) -> None:
        """Add kernel functions whose names begin with `prefix`, the name of a constraint mode."""
        for name, (inputs, results) in kernels.items():
            self.add(f"{prefix}.{name}", inputs, results)

    def tables(self) -> dict[str, tuple[ca.Function, np.ndarray]]:
        """{contact: (function that returns the row index, lookup table)} of the mechanism's beam contacts."""
        inputs = arguments(self.symbols)
        return {
            name: (dense_function("place", inputs, [self.rewrite(lookup.place)]), lookup.table)
            for name, lookup in self.lookups.items()
        }

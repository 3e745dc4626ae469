"""Square roots whose derivative at zero is finite.

The force of a Hertzian contact or stop at the depth x is k x sqrt(x), whose derivative at x = 0 is 0. Algorithmic
differentiation computes it as infinity times zero.
"""

from __future__ import annotations

import casadi as ca

LEAST = 1e-300  # smaller arguments of a root are replaced by it; its root is 1e-150


def with_finite_slopes(expressions: list[ca.SX]) -> list[ca.SX]:
    """The expressions with sqrt(max(x, LEAST)) in place of sqrt(x)."""
    symbols = ca.symvar(ca.veccat(*expressions))
    function = ca.Function("expressions", [ca.vertcat(*symbols)], expressions)
    work = dict[int, ca.SX]()
    found = [ca.SX(expression) for expression in expressions]
    for k in range(function.n_instructions()):
        operation, to, of = function.instruction_id(k), function.instruction_output(k), function.instruction_input(k)
        if operation == ca.OP_OUTPUT:
            found[to[0]].nz[to[1]] = work[of[0]]
        elif operation == ca.OP_INPUT:
            work[to[0]] = symbols[of[1]]
        elif operation == ca.OP_CONST:
            work[to[0]] = ca.SX(function.instruction_constant(k))
        elif operation == ca.OP_SQRT:
            work[to[0]] = ca.sqrt(ca.fmax(work[of[0]], LEAST))
        elif len(of) == 1:
            work[to[0]] = ca.SX.unary(operation, work[of[0]])
        else:
            work[to[0]] = ca.SX.binary(operation, work[of[0]], work[of[1]])
    return found

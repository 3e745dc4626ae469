"""Readable equations of motion of a mechanism, with the names that the mechanism's description uses.

The equations are M a + J' lam = f and J a = gamma, with the mass matrix M, the accelerations a, the Jacobian J of the
constraints, its transpose J' and the constraint multipliers lam.

The SymPy expressions are made from the same expression graph as the compiled kernels. The equations of small systems
are simplified. In the equations of larger systems, symbols stand for values that occur several times.
[Schiehlen1993, sec. 2.4]
"""

from __future__ import annotations

import itertools
import keyword
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
import sympy
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from robots.export.native import identifier
from sim_core.derivation.equations import derive
from sim_core.kernels.c_source import Signature, c_function, number
from sim_core.kernels.program import Program, program_of
from sim_core.mechanism import Mechanism

FORMATS = ("text", "latex", "sympy", "c")
READABLE = 6  # coordinates without those that constraint rows determine, up to which equations are written out
MOST_OPERATIONS = 1000  # operations up to which equations of more than READABLE coordinates are written out
SIMPLIFIED = 100  # values of the graph up to which the equations are simplified
DIGITS = 10  # significant digits of text and LaTeX; SymPy and C have all
PARTS = ("M", "f", "J", "gamma")
INPUTS = ("t", "q", "v", "u", "p")
# Names with another meaning in the format "sympy": keywords, the file's own names, and SymPy's in its expressions. A
# symbol whose name in the description is one of them gets a trailing underscore.
OF_SYMPY = """Abs And E Eq Ge Gt I Le Lt Matrix Max Min Mod Ne Not Or Piecewise Pow Symbol acos acosh asin asinh atan
    atan2 atanh ceiling cos cosh exp false floor log nan oo pi sign sin sinh sqrt symbols tan tanh true zoo"""
RESERVED = frozenset([*keyword.kwlist, *PARTS, *INPUTS, "named", *OF_SYMPY.split()])
CASES = (sympy.Abs, sympy.Max, sympy.Min, sympy.Piecewise, sympy.floor, sympy.sign)


@dataclass(frozen=True)
class ShapeTable:
    """Shape functions of a beam at a contact point: a table of polynomial coefficients, with one row per element.

    name    name of the contact
    place   expression graph of a number that, rounded down, is the index of the row at the contact point
    values  (number of rows, width) numbers
    row     symbols (width,) that stand in the equations for the numbers of this row
    """

    name: str
    place: Program
    values: np.ndarray
    row: tuple[sympy.Symbol, ...]


@dataclass(frozen=True)
class Equations:
    """Equations of motion M a + J' lam = f, J a = gamma of a mechanism, as SymPy expressions.

    M is the mass matrix, a are the accelerations, J is the Jacobian of the constraints, J' its transpose, and lam are
    the constraint multipliers.

    inputs       {"t", "q", "v", "u", "p": symbols} of time, coordinates, velocities, actuator efforts and tunables
    coordinates  names of the coordinates in the description
    rows         names of the constraint rows
    named        (symbol, expression) of each value that occurs several times, in order; empty for simplified equations
    tables       shape functions of the beams, on which the equations depend too
    """

    robot: str
    coordinates: tuple[str, ...]
    rows: tuple[str, ...]
    inputs: dict[str, tuple[sympy.Symbol, ...]]
    named: tuple[tuple[sympy.Symbol, sympy.Expr], ...]
    M: sympy.Matrix
    f: sympy.Matrix
    J: sympy.Matrix
    gamma: sympy.Matrix
    program: Program
    tables: tuple[ShapeTable, ...] = ()

    @property
    def arguments(self) -> list[sympy.Symbol]:
        """All symbols on which the equations depend, in the order t, q, v, u, p, then those of the rows of `tables`."""
        rows = [table.row for table in self.tables]
        return [symbol for symbols in [*self.inputs.values(), *rows] for symbol in symbols]

    def function(self) -> Any:
        """Numerical function of `arguments` that returns the arrays M, f, J and gamma."""

        def shared(_: Any) -> Any:
            return list(self.named), [self.M, self.f, self.J, self.gamma]

        return sympy.lambdify(self.arguments, [self.M, self.f, self.J, self.gamma], "numpy", cse=shared)


def equations(mechanism: Mechanism) -> Equations:
    """Equations of motion of a mechanism in the coordinates of its description, with all constraints active."""
    derivation = derive(mechanism)
    first = mechanism.constraint_modes[0].name
    kernel = f"{first}.terms"
    program = program_of(derivation.functions[kernel])
    coordinates = tuple(map(str, derivation.facts["coordinate_names"]))  # type: ignore[call-overload]
    rows = tuple(map(str, derivation.facts["row_names"]))  # type: ignore[call-overload]
    taken: set[str] = set()
    names = [_unique(name, taken, ("_dot", "_ddot")) for name in coordinates]
    inputs = {
        "t": ("t",),
        "q": tuple(names),
        "v": tuple(f"{name}_dot" for name in names),
        "u": tuple(_unique(f"{actuator.name}_effort", taken) for actuator in mechanism.actuators),
        "p": tuple(_unique(name, taken) for name in mechanism.parameter_names),
    }
    symbols = {key: tuple(sympy.Symbol(name, real=True) for name in each) for key, each in inputs.items()}
    tables = tuple(_shape_table(name, *derivation.tables[name], taken) for name in derivation.uses.get(kernel, ()))
    simple = len(program.nodes) <= SIMPLIFIED
    values, named = _values(program, symbols | {f"row_{table.name}": table.row for table in tables}, not simple)
    n, n_rows = len(coordinates), len(rows)
    shapes = {"M": (n, n), "f": (n, 1), "J": (n_rows, n), "gamma": (n_rows, 1)}
    parts = {}
    for result, (name, (height, width)) in enumerate(shapes.items()):
        cells = [values[program.results[result, i + height * k]] for i in range(height) for k in range(width)]
        parts[name] = sympy.Matrix(height, width, [_decimal(_simplified(cell) if simple else cell) for cell in cells])
    shared = tuple((symbol, _decimal(value)) for symbol, value in named)
    return Equations(mechanism.name, coordinates, rows, symbols, shared, **parts, program=program, tables=tables)


def _shape_table(name: str, place: ca.Function, values: np.ndarray, taken: set[str]) -> ShapeTable:
    symbol = _unique(f"{name}_shape", taken)
    row = tuple(sympy.Symbol(f"{symbol}_{k}", real=True) for k in range(values.shape[1]))
    return ShapeTable(name, program_of(place), values, row)


def _unique(name: str, taken: set[str], endings: tuple[str, ...] = ()) -> str:
    """Return an identifier, made from `name`, that no other symbol has.

    Underscores are appended while the identifier is in RESERVED (lambda becomes lambda_), looks like lam_1, or is in
    `taken`, alone or followed by one of `endings`. Adds the result to `taken`, alone and followed by each ending.
    """
    found = identifier(name)
    while taken & {found, *(found + end for end in endings)} or found in RESERVED or re.fullmatch(r"lam_\d+", found):
        found += "_"
    taken |= {found, *(found + end for end in endings)}
    return found


def _values(
    program: Program, inputs: dict[str, tuple[sympy.Symbol, ...]], naming: bool
) -> tuple[list[sympy.Expr], list[tuple[sympy.Symbol, sympy.Expr]]]:
    """Convert an expression graph to SymPy. Returns (expressions, named).

    expressions  the SymPy expression of each node of the graph, in the order of the nodes
    named        (symbol, expression) of each value that occurs several times; the symbol stands for the value

    naming  whether symbols stand for values that occur several times; otherwise `named` is empty
    """
    taken = {str(symbol) for symbols in inputs.values() for symbol in symbols}
    fresh = (name for name in map("x{}".format, itertools.count()) if name not in taken)
    uses = Counter(arg for node in program.nodes for arg in node.args) + Counter(program.results.values())
    values: list[sympy.Expr] = []
    named: list[tuple[sympy.Symbol, sympy.Expr]] = []
    for index, node in enumerate(program.nodes):
        if node.op == "const":
            value = _number(node.value)
        elif node.op == "input":
            value = inputs[program.input_names[node.place[0]]][node.place[1]]
        else:
            value = _operation(node.op, [values[arg] for arg in node.args])
            if naming and uses[index] > 1 and not value.is_Atom and not (-value).is_Atom:
                symbol = sympy.Symbol(next(fresh), real=True)
                named.append((symbol, value))
                value = symbol
        values.append(value)
    return values, named


def _number(value: float) -> sympy.Expr:
    """A floating-point number as an exact fraction, so that equal terms cancel."""
    return sympy.Integer(int(value)) if value == int(value) else sympy.Rational(value)


def _decimal(cell: sympy.Expr) -> sympy.Expr:
    """Return the expression with each fraction replaced by the nearest float64; fractions of small integers stay."""
    plain = {x: sympy.Float(float(x)) for x in cell.atoms(sympy.Rational) if x.q >= 10 or abs(x.p) >= 10_000}
    return cell.xreplace({x: value for x, value in plain.items() if not x.is_Integer})


def _operation(op: str, args: list[sympy.Expr]) -> sympy.Expr:
    calls: dict[str, Any] = {
        "fadd": lambda a, b: a + b,
        "fsub": lambda a, b: a - b,
        "fmul": lambda a, b: a * b,
        "fdiv": lambda a, b: a / b,
        "fneg": lambda a: -a,
        "lift": lambda a: a,
        "sign": sympy.sign,
        "if": lambda test, value: sympy.Piecewise((value, sympy.Ne(test, 0)), (0, True)),
        "olt": lambda a, b: sympy.Piecewise((1, a < b), (0, True)),
        "ole": lambda a, b: sympy.Piecewise((1, a <= b), (0, True)),
        "oeq": lambda a, b: sympy.Piecewise((1, sympy.Eq(a, b)), (0, True)),
        "une": lambda a, b: sympy.Piecewise((1, sympy.Ne(a, b)), (0, True)),
        "llvm.sqrt": sympy.sqrt,
        "llvm.fabs": sympy.Abs,
        "llvm.floor": sympy.floor,
        "llvm.minnum": sympy.Min,
        "llvm.maxnum": sympy.Max,
        "llvm.copysign": lambda a, b: sympy.Abs(a) * sympy.Piecewise((1, b >= 0), (-1, True)),
        "pow": sympy.Pow,
    }
    return calls[op](*args) if op in calls else getattr(sympy, op)(*args)


def _simplified(cell: sympy.Expr) -> sympy.Expr:
    """Simplify an expression: return the one of its forms that has the fewest operations.

    The forms are the expanded expression and, if it contains sines or cosines, the results of SymPy's `trigsimp` and
    `fu`. `fu` is used only for short expressions. Terms with minima, maxima or cases, such as the forces of stops, stay
    as they are: expanded, they would lose digits to cancellation.
    """
    cased: dict[sympy.Expr, sympy.Expr] = {}
    plain = sympy.expand(_without_cases(cell, cased))
    if plain.has(sympy.sin, sympy.cos):
        joined = sympy.expand(sympy.trigsimp(plain))
        reduced = sympy.expand(sympy.fu(plain)) if sympy.count_ops(plain) < 60 else joined
        plain = min((joined, reduced, plain), key=sympy.count_ops)
    return plain.xreplace(cased)


def _without_cases(cell: sympy.Expr, cased: dict[sympy.Expr, sympy.Expr]) -> sympy.Expr:
    """Return the expression with a symbol in place of each term that has a case distinction, such as a minimum.

    Adds {symbol: term} to `cased`.
    """
    if not cell.has(*CASES):
        return cell
    number, rest = cell.as_coeff_Mul()
    if rest.is_Add:
        return sympy.Add(*(_without_cases(number * term, cased) for term in rest.args))
    symbol = sympy.Dummy()
    cased[symbol] = cell
    return symbol


# -- writing --------------------------------------------------------------------------------------------------------


class _Exact(StrPrinter):  # type: ignore[misc]
    """SymPy printer that writes each float with the fewest digits that read back as the same float64."""

    def _print_Float(self, number: Any) -> str:
        return repr(float(number))


class _Text(StrPrinter):  # type: ignore[misc]
    """SymPy printer for text: writes floats with DIGITS significant digits."""

    def _print_Float(self, number: Any) -> str:
        return f"{float(number):.{DIGITS}g}"


class _Latex(LatexPrinter):  # type: ignore[misc]
    """SymPy printer for LaTeX: floats as in _Text, upright names, and velocities as dotted coordinates."""

    def _print_Float(self, number: Any) -> str:
        digits, _, power = f"{float(number):.{DIGITS}g}".partition("e")
        return rf"{digits} \cdot 10^{{{int(power)}}}" if power else digits

    def _print_Symbol(self, symbol: Any, style: str = "plain") -> str:
        name, ends = symbol.name, {"_dot": r"\dot{%s}", "_ddot": r"\ddot{%s}"}
        for end, form in ends.items():
            if name.endswith(end):
                return form % self._upright(name.removesuffix(end))
        return self._upright(name)

    def _upright(self, name: str) -> str:
        return rf"\mathrm{{{name}}}".replace("_", r"\_") if len(name) > 1 else name


def written(mechanism: Mechanism, form: str) -> str:
    """The equations of a mechanism as text in one of the formats FORMATS.

    The format "c" always gives the whole equations. For a mechanism with too many coordinates or operations (see
    `is_readable`), the other formats give sizes and sparsity instead.
    """
    found = equations(mechanism)
    if form == "c":
        return _as_c(found)
    if not is_readable(found):
        mark = {"sympy": "# ", "latex": "% "}.get(form, "")  # comments, so that the text still is of this format
        return "\n".join(f"{mark}{line}".rstrip() for line in _structure(found).splitlines())
    return {"text": _as_text, "latex": _as_latex, "sympy": _as_sympy}[form](found)


def is_readable(found: Equations) -> bool:
    """Whether the equations are short enough to be written out.

    They are short enough if they have at most READABLE coordinates. They also are if they have at most MOST_OPERATIONS
    operations and at most READABLE coordinates more than constraint rows. Equations with shape functions of beams
    (`tables`) are never written out.
    """
    if found.tables:
        return False
    n, rows = len(found.coordinates), len(found.rows)
    return n <= READABLE or (n - rows <= READABLE and _operations(found).total() <= MOST_OPERATIONS)


def _operations(found: Equations) -> Counter[str]:
    """Number of operations of each kind in the expression graph of M, f, J and gamma."""
    return Counter(node.op for node in found.program.nodes if node.op not in ("const", "input", "lift"))


def _row_names(found: Equations) -> list[str]:
    """Names of the constraint rows, such as "rod", or "pin, row 1 of 2" for a constraint of several rows."""
    total, seen = Counter(found.rows), Counter[str]()
    names = []
    for row in found.rows:
        seen[row] += 1
        names.append(row if total[row] == 1 else f"{row}, row {seen[row]} of {total[row]}")
    return names


def _accelerations(found: Equations) -> tuple[list[sympy.Symbol], list[sympy.Symbol]]:
    a = [sympy.Symbol(f"{name}_ddot", real=True) for name in found.inputs["q"]]
    return a, [sympy.Symbol(f"lam_{index + 1}", real=True) for index in range(len(found.rows))]


def _rows_of(found: Equations) -> list[tuple[str, list[sympy.Expr], sympy.Expr]]:
    """[(name, terms of the left side, right side)] of all equations of motion, followed by all constraint rows."""
    a, lam = _accelerations(found)
    lines = []
    for i, name in enumerate(found.coordinates):
        left = [found.M[i, k] * a[k] for k in range(len(a))] + [found.J[r, i] * lam[r] for r in range(len(lam))]
        lines.append((name, [term for term in left if term != 0], found.f[i]))
    for r, name in enumerate(_row_names(found)):
        left = [found.J[r, k] * a[k] for k in range(len(a))]
        lines.append((f"constraint {name}", [term for term in left if term != 0], found.gamma[r]))
    return lines


def _as_text(found: Equations) -> str:
    write = _Text().doprint
    lines = [_head(found), ""]
    if found.named:
        lines += ["values that occur several times", *[f"  {x} = {write(value)}" for x, value in found.named], ""]
    for name, left, right in _rows_of(found):
        lines += [name, f"  {' + '.join(map(write, left)) or 0} = {write(right)}".replace("+ -", "- ")]
    if found.rows:
        lines += ["", "The reaction forces of the constraints are -J' lam, with these multipliers:"]
        lines += [f"  lam_{index}  {name}" for index, name in enumerate(_row_names(found), start=1)]
    return "\n".join(lines)


def _head(found: Equations) -> str:
    n, rows = len(found.coordinates), len(found.rows)
    head = f"{found.robot}: {n} coordinate{'s' * (n != 1)}, {rows} constraint row{'s' * (rows != 1)}; M a + J' lam = f"
    given = {key: symbols for key, symbols in found.inputs.items() if key in "up" and symbols}
    words = {"u": "actuator efforts", "p": "parameters"}
    return "\n".join([head, *[f"{words[key]}: {', '.join(map(str, each))}" for key, each in given.items()]])


def _as_latex(found: Equations) -> str:
    write = _Latex().doprint
    lines = [r"\begin{align}"]
    lines += [rf"  {write(x)} &= {write(value)} \\" for x, value in found.named]
    for _, left, right in _rows_of(found):
        total = " + ".join(map(write, left)).replace("+ -", "- ") or "0"
        lines.append(rf"  {total} &= {write(right)} \\")
    lines[-1] = lines[-1].removesuffix(r" \\")
    return "\n".join([*lines, r"\end{align}"])


def _as_sympy(found: Equations) -> str:
    write = _Exact().doprint
    lines = [f'"""{_head(found).partition(chr(10))[0]}, J a = gamma."""', "", "from sympy import *", ""]
    for key, symbols in found.inputs.items():
        listed = ", ".join(map(str, symbols))
        if key == "t":
            lines.append("t = Symbol('t', real=True)")
        elif not symbols:
            lines.append(f"{key} = ()")
        else:
            lines.append(f"{key} = {listed}{',' * (len(symbols) == 1)} = symbols('{listed},', real=True)")
    lines += ["", "named = []"]
    for x, value in found.named:
        lines += [f"{x} = Symbol('{x}', real=True)", f"named.append(({x}, {write(value)}))"]
    for part in PARTS:
        matrix = getattr(found, part)
        cells = ", ".join(write(cell) for cell in matrix)
        lines.append(f"{part} = Matrix({matrix.rows}, {matrix.cols}, [{cells}])")
    return "\n".join(lines)


def _as_c(found: Equations) -> str:
    name = f"{identifier(found.robot)}_terms"
    outputs = {index: part for index, part in enumerate(PARTS) if found.program.result_sizes[index]}
    rows = {f"row_{table.name}": f"row_{identifier(table.name)}" for table in found.tables}
    inputs = {
        index: rows.get(x, x) for index, x in enumerate(found.program.input_names) if x in found.inputs or x in rows
    }
    signature = Signature(f"{name}_at" if rows else name, inputs, outputs)
    about = [_head(found).partition("\n")[0], "J a = gamma; matrices column by column"]
    about += [f"q[{k}], v[{k}]: {coordinate}" for k, coordinate in enumerate(found.coordinates)]
    about += [f"row {k} of J and gamma: {row}" for k, row in enumerate(_row_names(found))]
    about += [f"u[{k}]: {symbol}" for k, symbol in enumerate(found.inputs["u"])]
    about += [f"p[{k}]: {symbol}" for k, symbol in enumerate(found.inputs["p"])]
    about += [f"table {table.name}: shape functions of the beam at this contact, by element" for table in found.tables]
    source = ["/*", *[f" * {line}" for line in about], " */", "#include <math.h>", ""]
    if not found.tables:
        return "\n".join([*source, c_function(found.program, signature)])
    for table in found.tables:
        source += [*_table_in_c(table, name), ""]
    source += [f"static {c_function(found.program, signature)}", ""]
    plain = Signature(name, {k: x for k, x in inputs.items() if x in found.inputs}, outputs)
    looked_up = [f"{name}_{row}({', '.join(INPUTS)})" if row in rows.values() else row for row in inputs.values()]
    call = f"    {signature.name}({', '.join([*looked_up, *outputs.values()])});"
    return "\n".join([*source, plain.prototype(), "{", call, "}"])


def _table_in_c(table: ShapeTable, name: str) -> list[str]:
    """C lines of a table, and of a function that returns its row; at a point beside the beam, a row of NaN."""
    row = f"{name}_row_{identifier(table.name)}"
    count, width = table.values.shape
    place = Signature(f"{row}_place", dict(enumerate(table.place.input_names)), {0: "place"})
    numbers = [f"    {{{', '.join(map(number, values))}}}," for values in table.values.tolist()]
    arguments = place.prototype().partition("(")[2].removesuffix(", double *place)")
    return [
        f"static {c_function(table.place, place)}",
        "",
        f"static const double *{row}({arguments})",
        "{",
        f"    static const double rows[{count}][{width}] = {{",
        *numbers,
        "    };",
        f"    static double beside[{width}];",
        "    double at;",
        "    int k;",
        f"    {place.name}({', '.join(place.inputs.values())}, &at);",
        f"    if (at >= 0.0 && at <= {float(count)})",
        f"        return rows[at < {float(count)} ? (int)at : {count - 1}];",
        f"    for (k = 0; k < {width}; k++)",
        "        beside[k] = NAN;",
        "    return beside;",
        "}",
    ]


def _structure(found: Equations) -> str:
    n, ops = len(found.coordinates), _operations(found)
    size = f"{n} coordinates, {ops.total()} operations"
    why = f"too large to read: {size}"
    if found.tables:
        why = f"not written out, because the beam's shape functions are tables: {size}"
    lines = [_head(found), "", f"{why}; --format c writes the equations as C source", ""]
    for part in ("M", "J"):
        matrix = getattr(found, part)
        filled = sum(cell != 0 for cell in matrix)
        lines.append(f"{part}: {matrix.rows} x {matrix.cols}, {filled} entries that are not zero")
    angles = ops["sin"] + ops["cos"]
    lines += [f"operations of M, f, J and gamma: {ops.total()}, of which {angles} sines and cosines", "", "mass matrix"]
    for i, name in enumerate(found.coordinates):
        lines.append(f"  {''.join('x' if found.M[i, k] != 0 else '.' for k in range(n))}  {name}")
    return "\n".join(lines)

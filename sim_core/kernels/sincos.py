"""Sine and cosine of a vector of angles at once, as LLVM IR text.

A multiple of pi/2 is subtracted from each angle; pi/2 is represented as a sum of three numbers, of which the first two
have at most 33 bits [CodyWaite1980]. The polynomials on [-pi/4, pi/4] are those of [Fdlibm]. The error is below 1 ulp
for |x| <= LARGEST. If an angle is larger, the C library computes sine and cosine of all angles of the vector. With
`each_alone`, the C library computes those of the larger angles only; the values of an angle then do not depend on the
other angles.

`fused_definitions` defines functions of the same names with fused multiply-add, which need half as many operations and
are faster. Their absolute error is below FUSED_ERROR, and they always treat each angle alone.
"""

from __future__ import annotations

import struct

LARGEST = 524288.0  # 2^19: the quotient by pi/2 has at most 20 bits, so that its products below are exact
TO_TURNS = 6.36619772367581382433e-01  # 2 / pi
PARTS = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)  # pi/2 in 33-bit pieces
ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest whole number in the lowest bits
SINE = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
COSINE = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)
PI_HALVES = (1.57079632679489655800e00, 6.12323399573676603587e-17)  # pi/2 as a sum of two doubles
FUSED_ERROR = 1.5e-16


def double(value: float) -> str:
    """LLVM literal of a double that has exactly this value."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def splat(lanes: int, value: float) -> str:
    """LLVM literal of a vector of `lanes` doubles, all equal to `value`."""
    return "<" + ", ".join([f"double {double(value)}"] * lanes) + ">"


def definitions(lanes: int, each_alone: bool = False) -> str:
    """LLVM IR of three functions of a vector x of N = `lanes` angles.

    `@sincos_N(x)` returns {sin, cos} for |x| <= LARGEST, `@sincos_any_N(x)` for every x, and `@is_large_N(x)` whether
    some |x| > LARGEST.

    each_alone  if some angles are larger than LARGEST, whether `@sincos_any_N` computes the others as `@sincos_N` does;
                otherwise the C library computes all angles
    """
    return "\n\n".join([_is_large(lanes), _fast(lanes), _selected(lanes) if each_alone else _library(lanes)])


def _is_large(lanes: int) -> str:
    real, flags = f"<{lanes} x double>", f"<{lanes} x i1>"
    return f"""define private i1 @is_large_{lanes}({real} %x) alwaysinline nounwind {{
  %size = call {real} @llvm.fabs.v{lanes}f64({real} %x)
  %flags = fcmp ogt {real} %size, {splat(lanes, LARGEST)}
  %any = call i1 @llvm.vector.reduce.or.v{lanes}i1({flags} %flags)
  ret i1 %any
}}"""


def _fast(lanes: int) -> str:
    real = f"<{lanes} x double>"
    lines: list[str] = []

    def number(value: float) -> str:
        return splat(lanes, value)

    def do(name: str, op: str, a: str, b: str, flags: str = "") -> str:
        lines.append(f"  %{name} = {op} {flags}{real} {a}, {b}")
        return f"%{name}"

    def polynomial(name: str, z: str, coefficients: tuple[float, ...]) -> str:
        value = number(coefficients[-1])
        for index, coefficient in enumerate(reversed(coefficients[:-1])):
            product = do(f"{name}m{index}", "fmul", z, value, "contract ")
            value = do(f"{name}a{index}", "fadd", number(coefficient), product, "contract ")
        return value

    # x = n pi/2 + y + tail
    turns = do("turns", "fmul", "%x", number(TO_TURNS))
    magic = do("magic", "fadd", turns, number(ROUND))
    n = do("n", "fsub", magic, number(ROUND))
    first = do("first", "fsub", "%x", do("n1", "fmul", n, number(PARTS[0])))
    w = do("n2", "fmul", n, number(PARTS[1]))
    r = do("r", "fsub", first, w)
    lost = do("lost", "fsub", do("gone", "fsub", first, r), w)
    rest = do("rest", "fsub", do("n3", "fmul", n, number(PARTS[2])), lost)
    y = do("y", "fsub", r, rest)
    tail = do("tail", "fsub", do("cut", "fsub", r, y), rest)
    z = do("z", "fmul", y, y)
    # sin(y + tail) = y - ((z (tail / 2 - y z p) - tail) - y z S1)
    p = polynomial("s", z, SINE[1:])
    cube = do("cube", "fmul", z, y)
    half = do("half", "fmul", tail, number(0.5))
    inner = do("inner", "fsub", half, do("vp", "fmul", cube, p), "contract ")
    outer = do("outer", "fsub", do("zi", "fmul", z, inner), tail, "contract ")
    sine = do("sine", "fsub", y, do("down", "fsub", outer, do("vs", "fmul", cube, number(SINE[0])), "contract "))
    # cos(y + tail) = a + (((1 - a) - z / 2) + (z q - y tail)), a = 1 - z / 2
    q = do("q", "fmul", z, polynomial("c", z, COSINE))
    hz = do("hz", "fmul", z, number(0.5))
    a = do("a", "fsub", number(1.0), hz)
    slip = do("slip", "fsub", do("oa", "fsub", number(1.0), a), hz)
    high = do("high", "fmul", z, q, "contract ")
    low = do("low", "fsub", high, do("yt", "fmul", y, tail), "contract ")
    cosine = do("cosine", "fadd", a, do("sl", "fadd", slip, low))
    lines += _turned(lanes, magic, sine, cosine)
    return "\n".join(
        [
            f"define private {{{real}, {real}}} @sincos_{lanes}({real} %x) alwaysinline nounwind {{",
            *lines,
            *_returned(real, "%sinv", "%cosv"),
        ]
    )


def _turned(lanes: int, magic: str, sine: str, cosine: str) -> list[str]:
    """LLVM IR that computes the sine %sinv and the cosine %cosv of angles y + n pi/2 from those of y.

    magic         IR value of a vector that has the whole numbers n in the lowest bits of its elements
    sine, cosine  IR values of the sines and the cosines of y
    """
    real, whole = f"<{lanes} x double>", f"<{lanes} x i64>"
    ints = {k: "<" + ", ".join([f"i64 {k}"] * lanes) + ">" for k in (0, 1, 2, 62)}
    lines = [
        f"  %bits = bitcast {real} {magic} to {whole}",
        f"  %odd = and {whole} %bits, {ints[1]}",
        f"  %swap = icmp ne {whole} %odd, {ints[0]}",
        f"  %next = add {whole} %bits, {ints[1]}",
    ]
    for name, source, plain, other in (("sin", "%bits", sine, cosine), ("cos", "%next", cosine, sine)):
        lines += [
            f"  %{name}q = select <{lanes} x i1> %swap, {real} {other}, {real} {plain}",
            f"  %{name}h = and {whole} {source}, {ints[2]}",
            f"  %{name}s = shl {whole} %{name}h, {ints[62]}",
            f"  %{name}i = bitcast {real} %{name}q to {whole}",
            f"  %{name}x = xor {whole} %{name}i, %{name}s",
            f"  %{name}v = bitcast {whole} %{name}x to {real}",
        ]
    return lines


def _returned(real: str, sine: str, cosine: str) -> list[str]:
    """Last lines of a function that returns {sine, cosine}."""
    return [
        f"  %pair = insertvalue {{{real}, {real}}} poison, {real} {sine}, 0",
        f"  %both = insertvalue {{{real}, {real}}} %pair, {real} {cosine}, 1",
        f"  ret {{{real}, {real}}} %both",
        "}",
    ]


def _library_calls(lanes: int) -> tuple[list[str], dict[str, str]]:
    """LLVM IR that calls the C library for each lane of %x, and the names of the vectors of sines and cosines."""
    real = f"<{lanes} x double>"
    lines, at = [], {"sin": "poison", "cos": "poison"}
    for lane in range(lanes):
        lines.append(f"  %x{lane} = extractelement {real} %x, i32 {lane}")
        for name in ("sin", "cos"):
            lines.append(f"  %{name}c{lane} = call double @{name}(double %x{lane})")
            lines.append(f"  %{name}v{lane} = insertelement {real} {at[name]}, double %{name}c{lane}, i32 {lane}")
            at[name] = f"%{name}v{lane}"
    return lines, at


def _library(lanes: int) -> str:
    real = f"<{lanes} x double>"
    lines, found = _library_calls(lanes)
    return "\n".join(
        [
            f"define private {{{real}, {real}}} @sincos_any_{lanes}({real} %x) noinline cold nounwind {{",
            *lines,
            *_returned(real, found["sin"], found["cos"]),
        ]
    )


def fused_definitions(lanes: int) -> str:
    """LLVM IR of the same three functions as in `definitions`. Here their arithmetic uses fused multiply-add.

    The functions are meant for processors with an instruction for fused multiply-add. On other processors the C library
    computes each fused multiply-add, with the same result, but slowly.
    """
    return "\n\n".join([_is_large(lanes), _fused(lanes), _selected(lanes)])


def fused_declaration(lanes: int) -> str:
    """LLVM IR of the declaration of fused multiply-add, which `fused_definitions` needs."""
    real = f"<{lanes} x double>"
    return f"declare {real} @llvm.fma.v{lanes}f64({real}, {real}, {real})"


def _fused(lanes: int) -> str:
    """LLVM IR of the function `@sincos_N` of N = `lanes` angles x, with fused multiply-add; valid for |x| <= LARGEST.

    Each angle is reduced to y = x - n pi/2 with a whole number n, where pi/2 is the sum of the two numbers PI_HALVES.
    x - n PI_HALVES[0] is exact, because it is a multiple of 2^-53 and smaller than 1. The error of y is therefore at
    most half a unit in its last place.
    """
    real = f"<{lanes} x double>"
    lines: list[str] = []

    def do(name: str, instruction: str) -> str:
        lines.append(f"  %{name} = {instruction}")
        return f"%{name}"

    def fma(name: str, a: str, b: str, c: str) -> str:
        return do(name, f"call {real} @llvm.fma.v{lanes}f64({real} {a}, {real} {b}, {real} {c})")

    def polynomial(name: str, coefficients: tuple[float, ...]) -> str:
        value = splat(lanes, coefficients[-1])
        for index, coefficient in enumerate(reversed(coefficients[:-1])):
            value = fma(f"{name}{index}", "%z", value, splat(lanes, coefficient))
        return value

    # x = n pi/2 + y
    magic = fma("magic", "%x", splat(lanes, TO_TURNS), splat(lanes, ROUND))
    n = do("n", f"fsub {real} {magic}, {splat(lanes, ROUND)}")
    rest = fma("rest", n, splat(lanes, -PI_HALVES[0]), "%x")
    y = fma("y", n, splat(lanes, -PI_HALVES[1]), rest)
    z = do("z", f"fmul {real} {y}, {y}")
    sine = fma("sine", do("cube", f"fmul {real} {z}, {y}"), polynomial("s", SINE), y)
    cosine = polynomial("c", (1.0, -0.5, *COSINE))
    lines += _turned(lanes, magic, sine, cosine)
    return "\n".join(
        [
            f"define private {{{real}, {real}}} @sincos_{lanes}({real} %x) alwaysinline nounwind {{",
            *lines,
            *_returned(real, "%sinv", "%cosv"),
        ]
    )


def _selected(lanes: int) -> str:
    """LLVM IR of `@sincos_any_N`: from the C library for |x| > LARGEST, from `@sincos_N` otherwise, in each lane."""
    real, flags = f"<{lanes} x double>", f"<{lanes} x i1>"
    both = f"{{{real}, {real}}}"
    lines, found = _library_calls(lanes)
    lines += [
        f"  %small = call {both} @sincos_{lanes}({real} %x)",
        f"  %size = call {real} @llvm.fabs.v{lanes}f64({real} %x)",
        f"  %large = fcmp ogt {real} %size, {splat(lanes, LARGEST)}",
    ]
    for part, name in enumerate(("sin", "cos")):
        lines.append(f"  %{name}f = extractvalue {both} %small, {part}")
        lines.append(f"  %{name}x = select {flags} %large, {real} {found[name]}, {real} %{name}f")
    return "\n".join(
        [
            f"define private {both} @sincos_any_{lanes}({real} %x) noinline cold nounwind {{",
            *lines,
            *_returned(real, "%sinx", "%cosx"),
        ]
    )

"""Native code beside the expressions it comes from: CasADi's own evaluation, paired and unpaired, one lane and many."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robots.registry import build, names
from sim_core.derivation.equations import Derivation, derive
from sim_core.derivatives import DerivativeKernels
from sim_core.errors import InvalidRequest
from sim_core.kernels.bound import ROW, BoundKernel
from sim_core.kernels.emit import module_of
from sim_core.kernels.machine_code import native
from sim_core.kernels.order import units_of
from sim_core.kernels.pairing import paired
from sim_core.kernels.program import LIFTED, program_of
from sim_core.kernels.quaternions import quaternions
from sim_core.kernels.sincos import FUSED_ERROR
from sim_core.spatial import quaternions_from_rotations
from sim_core.system import assemble

ROOT = Path(__file__).resolve().parents[2]
PI_2 = math.pi / 2


def linked(function: ca.Function, twins=None, lanes: int = 1) -> native.Library:  # type: ignore[no-untyped-def]
    """The compiled function."""
    symbol = native.symbol_name(*function.name().split("."))
    return native.linked(module_of({function.name(): function}, twins, lanes), [symbol])


def run(
    function: ca.Function, inputs: list[np.ndarray], library: native.Library | None = None, lanes: int = 1
) -> list[np.ndarray]:
    """What the compiled function gives; inputs and results have `lanes` columns where there are several.

    library  the result of `linked` for this function; None compiles it
    """
    symbol = native.symbol_name(*function.name().split("."))
    library = library or linked(function, lanes=lanes)
    results = [k for k in range(function.n_out()) if function.name_out(k) != "lifted_values"]
    out = [np.full((function.numel_out(k), lanes), np.nan) for k in results]
    BoundKernel(library.addresses[symbol], [np.ascontiguousarray(value) for value in inputs], out)()
    return [array[:, 0] if lanes == 1 else array for array in out]


@cache
def derived(robot: str) -> Derivation:
    return derive(build(robot))


def sine_and_cosine(n: int) -> ca.Function:
    x = ca.SX.sym("x", n)
    return ca.Function("sine_and_cosine", [x], [ca.sin(x), ca.cos(x)])


@pytest.mark.parametrize("lanes", [2, 8, 32])
def test_fused_sines_and_cosines_are_right_to_the_last_bits(lanes: int) -> None:
    """Within FUSED_ERROR; within 4e-16 of the value beside few quarter turns; large angles by the library."""
    random = np.random.default_rng(4)
    near = [k * PI_2 * (1 + sign * 2.0**-52 * j) for k in range(1, 9) for j in (0, 1, 3) for sign in (1, -1)]
    angles = [*near, 1001 * PI_2, 300000 * PI_2, 0.0, 1e-300, -1e-9, math.pi / 4, 524287.9, -524288.0]
    angles += [*random.uniform(-10, 10, 3000), *random.uniform(-5e5, 5e5, 3000), 1e6, -3e12, math.inf, math.nan]
    x = np.array([*angles, *[0.5] * (-len(angles) % lanes)]).reshape(-1, lanes)
    library = native.linked(module_of({"sine_and_cosine": sine_and_cosine(1)}, None, lanes, fused=True),
                            ["sine_and_cosine"])  # fmt: skip
    found = np.zeros((2, *x.shape))
    row, out = np.zeros((1, lanes)), np.zeros((2, 1, lanes))
    call = BoundKernel(library.addresses["sine_and_cosine"], [row], list(out), library)
    for k, values in enumerate(x):
        row[:] = values
        call()
        found[:, k] = out[:, 0]
    wide = x.astype(np.longdouble)
    with np.errstate(invalid="ignore"):
        exact = np.array([np.sin(wide), np.cos(wide)])
    fine = np.isfinite(x)
    assert np.isnan(found[:, ~fine]).all()
    assert np.abs(found - exact)[:, fine].max() <= FUSED_ERROR
    small = np.abs(x) < 20
    assert (np.abs(found - exact) <= 4e-16 * np.abs(exact))[:, small].all()


@pytest.mark.parametrize("n", [1, 2, 3, 8, 11])
def test_sines_and_cosines_are_right_to_the_last_bits(n: int) -> None:
    """2.3e-16 of the library's, at small, ordinary and large angles and beside every kind of quarter turn."""
    random = np.random.default_rng(4)
    near = [
        k * PI_2 * (1 + sign * 2.0**-52 * j) for k in (1, 2, 3, 4, 5, 1001, 300000) for j in (0, 1) for sign in (1, -1)
    ]
    angles = [*near, 0.0, 1e-300, -1e-9, math.pi / 4, 524287.9, -524288.0]
    angles += [*random.uniform(-10, 10, 400), *random.uniform(-5e5, 5e5, 400)]
    function = sine_and_cosine(n)
    for begin in range(0, len(angles) - n, n):
        x = np.array(angles[begin : begin + n])
        sine, cosine = run_once(function, x)
        assert np.abs(sine - np.sin(x)).max() <= 2.3e-16
        assert np.abs(cosine - np.cos(x)).max() <= 2.3e-16
        # and relative to their size beside the zeros
        np.testing.assert_allclose(sine, np.sin(x), rtol=4.5e-16, atol=0)
        np.testing.assert_allclose(cosine, np.cos(x), rtol=4.5e-16, atol=0)


_compiled: dict[str, native.Library] = {}


def run_once(function: ca.Function, x: np.ndarray) -> list[np.ndarray]:
    key = f"{function.name()}{x.size}"
    if key not in _compiled:
        _compiled[key] = native.linked(module_of({function.name(): function}), [function.name()])
    out = [np.zeros(x.size), np.zeros(x.size)]
    BoundKernel(_compiled[key].addresses[function.name()], [x], out)()
    return out


def test_angles_beyond_the_reduction_and_those_that_are_none_are_the_librarys() -> None:
    x = np.array([1e6, -1e22, 0.5, math.inf])
    sine, cosine = run_once(sine_and_cosine(4), x)
    np.testing.assert_array_equal(sine[:3], [math.sin(value) for value in x[:3]])
    np.testing.assert_array_equal(cosine[:3], [math.cos(value) for value in x[:3]])
    assert math.isnan(sine[3])
    sine, _ = run_once(sine_and_cosine(4), np.array([1.0, math.nan, 2.0, 3.0]))
    assert np.isnan(sine).tolist() == [False, True, False, False]


def every_operation() -> ca.Function:
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    results = [ca.sin(x), ca.cos(ca.sin(x) + y), ca.tan(x), ca.asin(x), ca.acos(x), ca.atan(x), ca.atan2(y, x)]
    results += [ca.tanh(x), ca.exp(x), ca.log(y), y**x, y**3, ca.sqrt(y), ca.fabs(x), ca.fmin(x, y), ca.fmax(x, y)]
    results += [x < y, x <= y, ca.eq(x, y), ca.ne(x, y), ca.sign(x), ca.if_else(x > 0, y, -x), 1 / y, x / y, x * x, -x]
    return ca.Function("every_operation", [x, y], [ca.vertcat(*results)])


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_every_operation_is_what_casadi_makes_of_it(lanes: int) -> None:
    function = every_operation()
    x, y = np.linspace(-0.9, 0.8, lanes), np.linspace(0.3, 2.0, lanes)
    (ours,) = run(function, [x.reshape(1, -1), y.reshape(1, -1)], lanes=lanes)
    ours = ours.reshape(-1, lanes)
    for lane in range(lanes):
        theirs = np.array(function(x[lane], y[lane])).ravel()
        np.testing.assert_allclose(ours[:, lane], theirs, rtol=4e-16, atol=0)


@pytest.mark.parametrize("lanes", [0, 3, 50, 64, 8.0])
def test_numbers_of_lanes_that_would_write_beyond_arrays_are_refused(lanes: int) -> None:
    refused = f"lanes is {lanes}; it must be one of 1, 2, 4, 8, 16, 32"
    with pytest.raises(InvalidRequest, match=refused):
        module_of({"every_operation": every_operation()}, lanes=lanes)
    with pytest.raises(InvalidRequest, match=refused):
        DerivativeKernels(assemble(build("arm_2dof")), lanes=lanes)


@pytest.mark.parametrize("name", names())
def test_pairs_and_lanes_give_what_single_numbers_give(name: str) -> None:
    """To rounding of the largest entry, at three states; the pairs are made and never fall apart.

    The states are random and violate the constraints, so that the solve enlarges the rounding: lanes, which round
    differently, may differ by twice the effect of the last digit of the coordinates.
    """
    mechanism, derivation = build(name), derived(name)
    random = np.random.default_rng(7)
    first = mechanism.constraint_modes[0].name
    for kernel in ("inverse_dynamics", f"{first}.forward_dynamics", f"{first}.terms"):
        function = derivation.functions[kernel]
        function = ca.Function(kernel.rpartition(".")[2], function.sx_in(), function(*function.sx_in())
                               if function.n_out() > 1 else [function(*function.sx_in())],
                               function.name_in(), function.name_out())  # fmt: skip
        sizes = [function.numel_in(k) for k in range(function.n_in()) if function.name_in(k) != LIFTED]
        states = np.array(mechanism.initial_q) + 0.1 * random.normal(size=(8, len(mechanism.initial_q)))
        inputs = [random.normal(size=(8, size)) for size in sizes]
        inputs[1] = states
        inputs[function.name_in().index("p")] = np.tile(mechanism.parameter_values(0), (8, 1))
        rounding = 1e-12 if kernel.endswith("forward_dynamics") and mechanism.constraints else 1e-13
        together = run(function, [value.T.copy() for value in inputs], lanes=8)
        single = linked(function)
        pairs = linked(function, derivation.twins) if derivation.twins else single
        for lane in (0, 3, 7):
            one = [value[lane].copy() for value in inputs]
            plain, alike = run(function, one, single), run(function, one, pairs)
            moved = run(function, [one[0], np.nextafter(one[1], np.inf), *one[2:]], single)
            for a, b, c, d in zip(plain, alike, together, moved, strict=True):
                scale = max(1.0, np.abs(a).max(initial=0.0))
                assert np.abs(a - b).max(initial=0.0) <= 1e-13 * scale
                last_digit = np.abs(a - d).max(initial=0.0)
                assert np.abs(a - c[:, lane]).max(initial=0.0) <= max(rounding * scale, 2.0 * last_digit)


def test_both_arms_share_vectors() -> None:
    """Nine tenths of the operations that belong to an arm are made for both arms at once."""
    derivation = derived("charmie")
    assert derivation.twins["q"] == [(left, left + 7) for left in range(5, 12)]
    for kernel in ("inverse_dynamics", "default.forward_dynamics"):
        program, pairs = paired(program_of(derivation.functions[kernel]), derivation.twins)
        counted = {"fadd", "fsub", "fmul"}
        both = sum(program.nodes[left].op in counted for left, _ in pairs)
        every = sum(node.op in counted for node in program.nodes)
        assert 2 * both >= 0.7 * every
        units = units_of(program, pairs)
        assert sorted(itertools.chain(*units)) == list(range(len(program.nodes)))
        assert sum(len(unit) == 2 for unit in units) >= both


def test_a_very_large_kernel_that_no_step_calls_is_compiled_quickly_and_gives_the_same() -> None:
    x = ca.SX.sym("x", 80)
    function = ca.Function("terms", [x], [x @ x.T + ca.sin(x[0])])
    assert "terms(ptr noalias readonly %in, ptr noalias readonly %out) nounwind noinline optnone" in module_of(
        {"terms": function}
    )
    values = np.random.default_rng(2).normal(size=80)
    (ours,) = run(function, [values])
    np.testing.assert_allclose(ours, np.array(function(values)).ravel(order="F"), rtol=0, atol=1e-14)
    for stepped in ("acceleration", "default.relaxed"):
        assert "optnone" not in module_of({stepped: function})


def test_a_lifted_value_is_written_out_once() -> None:
    """What hangs on lifted values that hang on others is the same number as without any."""
    derivation = derived("charmie")
    function = derivation.functions["inverse_dynamics"]
    assert LIFTED in function.name_in()
    program = program_of(function)
    lifts = [node for node in program.nodes if node.op == "lift"]
    assert len(lifts) == len({node.place for node in lifts}) > 0


def test_bound_kernels_are_many_and_their_slots_are_used_again() -> None:
    """Each calls its own kernel on its own arrays, also beyond one row of slots and after others are gone."""
    function = sine_and_cosine(2)
    library = native.linked(module_of({"sine_and_cosine": function}), ["sine_and_cosine"])

    def bound(angle: float) -> tuple[BoundKernel, np.ndarray]:
        sine, cosine = np.zeros(2), np.zeros(2)
        return BoundKernel(library.addresses["sine_and_cosine"], [np.full(2, angle)], [sine, cosine]), sine

    many = [bound(0.01 * k) for k in range(3 * ROW)]
    del many[::2]
    many += [bound(-0.01 * k) for k in range(2 * ROW)]
    for kernel, _ in many:
        kernel()
    values = [*[0.01 * k for k in range(1, 3 * ROW, 2)], *[-0.01 * k for k in range(2 * ROW)]]
    np.testing.assert_allclose([sine[0] for _, sine in many], np.sin(values), rtol=4e-16)


def test_a_bound_kernel_takes_contiguous_numbers_and_no_arguments() -> None:
    library = native.linked(module_of({"sine_and_cosine": sine_and_cosine(2)}), ["sine_and_cosine"])
    address = library.addresses["sine_and_cosine"]
    with pytest.raises(ValueError, match="contiguous float64"):
        BoundKernel(address, [np.zeros(4)[::2]], [np.zeros(2), np.zeros(2)])
    with pytest.raises(ValueError, match="contiguous float64"):
        BoundKernel(address, [np.zeros(2, dtype=np.float32)], [np.zeros(2), np.zeros(2)])


EMITTED = """
import hashlib
from robots.registry import build
from sim_core.derivation.equations import Derivation, derive
from sim_core.kernels.emit import module_of
derivation = derive(build("charmie"))
print(hashlib.sha256(module_of(derivation.functions, derivation.twins).encode()).hexdigest())
"""


def test_the_code_of_a_mechanism_is_the_same_text_in_every_process() -> None:
    """Also where Python hashes strings otherwise: the same mechanism on the same machine has the same bytes."""
    said = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-P", "-c", EMITTED], env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]


def test_compiled_quaternions_are_those_of_the_readable_form() -> None:
    turns = [k * PI_2 for k in range(4)]
    by_quarters = np.array(list(itertools.product(turns, repeat=3)))
    R = np.concatenate(
        [Rotation.random(1000, random_state=1).as_matrix(), Rotation.from_euler("xyz", by_quarters).as_matrix()]
    )
    found = np.zeros(4 * len(R))
    BoundKernel(quaternions.address, [np.array([float(len(R))]), R.reshape(-1).copy()], [found])()
    assert found.reshape(-1, 4) == pytest.approx(quaternions_from_rotations(R), abs=1e-15)

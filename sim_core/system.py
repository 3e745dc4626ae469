"""System: a mechanism with its compiled kernels, as Python methods.

system = assemble(mechanism)      # loaded from the cache if equations, sources and machine are unchanged
M, f, J, gamma = system.terms(t, q, v)
"""

from __future__ import annotations

import hashlib
import warnings
from functools import cached_property
from typing import Any, cast

import numpy as np

from sim_core.batch import Batch
from sim_core.compiled_system import CompiledSystem
from sim_core.derivatives import DerivativeKernels, Derivatives, mapped
from sim_core.errors import DescriptionWarning, InvalidRequest
from sim_core.kernels.choice import costly_rows, is_rolled, obstacles
from sim_core.kernels.effort import LIMIT_S, MORE, check_effort, check_least_effort, check_memory
from sim_core.kernels.machine_code import native
from sim_core.kernels.machine_code.native import Library
from sim_core.mechanism.checks.changes import check_captured_rows
from sim_core.mechanism.checks.plausibility import implausibilities
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.slip import with_slip
from sim_core.mechanism.validation import validate
from sim_core.mobility import with_contact_stiffness


class System(CompiledSystem):
    """A mechanism with its compiled kernels. A System holds no state, so that several simulations can share it."""

    def batch(self, lanes: int = 8) -> Batch:
        """A Batch of this system, whose kernels evaluate `lanes` (2, 4, 8, 16 or 32) copies of the system at once.

        Its kernels are straight-line code. Raises CompilationTooLarge for a system that is too large for such kernels.
        """
        advice = "these are the limits of every Batch; simulate such systems one by one, with Simulation"
        check_least_effort(self.mechanism, LIMIT_S, advice)
        return Batch(self, lanes)

    def derivatives(
        self, t: float, q: Any, v: Any, u: Any = None, p: Any = None, U: Any = None, constraint_mode: int | None = None
    ) -> Derivatives:
        """Exact derivatives of the accelerations and multipliers; the arguments are those of `acceleration`.

        The derivative at a kink, such as the contact of a stop or rest under smoothed friction, is that of one side.
        The first call compiles the kernels of the derivatives, which are then cached. Raises InvalidRequest for a robot
        with forces from tables, such as the contacts of beams, and CompilationTooLarge before a compilation that would
        take longer than `compile_limit_s`.
        """
        U = np.zeros(self.max_rows) if U is None else np.ascontiguousarray(U, dtype=float)
        return mapped(lambda x: x[0], self.derivative_kernels.at([*self._inputs(t, q, v, u, p, constraint_mode), U]))

    @cached_property
    def derivative_kernels(self) -> DerivativeKernels:
        """The kernels of the derivatives, compiled or loaded at the first use."""
        return DerivativeKernels(self, limit_s=self.compile_limit_s)

    def casadi(self) -> dict[str, Any]:
        """{name: CasADi function} of this system, for optimal control and other uses of CasADi.

        Their arguments are t, q, v, u, p, and their results have names: "dynamics" (M, f, J, gamma of
        M a + J' lam = f, J a = gamma), "constraints" (Phi, Phidot), "energy" (kinetic and potential), "joints"
        (position, velocity), "kinematics" (position, rotation row by row, of all bodies) and "outputs" (value).
        """
        return dict(self._functions)

    @cached_property
    def _functions(self) -> dict[str, Any]:
        from sim_core.derivation.derivatives.functions import derive_functions  # it imports CasADi

        advice = "these are the limits of all CasADi functions; use numbers, such as those of System.acceleration"
        check_least_effort(self.mechanism, LIMIT_S, advice)
        return derive_functions(self.mechanism)


def assemble(mechanism: Mechanism, compile_limit_s: float = LIMIT_S, rolled: bool | None = None) -> System:
    """Derive and compile a mechanism, or load the kernels that an earlier call compiled from the same equations.

    compile_limit_s  longest estimated time of a compilation, also of the derivatives, s; with more than the default,
                     the compilation may also take more than 2 GB of memory
    rolled           whether the kernels are loops over the links of a tree (True) or straight-line code (False). Loops
                     are faster for many links, and their compilation does not take longer for more links. By default
                     the estimated number of operations decides (see kernels/choice.py)
    Loading needs no derivation and no casadi. Raises InvalidMechanism for an invalid description, and
    CompilationTooLarge before a compilation that would take longer; warns with DescriptionWarning for a valid but
    implausible description, and for loops that would cost far less in absolute coordinates.
    """
    validate(mechanism)
    mechanism = with_slip(with_contact_stiffness(mechanism))
    place = mechanism.reference_q or (*mechanism.initial_q, *mechanism.orientations)
    bounds = [tunable.decades for tunable in mechanism.tunables]
    in_loops = is_rolled(mechanism, rolled)
    check_memory(mechanism, compile_limit_s)
    way = "rolled" if in_loops else place
    identity = f"{mechanism.canonical_hash}|{native.source_hash()}|{native.machine_key()}|{way}|{bounds}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:32]
    library = native.load_shared(key)
    if library is None:
        with native.sole_compiler(key):
            library = native.load_shared(key)  # another process may have compiled it in the meantime
            if library is None:
                with native.compiling(f"the kernels of {mechanism.name!r}"):
                    library = _rolled(mechanism, key) if in_loops else _compiled(mechanism, key, compile_limit_s)
    facts = library.manifest["facts"]
    check_captured_rows(mechanism, facts["captured_rows"])
    costly = costly_rows(mechanism, facts["row_operations"]) if in_loops and library.from_cache else []
    for line in [*implausibilities(mechanism, facts["idle"]), *costly]:
        warnings.warn(line, DescriptionWarning, stacklevel=2)
    system = System(mechanism, library)
    system.compile_limit_s = compile_limit_s
    return system


def require_system(system: object) -> None:
    """Raise InvalidRequest, one line, unless `system` is a System."""
    if not isinstance(system, System):
        raise InvalidRequest(
            f"the system is a {type(system).__name__}, not a System; pass the result of assemble(mechanism)"
        )


def _compiled(mechanism: Mechanism, key: str, compile_limit_s: float) -> Library:
    """Derive and compile the kernels of a mechanism and store them in the cache under `key`."""
    # a warm start needs no casadi
    from sim_core.derivation.equations import derive
    from sim_core.kernels.machine_code.side_by_side import objects_of
    from sim_core.kernels.tables import modules_with_tables

    advice = MORE
    if mechanism.has_joint_coordinates:
        loops = "kernels with loops over the links (rolled = true) compile in seconds"
        parts = ", ".join(obstacles(mechanism))
        advice += f"; {loops}, but cannot have {parts}" if parts else f"; {loops}"
    check_least_effort(mechanism, compile_limit_s, advice)
    derivation = derive(mechanism)
    sizes = [function.n_instructions() for function in derivation.functions.values()]
    check_effort(mechanism, sizes, compile_limit_s, advice)
    symbols = [native.symbol_name(*name.split(".")) for name in derivation.functions]
    facts = derivation.facts | {"is_rolled": False}
    manifest = {"key": key, "mechanism": mechanism.name, "symbols": symbols, "facts": facts}
    modules = modules_with_tables(derivation.functions, derivation.twins, derivation.uses, derivation.tables)
    return native.keep(objects_of(modules), cast(dict[str, Any], manifest), key)


def _rolled(mechanism: Mechanism, key: str) -> Library:
    """Derive and compile the rolled kernels of a mechanism and store them in the cache under `key`."""
    # a warm start needs no casadi
    from sim_core.derivation.rolled.kernels import derive_rolled
    from sim_core.kernels.rolled import module_of_rolled

    derivation = derive_rolled(mechanism)
    for line in costly_rows(mechanism, cast(int, derivation.facts["row_operations"])):
        warnings.warn(line, DescriptionWarning, stacklevel=3)  # before the compilation, which may take long
    symbols = [native.symbol_name(*kernel.name.split(".")) for kernel in derivation.kernels]
    facts = derivation.facts | {"is_rolled": True}
    manifest = {"key": key, "mechanism": mechanism.name, "symbols": symbols, "facts": facts}
    return native.compile_module(module_of_rolled(derivation.kernels, derivation.tables), manifest, key)

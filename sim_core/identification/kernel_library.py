"""Compiled kernels of a mechanism that are no part of a System, cached like those of a System."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from sim_core.kernels.machine_code import native
from sim_core.mechanism.description import Mechanism

if TYPE_CHECKING:
    import casadi as ca


def kernel_library(
    mechanism: Mechanism, name: str, title: str, derive: Callable[[Mechanism], ca.Function], lanes: int = 1
) -> native.Library:
    """Library of one kernel, from the cache or compiled.

    name, title  of the kernel: symbol, and words for the line about its compilation
    derive       derives the kernel's function; called only if the cache does not have it
    lanes        samples per call
    The manifest's "shapes" are those of the results.
    """
    identity = f"{mechanism.canonical_hash}|{native.source_hash()}|{native.machine_key()}|{name}|{lanes}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:32]
    library = native.load_shared(key)
    if library is None:
        # a kernel from the cache needs no casadi
        from sim_core.kernels.emit import modules_of
        from sim_core.kernels.machine_code.side_by_side import objects_of

        with native.compiling(f"{title} of {mechanism.name!r}"):
            function = derive(mechanism)
            shapes = [function.size_out(k) for k in range(function.n_out())]
            manifest = {"key": key, "mechanism": mechanism.name, "symbols": [name], "shapes": shapes}
            library = native.keep(objects_of(modules_of({name: function}, lanes=lanes)), manifest, key)
    return library

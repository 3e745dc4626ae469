"""Regressor of a mechanism: the matrix Y in tau = Y pi, where pi are the inertial parameters of the links.

    regressor = Regressor(mechanism)
    Y = regressor(q, v, a)           # (n, n_q, n_pi) for n samples

The kernels are compiled when a Regressor of the mechanism is first created, and cached like the kernels of a System.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sim_core.arguments import as_array
from sim_core.errors import InvalidRequest
from sim_core.identification.inertial_parameters import PARAMETERS, inertial_parameters, links_of
from sim_core.identification.kernel_library import kernel_library
from sim_core.kernels.bound import BoundKernel
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.validation import validate

if TYPE_CHECKING:
    import casadi as ca

Array = np.ndarray
LANES = 8  # samples per call of the vector kernel


class LinearEfforts(Protocol):
    """Efforts of joints that are linear in inertial parameters: `Regressor`, or `LoopRegressor` of closed loops."""

    joints: tuple[str, ...]
    links: tuple[str, ...]
    parameters: tuple[str, ...]
    pi: Array

    def __call__(self, q: Any, v: Any, a: Any, columns: Array | None = None) -> Array:
        """Matrix (n, n_q, n_pi) of the efforts at n samples, see `Regressor`."""
        ...

    def efforts(self, q: Any, v: Any, a: Any, columns: Array, values: Array) -> Array:
        """Efforts (n, n_q) at n samples for the parameters with the indices `columns` and these values."""
        ...

    def random_positions(self, rng: np.random.Generator, count: int) -> Array:
        """Random positions (count, n_q) of the joints, rad or m."""
        ...


class Regressor:
    """The regressor of a mechanism in joint coordinates; a Regressor has no state.

    joints      names of the coordinates, in the order of the rows of Y
    links       names of the bodies whose frames are those of the links; a link is such a body and all bodies that fixed
                joints hold to it
    parameters  names of the columns of Y, LINK/m and so on, see `PARAMETERS`
    pi          values of the parameters in the mechanism
    """

    def __init__(self, mechanism: Mechanism) -> None:
        validate(mechanism)
        if not mechanism.has_joint_coordinates:
            raise InvalidRequest(
                f'{mechanism.name!r} does not have joint coordinates; build it with coordinates="joint"'
            )
        self.mechanism = mechanism
        self.joints = tuple(name for joint in mechanism.joints for name in joint.coordinates)
        self.links = links_of(mechanism)
        self.parameters = tuple(f"{link}/{name}" for link in self.links for name in PARAMETERS)
        self.pi = np.concatenate([inertial_parameters(mechanism, link) for link in self.links])
        self._p = np.array(mechanism.parameter_values(mechanism.start_constraint_mode))
        self._libraries = {
            lanes: kernel_library(mechanism, "regressor", f"the regressor, {lanes} at a time,", _derived, lanes)
            for lanes in (1, LANES)
        }

    def bind(self, q: Array, v: Array, a: Array, Y: Array) -> BoundKernel:
        """Kernel bound to arrays of the caller: each call reads q, v, a (n_q,) and writes Y (n_q, n_pi), in Fortran
        order.
        """
        n_q, n_pi = len(self.joints), len(self.parameters)
        if Y.shape != (n_q, n_pi) or not Y.flags.f_contiguous:
            raise ValueError(f"Y has shape {Y.shape}; it must be in Fortran order, with shape {(n_q, n_pi)}")
        for name, array in (("q", q), ("v", v), ("a", a)):
            if array.shape != (n_q,):
                raise ValueError(f"{name} has shape {array.shape}; {self.mechanism.name!r} takes {(n_q,)}")
        library = self._libraries[1]
        return BoundKernel(library.addresses["regressor"], [q, v, a, self._p], [Y], library)

    def bind_lanes(self, q: Array, v: Array, a: Array, Y: Array) -> BoundKernel:
        """Kernel for LANES samples at once: q, v, a (n_q, LANES) and Y (n_pi, n_q, LANES), in C order."""
        library = self._libraries[LANES]
        p = np.repeat(self._p[:, None], LANES, axis=1)
        return BoundKernel(library.addresses["regressor"], [q, v, a, p], [Y], library)

    def __call__(self, q: Any, v: Any, a: Any, columns: Array | None = None) -> Array:
        """Y (n, n_q, n_pi) at n samples of coordinates q, velocities v and accelerations a, (n, n_q) each.

        columns  indices of the columns of Y that are returned, by default all
        """
        kept = np.arange(len(self.parameters)) if columns is None else columns
        count = len(np.atleast_2d(q))
        Y = np.empty((count, len(self.joints), len(kept)))
        for begin, out in zip(range(0, count, LANES), self._by_lanes(q, v, a), strict=True):
            Y[begin : begin + LANES] = out[kept].T[: count - begin]
        return Y

    def efforts(self, q: Any, v: Any, a: Any, columns: Array, values: Array) -> Array:
        """Efforts (n, n_q) at n samples, as Y(q, v, a)[:, :, columns] @ values, without the memory for Y."""
        parts = [np.tensordot(values, out[columns], 1).T for out in self._by_lanes(q, v, a)]
        return np.concatenate(parts, dtype=float)[: len(np.atleast_2d(q))]

    def _by_lanes(self, q: Any, v: Any, a: Any) -> Iterator[Array]:
        """Y (n_pi, n_q, LANES) of the next LANES samples, in an array that the next ones overwrite."""
        n_q, n_pi = len(self.joints), len(self.parameters)
        motion = [np.atleast_2d(as_array(self.mechanism.name, *pair)) for pair in (("q", q), ("v", v), ("a", a))]
        for name, array in zip("qva", motion, strict=True):
            if array.ndim != 2 or array.shape != (len(motion[0]), n_q):
                raise InvalidRequest(
                    f"{name} has shape {array.shape}; for {len(motion[0])} samples of {self.mechanism.name!r} it must "
                    f"be {(len(motion[0]), n_q)}"
                )
        count = len(motion[0])
        inputs, out = [np.zeros((n_q, LANES)) for _ in motion], np.zeros((n_pi, n_q, LANES))
        call = self.bind_lanes(inputs[0], inputs[1], inputs[2], out)
        for begin in range(0, count, LANES):
            samples = np.minimum(np.arange(begin, begin + LANES), count - 1)
            for array, into in zip(motion, inputs, strict=True):
                into[:] = array[samples].T
            call()
            yield out

    def random_positions(self, rng: np.random.Generator, count: int) -> Array:
        """Random positions (count, n_q) of the joints, rad or m."""
        return rng.uniform(-np.pi, np.pi, (count, len(self.joints)))


def _derived(mechanism: Mechanism) -> ca.Function:
    from sim_core.derivation.regressor import derive_regressor  # it imports casadi, which a cached kernel does not need

    return derive_regressor(mechanism)

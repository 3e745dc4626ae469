"""A mechanism with its compiled kernels, as Python methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest, UnknownName
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.effort import LIMIT_S
from sim_core.kernels.machine_code import native
from sim_core.kernels.machine_code.native import Library
from sim_core.mechanism.description import Mechanism

SOLVING_KERNELS = ("terms", "acceleration", "forward_dynamics", "apply", "residual", "least_norm", "solve_residual")
LINEAR_KERNELS = ("relaxed",)  # of systems with a linear part
OTHER_KERNELS = ("inverse_dynamics", "joints", "wrapping", "energy", "outputs", "poses", "guards", "captures", "power")


@dataclass(frozen=True)
class Rows:
    """Names and number of a system's constraint rows, and the parameters p of one of its constraint modes.

    All constraint modes of a system have the same rows; flags in p switch the rows of each constraint on and off.
    """

    name: str
    parameters: tuple[float, ...]
    row_names: tuple[str, ...]
    n_holonomic: int
    factor_size: int

    @property
    def n_rows(self) -> int:
        """Number of constraint rows, holonomic and nonholonomic."""
        return len(self.row_names)


class CompiledSystem:
    """A mechanism with its compiled kernels. It holds no state, so that several simulations can share it.

    Methods take the time t, s, coordinates q (n_q,) and velocities v = dq/dt (n_q,), and return new arrays. By default,
    the actuator inputs u (n_u,) are zero, and the parameters p (n_p,) are those at the start.

    compile_limit_s  longest estimated time (s) of the compilation of the derivatives
    """

    compile_limit_s: float = LIMIT_S

    def __init__(self, mechanism: Mechanism, library: Library) -> None:
        self.mechanism = mechanism
        self._library = library
        facts = library.manifest["facts"]
        # whether the kernels are loops over the links of a tree instead of straight-line code
        self.is_rolled: bool = facts["is_rolled"]
        self.does_work: bool = facts["does_work"]  # whether efforts, loads or dampers can change the energy
        self.coordinate_names: tuple[str, ...] = tuple(facts["coordinate_names"])
        self.joint_names = tuple(joint.name for joint in mechanism.moving_joints)
        self.output_names: tuple[str, ...] = tuple(facts["output_names"])
        self.wraps: tuple[int, ...] = tuple(facts["wraps"])
        self.output_wraps: tuple[tuple[int, int], ...] = tuple(tuple(pair) for pair in facts["output_wraps"])
        self.tunable_names = tuple(tunable.name for tunable in mechanism.tunables)
        self.parameter_names = mechanism.parameter_names
        self.lengths: tuple[bool, ...] = tuple(facts["row_lengths"])  # (n_r,): whether a row is a length, m
        # begin and end of the rows' reciprocal pivots in a factor
        self.pivots: tuple[int, int] = tuple(facts["pivots"])
        self.pivot_rows: tuple[int, ...] = tuple(facts["pivot_rows"])
        self.code_hash: str = library.manifest["key"]
        self.from_cache = library.from_cache
        rows = tuple(facts["row_names"]), facts["n_holonomic"], facts["factor_size"]
        self.constraint_modes = tuple(
            Rows(constraint_mode.name, mechanism.parameter_values(index), *rows)
            for index, constraint_mode in enumerate(mechanism.constraint_modes)
        )
        first = mechanism.constraint_modes[0].name
        solving = (*SOLVING_KERNELS, *(LINEAR_KERNELS if mechanism.beams else ()))
        self.addresses = {name: library.addresses[native.symbol_name(first, name)] for name in solving}
        others = [*OTHER_KERNELS, *(["rebase"] if mechanism.oriented_joints else [])]
        others += ["frames"] if mechanism.posed_joints else []
        self.addresses |= {name: library.addresses[name] for name in others}
        # thresholds of pivots by parameters, see `sim_core.solve.least_pivots`
        self.pivot_thresholds: dict[bytes, np.ndarray] = {}

    @property
    def n_q(self) -> int:
        """Number of coordinates (and of velocities)."""
        return len(self.coordinate_names)

    @property
    def n_u(self) -> int:
        """Number of actuators."""
        return len(self.mechanism.actuators)

    @property
    def max_rows(self) -> int:
        """Number of constraint rows, equal in every constraint mode.

        The multipliers lam, the stabilization U and the violation rates Phidot have this size.
        """
        return self.constraint_modes[0].n_rows

    @property
    def max_factor(self) -> int:
        """Number of entries of the array `factor`, the factorized KKT matrix that `acceleration` returns."""
        return self.constraint_modes[0].factor_size

    @property
    def start_inputs(self) -> np.ndarray:
        """Actuator inputs u (n_u,) at the start."""
        return np.array([actuator.start for actuator in self.mechanism.actuators], dtype=float)

    def constraint_mode_index(self, name: str) -> int:
        """Return the index of the constraint mode with this name; raise UnknownName if there is none."""
        names = [constraint_mode.name for constraint_mode in self.constraint_modes]
        if name not in names:
            raise UnknownName(f"robot {self.mechanism.name!r}", "constraint mode", name, names)
        return names.index(name)

    def default_parameters(self, constraint_mode: int | None = None) -> np.ndarray:
        """Parameters p (n_p,) at the start, in the order of `parameter_names`.

        constraint_mode  index of the constraint mode, by default that at the start
        """
        index = self.mechanism.start_constraint_mode if constraint_mode is None else constraint_mode
        if index not in range(len(self.constraint_modes)):
            raise InvalidRequest(
                f"constraint_mode is {index!r}; it must be an index from 0 to {len(self.constraint_modes) - 1}, "
                f"as {self.mechanism.name!r} has {len(self.constraint_modes)} constraint modes"
            )
        return np.array(self.constraint_modes[index].parameters, dtype=float)

    def bind(self, name: str, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> BoundKernel:
        """The kernel `name` bound to arrays of the caller: each call reads `inputs` and writes `outputs` in place."""
        return BoundKernel(self.addresses[name], inputs, outputs, self._library)

    def bind_inverse_dynamics(
        self, q: np.ndarray, v: np.ndarray, a: np.ndarray, out: np.ndarray, p: np.ndarray | None = None
    ) -> BoundKernel:
        """Kernel of `sim_core.inverse_dynamics` bound to arrays: each call reads q, v, a and writes tau to `out`."""
        self._check_sizes(q=q, v=v, a=a, out=out)
        return self.bind("inverse_dynamics", [np.zeros(1), q, v, a, self._own_parameters(p)], [out])

    def bind_forward_dynamics(
        self,
        q: np.ndarray,
        v: np.ndarray,
        tau: np.ndarray,
        out: np.ndarray,
        constraint_mode: int | None = None,
        p: np.ndarray | None = None,
    ) -> BoundKernel:
        """Kernel of `sim_core.forward_dynamics` bound to arrays: each call reads q, v, tau and writes a to `out`."""
        self._check_sizes(q=q, v=v, tau=tau, out=out)
        inputs = [np.zeros(1), q, v, tau, self._own_parameters(p, constraint_mode)]
        return self.bind("forward_dynamics", inputs, [out, np.zeros(self.max_rows)])

    def bind_forward_kinematics(
        self, q: np.ndarray, positions: np.ndarray, rotations: np.ndarray, p: np.ndarray | None = None
    ) -> BoundKernel:
        """Kernel of `sim_core.forward_kinematics` bound to arrays: each call reads q and writes the bodies' poses.

        positions  (n, 3) world positions of the bodies, in the order of the description
        rotations  (n, 3, 3) rotation matrices R_WB of the bodies
        """
        self._check_sizes(q=q)
        n = len(self.mechanism.bodies)
        for name, array, shape in (("positions", positions, (n, 3)), ("rotations", rotations, (n, 3, 3))):
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}; {self.mechanism.name!r} takes {shape}")
        rest = [np.zeros(self.n_q), np.zeros(self.n_u), self._own_parameters(p)]
        return self.bind("poses", [np.zeros(1), q, *rest], [positions, rotations])

    def with_states(self, name: str, values: np.ndarray) -> np.ndarray:
        """Values (n_q,) along the coordinates: `values`, with the mechanism's first-order states added if these are
        missing.

        name  what the values are; the states are at their start in "v", and 0 in "q" and all others
        """
        states = self.mechanism.first_order_states
        if not states or getattr(values, "shape", None) != (self.n_q - len(states),):
            return values
        return np.concatenate([values, [state.start if name == "v" else 0.0 for state in states]])

    def size_hint(self, size: int) -> str:
        """Text for the end of a message about a wrong number of coordinates, which suggests coordinates="joint".

        The text is "" unless the mechanism is in absolute coordinates and has `size` joints, where `size` is the wrong
        number.
        """
        joints = len(self.mechanism.moving_joints)
        if not size == joints != self.n_q or not self.mechanism.has_body_coordinates:
            return ""
        return f'; {joints} joint coordinates are those of build("{self.mechanism.name}", coordinates="joint")'

    def _own_parameters(self, p: np.ndarray | None, constraint_mode: int | None = None) -> np.ndarray:
        """Parameters (n_p,) for a bound kernel: the array `p` itself or, if `p` is None, those at the start.

        constraint_mode  index of the constraint mode whose flags the parameters at the start contain, by default that
                         at the start
        Raises ValueError if `p` is not an array (n_p,) of float64.
        """
        if p is None:
            return self.default_parameters(constraint_mode)
        if not isinstance(p, np.ndarray) or p.dtype != np.float64 or p.shape != (len(self.parameter_names),):
            raise ValueError(f"p must be a numpy array of {len(self.parameter_names)} float64 numbers")
        return p

    def _check_sizes(self, **arrays: np.ndarray) -> None:
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype != np.float64:
                raise ValueError(f"{name} must be a numpy array of float64; create it with np.array(..., dtype=float)")
            if array.shape != (self.n_q,):
                takes = f"{self.mechanism.name!r} takes ({self.n_q},){self.size_hint(array.size)}"
                raise ValueError(f"{name} has shape {array.shape}; {takes}")

    def _inputs(self, t: float, q: Any, v: Any, u: Any, p: Any, constraint_mode: int | None = None) -> list[np.ndarray]:
        def sized(name: str, value: Any, size: int) -> np.ndarray:
            array = np.ascontiguousarray(value, dtype=float).reshape(-1).copy()
            array = self.with_states(name, array) if name in "qv" else array
            if array.size != size:
                hint = self.size_hint(array.size) if name in "qv" else ""
                raise ValueError(f"{name} has {array.size} entries; {self.mechanism.name!r} takes {size}{hint}")
            return array

        u = np.zeros(self.n_u) if u is None else u
        default = self.default_parameters(constraint_mode)
        p = sized("p", default if p is None else p, len(default))
        if constraint_mode is not None:
            first = len(p) - len(self.mechanism.switched)
            p[first:] = default[first:]
        return [
            np.array([float(t)]),
            sized("q", q, self.n_q),
            sized("v", v, self.n_q),
            sized("u", u, self.n_u),
            p,
        ]

    def terms(
        self, t: float, q: Any, v: Any, u: Any = None, p: Any = None, constraint_mode: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(M, f, J, gamma) of the equations M a + J' lam = f, J a = gamma.

        Mass matrix M (n_q, n_q), forces f (n_q,), constraint Jacobian J (n_r, n_q), gamma (n_r,).
        """
        n_q, n_rows = self.n_q, self.max_rows
        M, J = np.zeros((n_q, n_q), order="F"), np.zeros((n_rows, n_q), order="F")
        f, gamma = np.zeros(n_q), np.zeros(n_rows)
        self.bind("terms", self._inputs(t, q, v, u, p, constraint_mode), [M, f, J, gamma])()
        return M, f, J, gamma

    def acceleration(
        self, t: float, q: Any, v: Any, u: Any = None, p: Any = None, U: Any = None, constraint_mode: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(a, lam, factor): solution a, lam of M a + J' lam = f, J a = gamma - U, and the factorized KKT matrix.

        Accelerations a (n_q,), Lagrange multipliers lam (n_r,); U (n_r,) is the stabilization, by default zero. `apply`
        takes the array `factor` and solves with the same matrix for other right-hand sides.
        """
        U = np.zeros(self.max_rows) if U is None else np.ascontiguousarray(U, dtype=float)
        out = [np.zeros(self.n_q), np.zeros(self.max_rows), np.zeros(self.max_factor)]
        self.bind("acceleration", [*self._inputs(t, q, v, u, p, constraint_mode), U], out)()
        return out[0], out[1], out[2]

    def solve_residual(
        self, t: float, q: Any, v: Any, a: Any, p: Any = None, U: Any = None, constraint_mode: int | None = None
    ) -> float:
        """Relative residual of the constraint equations J a = gamma - U for accelerations a and stabilization U.

        The residual is the largest |J a + U - gamma| of any row, divided by the largest |J| (|a| + 1) + |U| + |gamma|
        of any row.
        """
        U = np.zeros(self.max_rows) if U is None else np.ascontiguousarray(U, dtype=float)
        inputs = [*self._inputs(t, q, v, None, p, constraint_mode), U, np.array(a, dtype=float)]
        out = [np.zeros(1), np.zeros(1)]
        self.bind("solve_residual", inputs, out)()
        return float(out[0][0] / out[1][0]) if out[1][0] > 0.0 else 0.0

    def apply(self, factor: np.ndarray, r1: Any, r2: Any) -> tuple[np.ndarray, np.ndarray]:
        """Solution x (n_q,), y (n_r,) of M x + J' y = r1, J x = r2, with a factor that `acceleration` returned."""
        inputs = [np.ascontiguousarray(value, dtype=float) for value in (factor, r1, r2)]
        out = [np.zeros(self.n_q), np.zeros(self.max_rows)]
        self.bind("apply", inputs, out)()
        return out[0], out[1]

    def least_norm(
        self, t: float, q: Any, v: Any, r2: Any, p: Any = None, constraint_mode: int | None = None
    ) -> np.ndarray:
        """Vector x (n_q,) of least norm with J x = r2, that is, the pseudo-inverse of J at (t, q, v) times r2."""
        out = [np.zeros(self.n_q)]
        r2 = np.ascontiguousarray(r2, dtype=float)
        self.bind("least_norm", [*self._inputs(t, q, v, None, p, constraint_mode), r2], out)()
        return out[0]

    def residual(
        self, t: float, q: Any, v: Any, p: Any = None, constraint_mode: int | None = None, u: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Constraint violations Phi (n_h,) of the holonomic rows and rates Phidot (n_r,) of all rows, not scaled."""
        out = [np.zeros(self.constraint_modes[0].n_holonomic), np.zeros(self.max_rows)]
        self.bind("residual", self._inputs(t, q, v, u, p, constraint_mode), out)()
        return out[0], out[1]

    def _shared(self, name: str, sizes: list[int], t: float, q: Any, v: Any, p: Any) -> list[np.ndarray]:
        out = [np.zeros(size) for size in sizes]
        self.bind(name, self._inputs(t, q, v, None, p), out)()
        return out

    def joints(self, t: float, q: Any, v: Any, p: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities (n_joints,) of the declared joints.

        The angles of the joints whose indices are in the attribute `wraps` are wrapped to [-pi, pi].
        """
        n = len(self.joint_names)
        position, velocity = self._shared("joints", [n, n], t, q, v, p)
        return position, velocity

    def energy(self, t: float, q: Any, v: Any, p: Any = None) -> tuple[float, float]:
        """Kinetic and potential energy, J.

        The zero of the potential energy is a state in which every centre of mass is at the origin and no spring is
        stressed.
        """
        (energy,) = self._shared("energy", [2], t, q, v, p)
        return float(energy[0]), float(energy[1])

    def outputs(self, t: float, q: Any, v: Any, p: Any = None, u: Any = None) -> dict[str, float]:
        """{output: value} of the mechanism's named outputs. Joint angles in `wraps` are wrapped to [-pi, pi].

        u  actuator efforts (n_u,), by default zero
        """
        values = np.zeros(len(self.output_names))
        self.bind("outputs", self._inputs(t, q, v, u, p), [values])()
        return dict(zip(self.output_names, values.tolist(), strict=True))

    def poses(self, t: float, q: Any, v: Any, p: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """World positions (n, 3), m, and rotations R_WB (n, 3, 3) of all n bodies."""
        n = len(self.mechanism.bodies)
        positions, rotations = self._shared("poses", [3 * n, 9 * n], t, q, v, p)
        return positions.reshape(n, 3), rotations.reshape(n, 3, 3)

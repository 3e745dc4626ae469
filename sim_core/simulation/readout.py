"""What can be read of a running simulation: quantities of its current state."""

from __future__ import annotations

import numpy as np

from sim_core.events.switching import Switching
from sim_core.integrators.workspace import Workspace
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.quaternions import quaternions
from sim_core.monitoring.readings import Readings
from sim_core.state import State
from sim_core.support.notebook import page
from sim_core.system import System


class Readout:
    """Quantities of the current state of a System that is simulated.

    readings  `Readings` object, which reads joint states, energy, outputs and violations in one fast call
    placed    (7 n_bodies,) positions (3 n) and quaternions (4 n) of the n bodies at the last call of the kernel `place`
    """

    def __init__(self, system: System, w: Workspace, step_s: float, switching: Switching) -> None:
        self.system, self.step_s, self._w, self._switching, self._tick = system, step_s, w, switching, 0
        rows, n_bodies = system.constraint_modes[0], len(system.mechanism.bodies)
        self.readings = Readings(system, w, rows.n_holonomic, rows.n_rows)
        self.placed, R = np.zeros(7 * n_bodies), np.zeros(9 * n_bodies)
        p, quaternion = np.split(self.placed, [3 * n_bodies])
        poses = system.bind("poses", [w.t, w.q, w.v, w.u, w.p], [p, R])
        turned = BoundKernel(quaternions.address, [np.array([float(n_bodies)]), R], [quaternion])
        self.place = BoundKernel.in_turn([poses, turned])

    @property
    def tick(self) -> int:
        """Number of time steps taken since the reset."""
        return self._tick

    @property
    def time(self) -> float:
        """Simulation time, s."""
        return self._tick * self.step_s

    @property
    def evaluations(self) -> int:
        """Number of evaluations of the right-hand side since the reset; `restore` does not change it."""
        return int(self._w.evaluations[0])

    def solve_residual(self) -> float:
        """Relative residual of the constraint equations J a = gamma - U in the current state.

        The residual is the largest |J a + U - gamma| of any row, divided by the largest |J| (|a| + 1) + |U| + |gamma|
        of any row. U is the constraint stabilization. Rounding errors cause about 1e-9; a much larger residual means
        that the solve failed.
        """
        w = self._w
        a = self.system.acceleration(self.time, w.q, w.v, w.u, w.p, w.U)[0]
        return self.system.solve_residual(self.time, w.q, w.v, a, w.p, w.U)

    def peak_solve_residual(self) -> float:
        """The largest `solve_residual` since the reset, sampled at every 16th time step."""
        return float(self._w.peak_residual[0])

    @property
    def substeps(self) -> int:
        """Number of substeps since the reset; 0 if no time step was divided.

        Explicit Runge-Kutta steppers with a fixed step size divide a time step into substeps near a change point, a
        configuration in which the constraint rows lose rank.
        """
        return int(self._w.substepped[0])

    def violation(self) -> tuple[float, float]:
        """1-norms |Phi|_1 and |Phidot|_1 of the constraint violations and their rates in the current state.

        The rows are not scaled, so that the sums mix units: m and m/s for rows that are lengths, 1 and 1/s for rows
        that are angles or ratios.
        """
        return self.readings.violation()

    def peak_violation(self) -> tuple[float, float]:
        """Largest |Phi|_1 and largest |Phidot|_1 (see `violation`) over all time steps since the reset."""
        return float(self._w.peaks[0]), float(self._w.peaks[1])

    def energy(self) -> float:
        """Kinetic plus potential energy, J."""
        return self.readings.energy()

    def outputs(self) -> dict[str, float]:
        """{output: value} of the mechanism's named outputs; angles are unwrapped."""
        return self.readings.outputs()

    def joints(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions (relative to the parents, unwrapped), velocities and applied efforts of the declared joints.

        The three results are arrays (n_joints,), in the order of the joints.
        """
        return *self.readings.motion(), self.readings.effort()

    def frames(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """{joint: (pose (7,), twist (6,))} of the spherical and free joints, and of planar joints in joint coordinates.

        pose   position (3,), m, of the child's joint point relative to the parent's joint point, along the parent's
               axes, then the quaternion w x y z (4,) of the child's axes relative to the parent's axes
        twist  linear velocity (3,), m/s, along the parent's axes, then the angular velocity (3,), rad/s, in the
               child's axes
        """
        names = [joint.name for joint in self.system.mechanism.posed_joints]
        return dict(zip(names, zip(*self.readings.frames(), strict=True), strict=True))

    def poses(self) -> tuple[np.ndarray, np.ndarray]:
        """World positions (n, 3), m, and quaternions (n, 4), w x y z, of all n bodies."""
        self.place()
        p, quaternion = np.split(self.placed.copy(), [3 * (len(self.placed) // 7)])
        return p.reshape(-1, 3), quaternion.reshape(-1, 4)

    def multipliers(self) -> np.ndarray:
        """Lagrange multipliers lam (n_r,) of M a + J' lam = f in the current state.

        The multipliers include the effect of the constraint stabilization U of the last time step.
        """
        w = self._w
        return self.system.acceleration(self.time, w.q, w.v, w.u, w.p, w.U)[1]

    @property
    def coordinates(self) -> np.ndarray:
        """A copy of the coordinates q (n_q,)."""
        return np.array(self._w.q)

    @property
    def velocities(self) -> np.ndarray:
        """A copy of the velocities v (n_q,)."""
        return np.array(self._w.v)

    @property
    def constraint_mode(self) -> str:
        """Name of the current constraint mode.

        If the set of constraints that hold has no name, the result lists the names of the switched constraints that
        hold.
        """
        return self._switching.name

    @property
    def holding(self) -> tuple[str, ...]:
        """Names of the switched constraints that hold now, in the order of the description."""
        return self._switching.holding

    @property
    def state(self) -> State:
        """A copy of the complete state; the same as `snapshot()`."""
        return self.snapshot()

    def snapshot(self) -> State:
        """A copy of the complete state: everything that determines the rest of the run."""
        w = self._w
        arrays = [w.q, w.v, w.u, w.p, w.U]
        q, v, u, p, U = (array.copy() for array in arrays)
        rest = [w.turns, w.peaks, w.stepper_memory, w.stabilizer_memory, w.guards_before, w.ledger]
        return State(self._tick, q, v, u, p, U, self._switching.constraint_mode, *[array.copy() for array in rest])

    def _html(self, how: str) -> str:
        """HTML of the state and a table of the joints.

        how  text about the methods
        """
        violation, joints = self.violation(), self.system.mechanism.moving_joints
        facts = [
            f"t = {self.time:.6g} s",
            how,
            f"|Phi| {violation[0]:.2g}, |Phidot| {violation[1]:.2g}",
            f"energy {self.energy():.6g} J",
        ]
        numbers = zip(*(values.tolist() for values in self.joints()), strict=True)
        rows = [(joint.name, joint.unit, *values) for joint, values in zip(joints, numbers, strict=True)]
        headings = ("joint", "unit", "position", "velocity, per s", "effort, N m or N")
        return page(f"Simulation of {self.system.mechanism.name}", facts, headings, rows)

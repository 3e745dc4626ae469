"""Energy balance ("ledger") of a simulation, and its error: energy changes that no work, event or changed parameter
explains.
"""

from __future__ import annotations

from collections.abc import Iterator

from sim_core.integrators.ledger import (
    BOOKED,
    DEPARTED,
    FIRST_MARK,
    KINETIC,
    LARGEST,
    MARKS,
    NEXT,
    POTENTIAL,
    SCALE,
    START,
    START_POTENTIAL,
    WORK,
)
from sim_core.integrators.workspace import Workspace
from sim_core.system import System


class EnergyLedger:
    """Energy balance of a simulation since its reset; all energies are in J.

    The numbers are in an array of the workspace, which the compiled loop over the time steps updates.
    """

    def __init__(self, system: System, w: Workspace) -> None:
        self._ledger = w.ledger
        self._compute_energy = system.bind("energy", [w.t, w.q, w.v, w.u, w.p], [w.ledger[:2]])

    def begin(self) -> None:
        """Start the ledger with the current energy as its initial value."""
        ledger = self._ledger
        ledger[:] = 0.0
        self._compute_energy()
        ledger[START], ledger[START_POTENTIAL] = ledger[KINETIC] + ledger[POTENTIAL], ledger[POTENTIAL]
        ledger[SCALE], ledger[NEXT] = ledger[KINETIC], DEPARTED

    def book(self, energy: float) -> None:
        """Record the energy change, J, caused by an event or a changed parameter; `energy` is negative for a loss."""
        self._ledger[BOOKED] += energy

    def add_work(self, work: float) -> None:
        """Record the work, J, of an impulse."""
        self._ledger[WORK] += work

    @property
    def work(self) -> float:
        """Work of efforts, joint loads, dampers and prescribed motions since the reset, J."""
        return float(self._ledger[WORK])

    @property
    def booked(self) -> float:
        """Sum of the energy changes, J, caused by events and changed parameters since the reset (see `book`)."""
        return float(self._ledger[BOOKED])

    @property
    def departure(self) -> float:
        """Energy error, J: current energy - energy at the reset - `work` - `booked`."""
        ledger = self._ledger
        self._compute_energy()
        return float(ledger[KINETIC] + ledger[POTENTIAL] - ledger[START] - ledger[WORK] - ledger[BOOKED])

    @property
    def largest(self) -> float:
        """Largest energy error since the reset, as a fraction of the energy scale at the time of the error.

        The energy scale is the largest kinetic energy, change of potential energy or work since the reset.
        """
        return float(self._ledger[LARGEST])

    @property
    def departed(self) -> str:
        """One-line warning about the latest recorded energy error; "" if no energy error was recorded."""
        marks = int(self._ledger[MARKS])
        return next((line for _, line in self.lines(marks - 1, marks)), "") if marks else ""

    def lines(self, first: int, last: int) -> Iterator[tuple[float, str]]:
        """Yield (simulation time, s; line of text) of recorded energy errors, from index `first` to `last` - 1."""
        for k in range(first, last):
            place = FIRST_MARK + 3 * k
            time, off, scale = self._ledger[place : place + 3].tolist()
            part = f"{100.0 * off / scale:.3g} %" if scale > 0.0 else "all"
            yield time, f"the energy departed by {off:.3g} J, {part} of the run's {scale:.3g} J, by t = {time:.6g} s"

"""Load cells of rolled kernels: fixed joints with a ForceTorqueOutput, which measure the wrench on what they carry.

The bodies behind a load cell have a record of their own of the forces on them (see `Links.records`), which is added to
the record of their link. The wrench at the cell is what these bodies and the links that they carry need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca

from sim_core.derivation.coordinates.recursive import wrench_of
from sim_core.derivation.rolled.tree.links import N_INERTIA, Links, inertias_of, turned, unpacked
from sim_core.derivation.rolled.tree.steps import At, Steps
from sim_core.derivation.rolled.tree.sweeps import matrix, motion_from
from sim_core.derivation.symbols import Symbols
from sim_core.kernels.rolled import Sweep
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.inertias import carried_by

TABLE = "inertias_of_cells"  # table: inertia of the bodies that a cell carries on its link, about the link's origin


class LoadCells:
    """Sweeps over the load cells of a mechanism; no sweeps without load cells."""

    def __init__(
        self,
        mechanism: Mechanism,
        links: Links,
        symbols: Symbols,
        add_table: Callable[[str, Sequence[ca.SX]], None],
    ) -> None:
        self._links = links
        self._carried = [
            [name for name in carried_by(mechanism, joint.child) if links.places[name].link == own]
            for joint in links.cells
            for own in [links.places[joint.child].link]
        ]
        if links.cells:
            groups = [[mechanism.body(name) for name in carried] for carried in self._carried]
            add_table(TABLE, inertias_of(groups, links, symbols))

    def _at(self, k: int) -> At:
        return At("wrench", 6 * (self._links.count + 1 + k), 6)

    def cleared(self) -> list[Sweep]:
        """Sweep that sets the wrenches of the cells to zero."""
        steps = Steps("clear_cells")
        for k in range(len(self._links.cells)):
            steps.add(0, [], [self._at(k)], lambda: [ca.SX.zeros(6)])
        return steps.sweeps()

    def added_to_links(self) -> list[Sweep]:
        """Sweep that adds the wrenches of the cells to those of the links, or of the cells, that carry them."""
        steps = Steps("added_cells", in_order=True)
        for k, joint in reversed([*enumerate(self._links.cells)]):
            outer = At("wrench", 6 * self._links.records[joint.parent], 6)
            steps.add(0, [self._at(k), outer], [outer], lambda own, outer: [own + outer])
        return steps.sweeps()

    def carried(self) -> list[Sweep]:
        """Sweeps that add what the motion of the bodies and links that a cell carries needs.

        The wrenches of the links are known, with all that these carry.
        """
        motions, links = Steps("moved_cells"), Steps("carried_links")
        for k, joint in enumerate(self._links.cells):
            link = self._links.frame_of(self._links.records[joint.child])
            inputs = [At(TABLE, N_INERTIA * k, N_INERTIA), At("R", 9 * link, 9), At("motion", 18 * link, 18)]
            motions.add(0, [*inputs, self._at(k)], [self._at(k)], _moved)
            carried = {*self._carried[k]}
            for number, each in enumerate(self._links.links):
                is_first = each.parent < 0 or self._links.links[each.parent].joint is not each.joint
                if is_first and each.joint.parent in carried:
                    own = [At("wrench", 6 * number, 6), At("reach", 3 * number, 3), self._at(k)]
                    links.add(0, own, [self._at(k)], _passed)
        return [*motions.sweeps(), *links.sweeps()]


def _moved(inertia: ca.SX, R: ca.SX, motion: ca.SX, wrench: ca.SX) -> list[ca.SX]:
    own = turned(unpacked(inertia), matrix(R))
    return [wrench + ca.vertcat(*wrench_of(own, motion_from(motion), ca.SX(3, 1), ca.SX(3, 1)))]


def _passed(wrench: ca.SX, r: ca.SX, own: ca.SX) -> list[ca.SX]:
    return [own + ca.vertcat(wrench[:3] + ca.cross(r, wrench[3:]), wrench[3:])]

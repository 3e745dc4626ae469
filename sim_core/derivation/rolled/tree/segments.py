"""Frames of single segments of a chain, chosen while a kernel runs: that at a position along the chain, or the nearest.

A chosen segment has a record of its own after those of the links and the ground in the arrays of frames, motions and
accelerations, into which the record of the segment is copied. Constraint rows read it as that of a link.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import casadi as ca
import numpy as np

from sim_core.derivation.rolled.tree.frames import FRAME, frame_at_place
from sim_core.derivation.rolled.tree.links import Links, Place
from sim_core.derivation.rolled.tree.steps import At, Steps
from sim_core.errors import InvalidMechanism
from sim_core.kernels.rolled import Sweep
from sim_core.mechanism.chains import FAR, ChainContact
from sim_core.mechanism.description import Mechanism

CHOSEN = "chosen"  # array: number of the segment at each position, then of the nearest segments


class Segments:
    """The segments that the ChainContacts of a mechanism choose; contacts with one position share a segment."""

    def __init__(self, mechanism: Mechanism, links: Links) -> None:
        self._links = links
        self._names = {name: index for index, name in enumerate(mechanism.parameter_names)}
        contacts = [each for each in mechanism.constraints if isinstance(each, ChainContact)]
        self.contacts: list[ChainContact] = []
        for contact in contacts:
            if all(contact.position != other.position for other in self.contacts):
                self.contacts.append(contact)
        for contact in self.contacts:
            self._check(mechanism, contact)

    def _check(self, mechanism: Mechanism, contact: ChainContact) -> None:
        places = [self._links.places[name] for name in contact.segments]
        first = places[0]
        for k, place in enumerate(places):
            alike = np.array_equal(place.p, first.p) and np.array_equal(place.R, first.R)
            alike = alike and self._links.records[contact.segments[k]] == place.link
            if place.link != first.link + k or first.link < 0 or not alike:
                raise InvalidMechanism(
                    f"mechanism {mechanism.name!r}: constraint {contact.name!r}: segment {contact.segments[k]!r} is "
                    "not declared directly after the one before, on a joint with one coordinate; declare the joints of "
                    "the segments one after the other, or assemble the mechanism with rolled=False"
                )

    @property
    def count(self) -> int:
        """Number of positions."""
        return len(self.contacts)

    def index(self, contact: ChainContact) -> int:
        """Index of the position of a contact."""
        return next(k for k, other in enumerate(self.contacts) if other.position == contact.position)

    def place(self, contact: ChainContact) -> Place:
        """Place of a segment on its link, equal for all segments."""
        return self._links.places[contact.segments[0]]

    def held(self, contact: ChainContact) -> int:
        """Index of the record of the segment at a contact's position."""
        return self._links.count_of_records + self.index(contact)

    def nearest(self, contact: ChainContact) -> int:
        """Index of the record of the segment nearest to a contact's point."""
        return self.held(contact) + self.count

    def chain(self, record: int) -> range | None:
        """Links of the segments of which a record has one; None if the record is that of a link."""
        if record < self._links.count_of_records:
            return None
        contact = self.contacts[(record - self._links.count_of_records) % self.count]
        first = self.place(contact).link
        return range(first, first + len(contact.segments))

    def choosing(self) -> list[Sweep]:
        """Sweeps that compute which segments are at the positions, and copy their frames."""
        steps = Steps("choosing")
        for g, contact in enumerate(self.contacts):
            p = self._names[contact.position.name]  # type: ignore[union-attr]  # captured or tunable
            key = contact.length, len(contact.segments)
            steps.add(key, [At("p", p, 1)], [At(CHOSEN, g, 1)], _numbered(contact))
        return [*steps.sweeps(), *self.gathered("frame", FRAME)]

    def gathered(self, array: str, width: int, of_nearest: bool = False) -> list[Sweep]:
        """Sweeps that copy the records of the chosen segments."""
        steps = Steps("gathered")
        for g, contact in enumerate(self.contacts):
            first, target = self.place(contact).link, self.nearest(contact) if of_nearest else self.held(contact)
            chosen = At(CHOSEN, g + of_nearest * self.count, 1)
            steps.add(width, [At(array, first * width, width, chosen)], [At(array, target * width, width)], _copied)
        return steps.sweeps()

    def finding(self) -> list[Sweep]:
        """Sweeps that find the segments nearest to the points of the contacts, and copy their frames."""
        begin, steps, end = Steps("begin_nearest"), Steps("nearer", in_order=True), Steps("nearest")
        for g, contact in enumerate(self.contacts):
            found = At("found", 2 * g, 2)
            begin.add(0, [], [found], lambda: [ca.SX(ca.DM([FAR, 0.0]))])
            body, segment = self._links.places[contact.body], self.place(contact)
            numbers = (*body.p, *body.R.ravel(), *contact.point, *segment.p, *segment.R.ravel())
            key = contact.length, tuple(map(float, numbers))
            own_link = self._links.count if body.link < 0 else body.link
            step = _nearer(contact, body, segment)
            for k in range(len(contact.segments)):
                own = [
                    At("frame", FRAME * own_link, FRAME),
                    At("frame", FRAME * (segment.link + k), FRAME),
                    At("numbers_of_segments", k, 1),
                    found,
                ]
                steps.add(key, own, [found], step)
            end.add(0, [found], [At(CHOSEN, self.count + g, 1)], lambda both: [both[1]])
        return [*begin.sweeps(), *steps.sweeps(), *end.sweeps(), *self.gathered("frame", FRAME, of_nearest=True)]

    @cached_property
    def tables(self) -> dict[str, np.ndarray]:
        """Constant tables: the numbers of the segments."""
        most = max((len(contact.segments) for contact in self.contacts), default=0)
        return {"numbers_of_segments": np.arange(most, dtype=float).reshape(-1, 1)} if most else {}


def _copied(record: ca.SX) -> list[ca.SX]:
    return [record]


def _numbered(contact: ChainContact) -> Callable[[ca.SX], list[ca.SX]]:
    return lambda position: [contact.number_of(position)]


def _nearer(contact: ChainContact, body: Place, segment: Place) -> Callable[..., list[ca.SX]]:
    none = ca.SX.zeros(6, 1)
    places = [ca.SX(ca.DM(np.concatenate([place.p, place.R.T.ravel()]))) for place in (body, segment)]

    def step(hand: ca.SX, link: ca.SX, k: ca.SX, found: ca.SX) -> list[ca.SX]:
        point = frame_at_place(hand, places[0], none).point(contact.point)
        frame = frame_at_place(link, places[1], none)
        square = contact.square_distance(frame.p, frame.R, point)
        return [ca.if_else(square < found[0], ca.vertcat(square, k), found)]

    return step

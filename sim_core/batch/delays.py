"""Delays of the signals of many systems: a message per time step and system, with a random delay, in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ROUNDING_S = 1e-9  # largest delay after the time of a step at which a message still counts as in time, s
DRAWN = 256  # random draws of a system that are made together
Array = np.ndarray


class DelayLine:
    """Messages on their way to a receiver, for n systems. Each message has a delay of its own and may be lost.

    A message takes delay_s, and in addition a random time up to jitter_s, drawn uniformly. Messages of a system arrive
    in the order in which they were sent.

    size      numbers per message
    loss      probability that a message is lost, 0 .. 1
    sent_s    shortest time between two messages, s
    read_s    longest time between two calls of `receive`, s
    value     (size, n) latest message that each system has received; 0 before the first one
    arrived   (n,) mask of the systems that have received a message
    """

    def __init__(
        self, size: int, n: int, *, delay_s: float, jitter_s: float, loss: float, sent_s: float, read_s: float
    ) -> None:
        self.delay_s, self.jitter_s, self.loss = delay_s, jitter_s, loss
        slots = int(np.ceil((delay_s + jitter_s + read_s) / sent_s)) + 2
        self._sent = np.zeros((slots, size, n))
        self._arrivals = np.full((slots, n), np.inf)
        self._order = np.full((slots, n), -1, dtype=np.int64)
        self._count = 0
        self._latest = np.zeros(n)
        self._random: list[np.random.Generator | None] = [None] * n
        self._draws, self._place = np.zeros((n, DRAWN, 2)), np.full(n, DRAWN)
        self._lanes = np.arange(n)
        self.value, self.arrived = np.zeros((size, n)), np.zeros(n, dtype=bool)

    def seed(self, system: int, seed: Sequence[int]) -> None:
        """Restart the random draws of a system from a seed."""
        self._random[system] = np.random.Generator(np.random.PCG64(tuple(seed)))
        self._place[system] = DRAWN

    def forget(self, index: Array) -> None:
        """Discard all messages of the systems with these indices, after a reset to the time 0."""
        self._arrivals[:, index] = np.inf
        self._order[:, index] = -1
        self._latest[index] = 0.0
        self.arrived[index] = False
        self.value[:, index] = 0.0

    def send(self, now: Array, values: Array, mask: Array | None = None) -> None:
        """Send one message per system, or per system of the mask (n,), at the times now (n,), s.

        values  (size, n) contents of the messages
        """
        draws = self._draw(mask)
        arrival = np.maximum(now + (self.delay_s + draws[:, 1] * self.jitter_s), self._latest)
        lost = draws[:, 0] < self.loss
        if mask is not None:
            lost |= ~mask
        np.copyto(self._latest, arrival, where=~lost)
        slot = self._count % len(self._sent)
        self._sent[slot] = values
        self._arrivals[slot] = np.where(lost, np.inf, arrival)
        self._order[slot] = self._count
        self._count += 1

    def receive(self, now: Array) -> Array:
        """Receive all messages that have arrived by the times now (n,), s; returns the mask (n,) of new messages."""
        order = np.where(self._arrivals <= now + ROUNDING_S, self._order, -1)
        slot = order.argmax(axis=0)
        new: Array = order[slot, self._lanes] >= 0
        if new.any():
            np.copyto(self.value, self._sent[slot, :, self._lanes].T, where=new)
            self.arrived |= new
            self._arrivals[(order >= 0)] = np.inf
        return new

    def _draw(self, mask: Array | None) -> Array:
        """The next two random numbers of each system, (n, 2): one for the loss, one for the jitter."""
        if self.jitter_s == 0.0 and self.loss == 0.0:
            return self._draws[:, 0]  # has no effect
        for system in np.flatnonzero(self._place >= DRAWN):
            random = self._random[system]
            if random is None:
                raise RuntimeError("DelayLine.seed has to be called for each system before messages are sent")
            self._draws[system] = random.random((DRAWN, 2))
            self._place[system] = 0
        draws: Array = self._draws[self._lanes, self._place]
        self._place += 1 if mask is None else mask.astype(self._place.dtype)
        return draws

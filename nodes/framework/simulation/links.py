"""Communication links of a lockstep run: delay, jitter and loss of messages between nodes, and nodes' compute times.

A link emulates the network between one node and all others (key `link` of the node). Jitter and losses are drawn from
seeded random generators.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nodes.framework.messages.topics import lookup
from nodes.framework.plan.launch_plan import LinkPlan, NodePlan, Plan, SimPlan

ROUNDING_S = 1e-9  # largest delay after the time of a step at which a message still counts as in time, s
ALWAYS_ARRIVE = ("event",)  # last parts of the names of topics without loss; latched topics have no loss either


def takes_time(node: NodePlan) -> bool:
    """Whether messages to and from the node, or the computation of the node, take simulation time."""
    return node.link != LinkPlan() or node.compute_ms > 0.0


class Links:
    """Arrival times of the messages of a run whose communication links are simulated.

    A message passes the link of its sender and the link of its receiver. Each link delays the message and may lose it.
    A node without a link adds neither delay nor loss.

    A lossless node without a link of its own, such as a recorder, receives every message when it is published.

    The random draws for a pair of nodes depend on the plan's seed, the nodes' names and the number of earlier messages,
    so that a run in one process has the same draws as a run over sockets.
    """

    def __init__(self, plan: Plan) -> None:
        self._links = {node.name: node.link for node in plan.nodes if node.link != LinkPlan()}
        self._compute_s = {node.name: 1e-3 * node.compute_ms for node in plan.nodes if node.compute_ms}
        self._seed = plan.seed
        self._step_s = plan.sim.step_s
        self._random: dict[tuple[str, str], np.random.Generator] = {}
        self._drawn: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._latest: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._dropped = {name: [0, 0] for name, link in self._links.items() if link.loss > 0.0}

    @property
    def dropped(self) -> dict[str, list[int]]:
        """{node whose link loses messages: [number of messages that its link lost, number of all messages on it]}.

        Messages that are never lost, such as events, are not counted.
        """
        return self._dropped

    def count_on(self, dropped: Mapping[str, list[int]]) -> None:
        """Set the counts of `Links.dropped` to the given counts, from which this object continues to count.

        dropped  attribute `dropped` of the Links object that this object replaces
        """
        self._dropped |= {name: list(counts) for name, counts in dropped.items()}

    def has(self, node: str) -> bool:
        """Whether the node has a communication link."""
        return node in self._links

    def compute_s(self, node: str) -> float:
        """Simulation time (s) that the node needs to compute its messages of a time step."""
        return self._compute_s.get(node, 0.0)

    def ticks_of_turn(self, node: str, decimation: int) -> int:
        """Number of time steps after which the node runs again.

        decimation  number n: the node is due on each n-th time step. It does not run while it still computes the
                    messages of an earlier time step
        """
        steps = math.ceil((self.compute_s(node) - ROUNDING_S) / self._step_s)
        return max(math.ceil(steps / decimation), 1) * decimation

    def arrival(self, source: str, target: str, topic: str, now: float) -> float | None:
        """Simulation time at which a message from `source` reaches `target`, s; None if the message is lost.

        `now` is the time at which the message is published. Messages from one node to another arrive in the order in
        which they were published.
        """
        at = now + self.compute_s(source)
        pair = source, target
        for name in pair:
            if (link := self._links.get(name)) is None:
                continue
            lost, more = self._draws_of(pair).random(2)
            self._drawn[pair] += 1
            if link.loss > 0.0 and not _always_arrives(topic):
                counts = self._dropped[name]
                counts[1] += 1
                if lost < link.loss:
                    counts[0] += 1
                    return None
            at += 1e-3 * (link.delay_ms + float(more) * link.jitter_ms)
        at = self._latest[pair] = float(max(at, self._latest[pair]))  # numpy's numbers have no place in a snapshot
        return at

    def _draws_of(self, pair: tuple[str, str]) -> np.random.Generator:
        random = self._random.get(pair)
        if random is None:
            bits = np.random.PCG64((self._seed, *(zlib.crc32(name.encode()) for name in pair)))
            bits.advance(2 * self._drawn[pair])
            random = self._random[pair] = np.random.Generator(bits)
        return random

    def forget(self) -> None:
        """Forget the arrival times of earlier messages, after a reset."""
        self._latest.clear()

    def snapshot(self) -> dict[str, Any]:
        """Number of random draws and latest arrival time of each pair of nodes, as plain data."""
        return {
            "drawn": [(*pair, number) for pair, number in self._drawn.items()],
            "latest": [(*pair, at) for pair, at in self._latest.items()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        self._random.clear()
        self._drawn = defaultdict(int, {(source, target): number for source, target, number in state["drawn"]})
        self._latest = defaultdict(float, {(source, target): at for source, target, at in state["latest"]})


def _always_arrives(topic: str) -> bool:
    row = lookup(topic)
    return row is not None and (row.latched or row.name in ALWAYS_ARRIVE)


def rounded_times(plan: Plan) -> Iterator[str]:
    """Lines about rates and delays of links that are not whole numbers of time steps, with what holds."""
    sim, step_ms = plan.sim, plan.sim.step_ms
    poses_hz = None if sim.poses_hz == SimPlan(robot="").poses_hz else sim.poses_hz  # the default concerns nobody
    for key, rate, what in (
        ("rate_hz", sim.rate_hz, "the state is"),
        ("poses_hz", poses_hz, "the body poses are"),
    ):
        if rate is None:
            continue
        every = max(round(1e3 / (rate * step_ms)), 1)
        if abs((held := 1e3 / (every * step_ms)) / rate - 1.0) > 1e-6:
            steps = f"every {every} time steps" if every > 1 else "at every time step"
            yield f"{key} = {rate:g}: {what} published {steps} of {step_ms:g} ms, at {held:.4g} Hz"
    for node in plan.nodes if plan.sim.mode == "lockstep" else ():
        steps_taken = node.link.delay_ms / step_ms
        if node.link.jitter_ms == 0.0 and abs(steps_taken - round(steps_taken)) > 1e-6:
            yield (
                f"link of node {node.name!r}: delay_ms = {node.link.delay_ms:g}: messages arrive with the next time "
                f"step of {step_ms:g} ms, so that each way takes {math.ceil(steps_taken) * step_ms:g} ms"
            )


def links_of(plan: Plan) -> Links | None:
    """The communication links of a plan; None if neither messages nor computations take simulation time."""
    return Links(plan) if any(map(takes_time, plan.nodes)) else None

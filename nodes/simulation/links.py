"""Links of a lockstep run: delay, jitter and loss of the messages between nodes, and compute times, by seeded draws."""

from __future__ import annotations

import zlib
from collections import defaultdict

import numpy as np

from nodes.messages.topics import lookup
from nodes.plan.launch_plan import LinkPlan, NodePlan, Plan

ALWAYS_ARRIVE = ("event",)  # last parts of topics without loss, beside the latched ones


def takes_time(node: NodePlan) -> bool:
    """Whether messages of the node or its turns take simulation time."""
    return node.link != LinkPlan() or node.compute_ms > 0.0


class Links:
    """Arrival times of the messages of a run. A message between two nodes with links passes both of them.

    A lossless node without a link of its own, such as a recorder, receives every message when it is published.

    The draws of a pair of nodes depend on the plan's seed, their names and the number of messages before, so that a run
    in one process and one over sockets have the same.
    """

    def __init__(self, plan: Plan) -> None:
        self._links = {node.name: node.link for node in plan.nodes if node.link != LinkPlan()}
        self._compute_s = {node.name: 1e-3 * node.compute_ms for node in plan.nodes if node.compute_ms}
        self._seed = plan.seed
        self._random: dict[tuple[str, str], np.random.Generator] = {}
        self._latest: defaultdict[tuple[str, str], float] = defaultdict(float)

    def has(self, node: str) -> bool:
        """Whether the node has a link."""
        return node in self._links

    def compute_s(self, node: str) -> float:
        """Time that a turn of the node takes, s."""
        return self._compute_s.get(node, 0.0)

    def arrival(self, source: str, target: str, topic: str, now: float) -> float | None:
        """Time at which a message that `source` publishes in its turn at `now` reaches `target`, s; None: it is lost.

        Messages of one pair of nodes arrive in the order in which they were published.
        """
        at = now + self.compute_s(source)
        pair = source, target
        for name in pair:
            if (link := self._links.get(name)) is None:
                continue
            random = self._random.get(pair)
            if random is None:
                seed = (self._seed, zlib.crc32(source.encode()), zlib.crc32(target.encode()))
                random = self._random[pair] = np.random.default_rng(seed)
            lost, more = random.random(2)
            if lost < link.loss and not _always_arrives(topic):
                return None
            at += 1e-3 * (link.delay_ms + more * link.jitter_ms)
        at = self._latest[pair] = max(at, self._latest[pair])
        return at

    def forget(self) -> None:
        """Forget the messages on their way, after a reset."""
        self._latest.clear()


def _always_arrives(topic: str) -> bool:
    row = lookup(topic)
    return row is not None and (row.latched or row.name in ALWAYS_ARRIVE)


def links_of(plan: Plan) -> Links | None:
    """The links of a plan, None where messages and turns take no time."""
    return Links(plan) if any(map(takes_time, plan.nodes)) else None

"""Graph of nodes and topics, of a plan or of a live launch, as text and as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from nodes.framework.messages.topics import GLOBAL_TOPICS, NODE_TOPICS, lookup, node_topic, resolve
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.framework.plan.node_classes import load_class
from sim_core.support.suggestion import nearest

SERVER_PUBLISHES = ("description", "state", "body_poses", "lines", "event", "snapshot")
FROM_OUTSIDE = (
    "cmd_vel",
    "enable",
    "reference",
)  # topics of a robot that a user's client may publish instead of a node
INK, LINE, PAPER, NODE, TOPIC = "#1f2933", "#616e7c", "#ffffff", "#e3eefb", "#fdf0dc"
FONT, ROW, GAP, PAD, TOP = 14, 30, 8, 24, 64
CHARACTER = 8.6  # px, width of a character of the SVG's monospaced font at most


@dataclass(frozen=True)
class Member:
    """A node with the full names of its topics.

    "*" stands for all topics, "left/*" for all topics of the namespace "left".
    """

    name: str
    publishes: Sequence[str]
    subscribes: Sequence[str]

    def receives(self, topic: str) -> bool:
        """Whether the node subscribes to a topic, given by its full name."""
        return any(topic == each or (each.endswith("*") and topic.startswith(each[:-1])) for each in self.subscribes)


@dataclass(frozen=True)
class Connection:
    """A topic with the nodes that publish it and the nodes that subscribe to it."""

    topic: str
    publishers: tuple[str, ...]
    subscribers: tuple[str, ...]

    @property
    def message(self) -> str:
        """Name of the topic's message type; "" for a topic that is not in the topic table."""
        row = lookup(self.topic)
        return row.message.__name__ if row is not None else ""


def members_of(plan: Plan) -> list[Member]:
    """The simulation server, as "sim", and the nodes of a plan. A run of several robots has no topic `snapshot`."""
    robots = [view.sim.robot_name for view in plan.views]
    names = [name for name in SERVER_PUBLISHES if name != "snapshot" or len(robots) == 1]
    published = [f"{robot}/{name}" for robot in robots for name in names]
    return [Member("sim", published, [f"{robot}/command" for robot in robots]), *(_member(n, plan) for n in plan.nodes)]


def _member(node: NodePlan, plan: Plan) -> Member:
    cls, robot = load_class(node.run, plan.folder), plan.robot_of(node.namespace)

    def topics(names: Iterable[str]) -> list[str]:
        everything = f"{node.namespace}/*" if node.namespace else "*"
        return [everything if name == "*" else resolve(node.remap.get(name, name), robot) for name in names]

    return Member(node.name, topics(cls.publishes), topics(cls.subscribes))


def connections(members: Sequence[Member]) -> list[Connection]:
    """One Connection per topic, in the order of the nodes that publish it; topics without a publisher are last."""
    named = [t for m in members for t in m.publishes if t != "status"]
    subscribed = [t for m in members for t in m.subscribes if not t.endswith("*") and t != "status"]
    return [
        Connection(
            topic,
            tuple(m.name for m in members if topic in m.publishes),
            tuple(m.name for m in members if m.receives(topic) and topic not in m.publishes),
        )
        for topic in dict.fromkeys([*named, *subscribed])
    ]


def owners_of(plan: Plan) -> dict[str, set[str]]:
    """{topic: names of the nodes that may publish it}, for the topics that a node of the plan publishes.

    The table also has the commands of robots that no node of the plan commands, with an empty set, and the plotted
    values of each node.
    """
    owners: dict[str, set[str]] = {f"{view.sim.robot_name}/command": set() for view in plan.views}
    for each in connections(members_of(plan)):
        if each.publishers:
            owners[each.topic] = set(each.publishers)
    for node in plan.nodes:
        owners[node_topic("plot", plan.robot_of(node.namespace), node.local_name)] = {node.name}
    return owners


def unpublished(plan: Plan) -> list[str]:
    """One line for each node and topic such that the node subscribes to the topic and no node of the plan publishes it.

    The topics `cmd_vel`, `enable` and `reference` of the plan's robots are left out, because clients outside of the
    launch publish them, such as `armswing topic pub`. The line suggests the most similar topic that is published.
    """
    found = connections(members_of(plan))
    outside = {f"{view.sim.robot_name}/{name}" for view in plan.views for name in FROM_OUTSIDE}
    known = [each.topic for each in found if each.publishers] + sorted(outside)
    lines = []
    for each in found:
        leaf = each.topic.rpartition("/")[2]
        if each.publishers or each.topic in outside or each.topic in GLOBAL_TOPICS or leaf in NODE_TOPICS:
            continue
        row = lookup(each.topic)  # a topic in the table has no misspelt last part
        near = nearest(each.topic, [topic for topic in known if row is None or topic.rpartition("/")[2] == leaf])
        meant = f"; did you mean {'/' + near!r}?" if near else ""
        lines += [
            f"node {member.name!r} subscribes to {'/' + each.topic!r}, which no node of this launch publishes{meant}"
            for member in members_of(plan)[1:]
            if each.topic in member.subscribes
        ]
    return lines


def text(members: Sequence[Member]) -> str:
    """The graph as text, grouped by publishers.

    Each line has the publishers, topic, message type and subscribers of one topic.
    """
    rows, before = [("publishes", "topic", "message", "received by")], ""
    for each in connections(members):
        publishers = ", ".join(each.publishers) or "(nobody)"
        shown = "" if publishers == before else publishers
        rows.append((shown, each.topic, each.message or "-", ", ".join(each.subscribers) or "(nobody)"))
        before = publishers
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
    )


def svg(members: Sequence[Member], title: str) -> str:
    """The graph as SVG: publishers on the left, topics in the middle, subscribers on the right."""
    found = connections(members)
    names = {m.name: m for m in members}
    left = [name for name in names if any(name in each.publishers for each in found)]
    right = [name for name in names if any(name in each.subscribers for each in found)]
    topics = [each.topic for each in found]
    widths = [_width(left), _width(f"{each.topic}  {each.message}" for each in found), _width(right)]
    between = 140.0
    x = [PAD, PAD + widths[0] + between, PAD + widths[0] + widths[1] + 2 * between]
    height = TOP + max(map(len, (topics, left, right))) * (ROW + GAP) + PAD
    at_topic = {topic: TOP + index * (ROW + GAP) for index, topic in enumerate(topics)}
    at_left = _spread(left, lambda n: [at_topic[e.topic] for e in found if n in e.publishers], height)
    at_right = _spread(right, lambda n: [at_topic[e.topic] for e in found if n in e.subscribers], height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{x[2] + widths[2] + PAD:.0f}" height="{height:.0f}" '
        f'font-family="DejaVu Sans Mono, monospace" font-size="{FONT}">',
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        f'<text x="{PAD}" y="26" fill="{INK}" font-weight="bold">{escape(title)}</text>',
    ]
    for column, heading in zip(x, ("publishes", "topic", "receives"), strict=True):
        parts.append(f'<text x="{column:.0f}" y="{TOP - 12}" fill="{LINE}">{heading}</text>')
    for each in found:
        y = at_topic[each.topic] + ROW / 2
        parts += [_curve(x[0] + widths[0], at_left[name] + ROW / 2, x[1], y) for name in each.publishers]
        parts += [_curve(x[1] + widths[1], y, x[2], at_right[name] + ROW / 2) for name in each.subscribers]
    parts += [_box(x[0], at_left[name], widths[0], name, NODE) for name in left]
    for each in found:
        y, end = at_topic[each.topic], x[1] + widths[1] - GAP
        parts.append(_box(x[1], y, widths[1], each.topic, TOPIC))
        parts.append(
            f'<text x="{end:.1f}" y="{y + ROW / 2 + 5:.1f}" fill="{LINE}" text-anchor="end">{each.message}</text>'
        )
    parts += [_box(x[2], at_right[name], widths[2], name, NODE) for name in right]
    return "\n".join([*parts, "</svg>\n"])


def _width(texts: Iterable[str]) -> float:
    return 2 * GAP + CHARACTER * max(map(len, texts), default=0)


def _spread(names: Sequence[str], near: Callable[[str], list[float]], height: float) -> dict[str, float]:
    """{name of a node: y coordinate} of the nodes in one column of the graph.

    The nodes are ordered by the mean y of their topics. Each node is placed at this mean, or below it if the node above
    is too close.

    near    function that returns the y of each topic of a node
    height  height of the graph
    """
    wanted = sorted((sum(near(name)) / len(near(name)), name) for name in names)
    found, free = {}, float(TOP)
    for index, (y, name) in enumerate(wanted):
        last = height - PAD - (len(wanted) - index) * (ROW + GAP)
        found[name] = free = max(free, min(y, last))
        free += ROW + GAP
    return found


def _box(x: float, y: float, width: float, label: str, fill: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{ROW}" rx="5" fill="{fill}" stroke="{LINE}"/>'
        f'<text x="{x + GAP:.1f}" y="{y + ROW / 2 + 5:.1f}" fill="{INK}">{escape(label)}</text>'
    )


def _curve(x0: float, y0: float, x1: float, y1: float) -> str:
    middle = (x0 + x1) / 2
    path = f"M {x0:.1f} {y0:.1f} C {middle:.1f} {y0:.1f}, {middle:.1f} {y1:.1f}, {x1 - 7:.1f} {y1:.1f}"
    arrow = f"M {x1:.1f} {y1:.1f} l -8 -4 v 8 z"
    return f'<path d="{path}" fill="none" stroke="{LINE}"/><path d="{arrow}" fill="{LINE}"/>'

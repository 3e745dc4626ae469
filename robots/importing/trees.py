"""Tree of links and joints of a URDF file: checks of the tree, and the joints in an order with parents first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from robots.importing.notes import Notes
from robots.importing.xml_reader import Element, Errors
from sim_core.support.suggestion import did_you_mean

WORLD = "world"  # the link that Drake does not want declared
NO_LIMIT = 1e30  # a limit of this size or more is none; `armswing robot export` writes it


@dataclass(frozen=True)
class Edge:
    """A joint element with the names of its parent and child links.

    slide  for a planar joint that is a chain of three joints: the first of them, whose <origin> places the planar
           joint; `element` is the last, the rotation
    """

    name: str
    parent: str
    child: str
    element: Element
    slide: Element | None = None

    def with_link(self, name: str, other: str) -> Edge:
        """The edge with its link `name` renamed to `other`; unchanged if the edge does not have the link `name`."""
        parent, child = (other if end == name else end for end in (self.parent, self.child))
        return replace(self, parent=parent, child=child)


def named(elements: Sequence[Element], kind: str, errors: Errors) -> dict[str, Element]:
    """{name: element} in the order of the file; sets the label of each element.

    Names that are missing or occur twice are added to `errors`.

    kind  kind of the elements, such as "joint", for the labels
    """
    found: dict[str, Element] = {}
    for element in elements:
        with errors.collected():
            name = element.name()
            element.label = f"{kind} {name!r}"
            if name in found:
                element.fail(f"another {kind} at line {found[name].line} has the same name; names must be unique")
            found[name] = element
    return found


def edges_of(joints: dict[str, Element], links: dict[str, Element], notes: Notes, errors: Errors) -> list[Edge]:
    """The joints as edges from parent link to child link.

    Links that do not exist or have two parents are added to `errors`. A parent link WORLD that the file does not
    declare is the world, as in Drake; it is added to `links`, with a note.
    """
    edges: list[Edge] = []
    moved_by: dict[str, Edge] = {}
    for name, element in joints.items():
        with errors.collected():
            ends = []
            for end in ("parent", "child"):
                holder = element.child(end)
                holder.label = f"{element.label}: <{end}>"
                link = holder.name("link")
                if link == WORLD and link not in links and end == "parent":
                    notes.add(holder, f"the link {WORLD!r} is not declared; it is read as the world")
                    links[WORLD] = Element("link", {"name": WORLD}, holder.line, holder.owner, f"link {WORLD!r}")
                if link not in links:
                    holder.fail(f"there is no link {link!r}{did_you_mean(link, links)}")
                ends.append(link)
            edge = Edge(name, ends[0], ends[1], element)
            if edge.parent == edge.child:
                element.fail(f"parent and child are both {edge.child!r}; name two different links")
            if other := moved_by.get(edge.child):
                element.fail(
                    f"this joint moves link {edge.child!r}, which joint {other.name!r} at line {other.element.line} "
                    "moves already; a link has one parent, and a URDF file has no closed loops"
                )
            moved_by[edge.child] = edge
            edges.append(edge)
    return edges


def root_of(links: dict[str, Element], edges: Sequence[Edge]) -> str:
    """Name of the link that is not the child of any joint. Raises InvalidMechanism unless there is exactly one."""
    moved = {edge.child for edge in edges}
    roots = [name for name in links if name not in moved]
    if not roots:
        edge = edges[0]
        edge.element.fail("the joints form a closed loop, because every link is the child of a joint; remove a joint")
    if len(roots) > 1:
        first = links[roots[0]]
        links[roots[1]].fail(
            f"this link and {first.label} at line {first.line} are both roots, because neither is a joint's child; "
            "add a joint that connects them"
        )
    return roots[0]


def in_tree_order(root: str, edges: Sequence[Edge]) -> list[Edge]:
    """The joints in the order of the file, except that joints are moved so that parents come first.

    Raises InvalidMechanism if joints form a circle.
    """
    reached, ordered, waiting = {root}, [], list(edges)
    while waiting:
        later = []
        for edge in waiting:
            if edge.parent in reached:
                reached.add(edge.child)
                ordered.append(edge)
            else:
                later.append(edge)
        if len(later) == len(waiting):
            later[0].element.fail(
                f"the joints {', '.join(repr(edge.name) for edge in later)} form a closed loop that is not "
                f"connected to the root link {root!r}; connect one of their links to the root link instead"
            )
        waiting = later
    return ordered

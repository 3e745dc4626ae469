"""Check of an MJCF file for misspelt elements, attributes and values, which MuJoCo rejects."""

from __future__ import annotations

from robots.importing.mjcf.schema import ATTRIBUTES, CHILDREN, ENABLING, FORMER, WORDS
from robots.importing.notes import Notes
from robots.importing.unread import ALIKE, meant_by
from robots.importing.xml_reader import Element, Errors, short
from sim_core.support.suggestion import did_you_mean, nearest

# elements without elements in MuJoCo
LEAVES = {"joint", "freejoint", "inertial", "site", "pair", "exclude", "key", "numeric", "motor", "position", "general"}
LEAVES |= {"geom", "velocity", "connect", "weld", "flag", "camera", "light"}
# attributes of URDF, and what they are in MJCF
FOREIGN = {"xyz": "pos", "rpy": "euler", "lower": "range", "upper": "range", "origin": "pos"}
REFUSED_LATER = ("mujoco", "body", "equality", "actuator")  # the reader refuses unknown children of these elements


def check_names(root: Element, notes: Notes, errors: Errors) -> None:
    """Add misspelt elements and attributes to `errors`, and warn of other unknown ones.

    Unknown values of attributes that have words as values are added to `errors`, too.

    A name is misspelt if MuJoCo's schema does not have it, but has a similar one. Attributes of elements that the
    import does not read, such as <visual> or <sensor>, are not checked.

    root  the <mujoco> element
    """
    for name in sorted(root.attributes.keys() - {"model"}):
        with errors.collected():
            _report_attribute(root, name, "model", notes)
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        tag = "body" if parent.tag == "worldbody" else parent.tag
        for child in parent.children:
            for check in (_check_tag, _check_attributes, _check_content):
                with errors.collected():
                    check(tag, child, notes)
        waiting += [child for child in reversed(parent.children) if child.tag in (*CHILDREN, "worldbody")]


def _check_tag(parent: str, child: Element, notes: Notes) -> None:
    known = CHILDREN[parent].split()
    if child.tag in known:
        return
    if meant := nearest(child.tag.lower(), known, ALIKE):
        child.fail(f"the tag of this element is unknown in <{parent}>; did you mean <{meant}>?")
    if parent not in REFUSED_LATER:
        notes.add(child, f"<{child.tag}> in <{parent}> is unknown, and is not read")


def _check_content(_parent: str, child: Element, notes: Notes) -> None:
    """Refuse elements in an element that has none in MuJoCo, and warn of text."""
    if child.tag in LEAVES:
        for inner in child.children:
            if child.tag == "geom" and inner.tag == "plugin":
                continue
            inner.fail(f"<{child.tag}> has no element <{inner.tag}>; remove it, or move it to where it belongs")
    if child.content:
        notes.add(child, f"the text {short(child.content)} in <{child.tag}> is not read: MJCF has values in attributes")


def _check_attributes(parent: str, child: Element, notes: Notes) -> None:
    known = ATTRIBUTES.get(("body", "body") if child.tag == "worldbody" else (parent, child.tag))
    if known is None:
        return
    former = FORMER.get(child.tag, "").split()
    for name in sorted(child.attributes.keys() - {*known.split(), *former}):
        _report_attribute(child, name, known, notes)
    for name, value in child.attributes.items():
        words = ENABLING if child.tag == "flag" else WORDS.get(name, "")
        if words and name in known.split() and value not in words.split():
            allowed = ", ".join(words.split())
            child.fail(f"{name} is {value!r}; it must be one of {allowed}{did_you_mean(value, words.split())}")


def _report_attribute(element: Element, name: str, known: str, notes: Notes) -> None:
    if meant := nearest(name.lower(), known.split(), ALIKE) or meant_by(
        name, known.split(), element.attributes, FOREIGN
    ):
        if given := element.attributes.get("name", ""):
            element.label = f"{element.tag} {given!r}"
        element.fail(f"there is no attribute {name!r}; did you mean {meant!r}?")
    notes.add(element, f"attribute {name!r} of <{element.tag}> is unknown, and is not read")

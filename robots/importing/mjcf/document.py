"""Limits of an MJCF file, its included files and its copied elements, checked before MuJoCo reads the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from robots.importing.xml_reader import LARGEST_BYTES, MOST_ELEMENTS, Element, read_xml

MOST_INCLUDES, DEEPEST_INCLUDE = 1000, 50  # files that a file includes, directly and indirectly; levels of them
MOST_COPIES = 10_000  # elements that <replicate> and similar elements make
MOST_BODIES = 2500
MOST_NUMBERS = 10_000_000  # of a height field, a mesh that MuJoCo makes, or a user-defined array
MANY = {"hfield": ("nrow", "ncol"), "mesh": ("params",), "numeric": ("size",)}  # attributes that count numbers
COUNTED = ("composite", "flexcomp")  # elements whose attribute `count` has up to three numbers


def read_document(path: Path, owner: str) -> Element:
    """The <mujoco> element of a file, with each <include> replaced by the content of the included file.

    Raises InvalidMechanism with a one-line message for a file that exceeds a limit.
    """
    root = read_xml(path, owner)
    if root.tag != "mujoco":
        root.fail("this is not an MJCF file; its root element must be <mujoco>")
    sizes: list[int] = []
    _include(root, path.parent, owner, {path.resolve()}, sizes)
    models = _attached(root, path.parent, owner, {path.resolve()}, sizes)
    if (count := _size(root, models)) > MOST_ELEMENTS:
        root.fail(f"the file has more than {MOST_ELEMENTS} elements ({count:.3g}) with its copied ones; shorten it")
    bodies = sum(each.tag == "body" for each in root.walk())
    if bodies > MOST_BODIES:
        root.fail(f"the file has {bodies} bodies; at most {MOST_BODIES} are read")
    for element in root.walk():
        _check_numbers(element)
    return root


def _include(element: Element, folder: Path, owner: str, seen: set[Path], sizes: list[int]) -> None:
    """Replace each <include> in an element by the content of the included file.

    seen   the file of the element and those that include it
    sizes  size of each file that was included so far, bytes
    """
    children: list[Element] = []
    for child in element.children:
        if child.tag != "include":
            _include(child, folder, owner, seen, sizes)
            children.append(child)
            continue
        path = _counted(child, folder, len(seen), sizes)
        if path in seen:
            child.fail(f"file {child.text('file')!r} includes itself, directly or indirectly; remove this <include>")
        included = read_xml(path, f"{owner}: {child.text('file')}")
        _include(included, folder, owner, seen | {path}, sizes)
        children += included.children
    element.children[:] = children


def _attached(root: Element, folder: Path, owner: str, seen: set[Path], sizes: list[int]) -> dict[str, int]:
    """{attached model: number of elements in its file}; the parameters are those of `_include`."""
    found = {}
    for element in root.walk():
        if element.tag != "model" or "file" not in element.attributes:
            continue
        path = _counted(element, folder, len(seen), sizes)
        if path in seen:
            element.fail("the file attaches itself, directly or indirectly; remove this <model>")
        model = read_xml(path, f"{owner}: {element.text('file')}")
        _include(model, path.parent, owner, seen | {path}, sizes)
        size = _size(model, _attached(model, path.parent, owner, seen | {path}, sizes))
        found[element.attributes.get("name", model.attributes.get("model", ""))] = size
    return found


def _counted(element: Element, folder: Path, depth: int, sizes: list[int]) -> Path:
    """Path of the file that an element names; its size is appended to `sizes`."""
    name = element.text("file")
    path = Path(os.path.realpath(folder / name))  # unlike Path.resolve it takes a name that no file can have
    if not os.path.isfile(path):
        element.fail(f"there is no file {name!r}; tried {path}")
    sizes.append(os.path.getsize(path))
    if depth > DEEPEST_INCLUDE or len(sizes) > MOST_INCLUDES or sum(sizes) > LARGEST_BYTES:
        element.fail(
            f"there are more than {MOST_INCLUDES} included files, or {LARGEST_BYTES} bytes of them, or more than "
            f"{DEEPEST_INCLUDE} levels; write the elements into one file"
        )
    return path


def _size(element: Element, models: dict[str, int]) -> int:
    """Number of elements that MuJoCo makes of an element, its descendants and their copies.

    models  {attached model: number of its elements}
    """
    size = sum(_size(child, models) for child in element.children)
    if element.tag == "replicate":
        size *= _count(element)
    elif element.tag in COUNTED:
        size = max(size, 1) * _count(element)
    elif element.tag == "attach":
        size += models.get(element.attributes.get("model", ""), 0)
    if element.tag in ("replicate", *COUNTED) and size > MOST_COPIES:
        element.fail(f"it makes {size} elements; at most {MOST_COPIES} are read")
    return size + 1


def _count(element: Element) -> int:
    product = 1
    for number in _whole(element, "count"):
        product *= max(number, 1)
    return product


def _whole(element: Element, name: str) -> Iterator[int]:
    """The whole numbers of an attribute; MuJoCo itself refuses other words."""
    for word in element.attributes.get(name, "").split():
        try:
            yield int(float(word))
        except (ValueError, OverflowError):
            continue


def _check_numbers(element: Element) -> None:
    """Raise InvalidMechanism for an element of a few words for which MuJoCo makes very many numbers."""
    product = 1
    names = MANY.get(element.tag, ())
    if element.tag == "mesh" and "builtin" not in element.attributes:
        return
    for name in names:
        for number in _whole(element, name):
            product *= max(number, 1)
    if product > MOST_NUMBERS:
        element.fail(f"{' and '.join(names)} ask for {product:.3g} numbers; at most {MOST_NUMBERS} are read")

"""Every function that the walks of the architecture name is there."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import xml.etree.ElementTree as ElementTree
from operator import attrgetter
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("docs_walks", DOCS / "walks.py")
assert spec
assert spec.loader
walks = importlib.util.module_from_spec(spec)
sys.modules["docs_walks"] = walks
spec.loader.exec_module(walks)


@pytest.mark.parametrize("walk", walks.WALKS, ids=lambda walk: walk.page)
def test_every_name_on_a_walk_is_in_the_code(walk: walks.Walk) -> None:
    for _, name, _ in walk.steps:
        module, colon, path = name.partition(":")
        if not colon:
            continue
        if module.startswith("viewer"):
            pytest.importorskip(
                "PyQt5.QtWidgets", reason="apt-get install libgl1: the viewer's window needs Qt", exc_type=ImportError
            )
        assert attrgetter(path)(importlib.import_module(module)), name


@pytest.mark.parametrize("walk", walks.WALKS, ids=lambda walk: walk.page)
def test_a_walk_has_a_page_with_its_picture(walk: walks.Walk) -> None:
    page = (DOCS / "architecture" / f"{walk.page}.md").read_text()
    assert page.startswith(f"# {walk.title}\n")
    assert f"_generated/{walk.page}.svg" in page
    assert len(ElementTree.fromstring(walks.picture(walk))) > 2 * len(walk.steps)

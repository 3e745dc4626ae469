"""The table of a folder of MJCF files lists which are read and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robots.importing.mujoco_models import PAGE, comparison, models_in
from tests.robots.importing.suite_files import counts_of, row

pytestmark = [
    pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning"),
    pytest.mark.usefixtures("elsewhere"),
]

GEOM = '<geom size=".1" pos=".3 0 0"/>'
BODY = f'<mujoco><worldbody><body name="b"><joint name="j" axis="0 1 0"/>{GEOM}</body></worldbody>{{}}</mujoco>'
FILES = {
    "deep/read.xml": BODY.format(""),
    "no_model.xml": "<mujoco><worldbody><body/><nobody/></worldbody></mujoco>",
    "refused.xml": BODY.format("").replace('name="j"', 'name="j" stiffness="1" springyield="1"'),
    "with_ignore.xml": BODY.format('<option density="1"/>'),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def test_the_table_has_one_line_for_each_file_that_mujoco_reads(folder: Path) -> None:
    rows = [row(name, path) for name, path in models_in(folder)]
    assert rows == [
        "| `deep/read.xml` | 1 | read |\n",
        "| `refused.xml` |  | refused: line 1: joint 'j': springyield is not supported; remove it |\n",
        '| `with_ignore.xml` | 1 | read, with `ignore = "fluid"` |\n',
    ]
    assert counts_of(rows) == {"count": 3, "read": 2, "with_ignore": 1, "refused": 1}


def test_the_comparison_has_a_line_for_each_file_that_is_read_whole(folder: Path) -> None:
    lines = {name: comparison(path) for name, path in models_in(folder)}
    assert lines["deep/read.xml"].startswith("agrees, ")
    assert lines["deep/read.xml"].endswith("; the same after an export")
    assert lines["refused.xml"] == lines["with_ignore.xml"] == ""


def test_the_page_of_the_documentation_counts_its_lines() -> None:
    text = PAGE.read_text()
    rows = [line for line in text.splitlines(keepends=True) if line.startswith("| `")]
    counts = counts_of(rows)
    assert f"The {counts['count']} MJCF files" in text
    assert f"{counts['read']} are read, {counts['with_ignore']} of them with `ignore`" in text
    assert f"{counts['refused']} are refused" in text

"""The repository keeps its own rules: what its pages name exists, sources resolve, launch files are right."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sim_core", "robots", "nodes", "viewer")
DOCS = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md") if "_generated" not in page.parts)
PAGES = ("README.md", "CONTRIBUTING.md", *DOCS)
LAUNCH_FILES = sorted((ROOT / "launch").rglob("*.toml"))
CITATION = re.compile(r"\[([A-Z][A-Za-z]+\d{4}[a-z]?)(?:, [^\]]*)?\]")
CONSOLE_SCRIPT = Path(sys.executable).parent / "armswing"


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))
        yield from sorted(path for path in (ROOT / package).rglob("*.md") if path.name != "REFERENCES.md")


def code_lines(page: str) -> Iterator[str]:
    """Lines of the page's fenced shell blocks and its inline code."""
    text = (ROOT / page).read_text()
    for block in re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()
    yield from re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_that_a_page_names_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for line in code_lines(page) for word in re.findall(r"\bmake ([a-z][a-z0-9-]*)", line)}
    assert named or page in DOCS
    assert named <= targets


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_links_to_exists(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)\)", (ROOT / page).read_text())
    ours = [
        link for link in links if "://" not in link and "_generated/" not in link
    ]  # those make docs makes, and checks
    missing = [link for link in ours if not (ROOT / page).parent.joinpath(link).exists()]
    assert links or page in DOCS
    assert not missing


def test_every_picture_on_the_front_page_is_drawn_by_make() -> None:
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    drawn = re.findall(r"^\t.*armswing view \S+ --png (docs/\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert shown
    assert set(shown) == set(drawn)


@pytest.mark.parametrize("page", ["README.md", *DOCS])
def test_every_command_that_a_page_names_has_help(page: str) -> None:
    named = set()
    for line in code_lines(page):
        found = re.match(r"armswing ((?:[a-z]+)(?: (?:[a-z][a-z0-9]*(?:\|[a-z][a-z0-9]*)*))?)", line)
        if found:
            command, _, choices = found[1].partition(" ")
            named |= {(command, choice) for choice in choices.split("|")}
    assert named or page in DOCS
    known = commands()
    for command, subcommand in named:
        assert command in known, f"armswing {command}"
        if known[command] and subcommand:
            assert subcommand in known[command], f"armswing {command} {subcommand}"


def commands() -> dict[str, set[str]]:
    """{command: its subcommands} of the command line."""
    from typer.main import get_command

    from nodes.cli.application import application

    return {
        name: set(getattr(command, "commands", {})) for name, command in get_command(application()).commands.items()
    }


def test_every_cited_key_is_in_the_references() -> None:
    keys = reference_keys()
    unknown = {
        f"{path.relative_to(ROOT)}: [{key}]"
        for path in sources()
        for key in CITATION.findall(path.read_text())
        if key not in keys
    }
    assert not unknown


def test_every_reference_is_cited_somewhere() -> None:
    cited = {key for path in sources() for key in CITATION.findall(path.read_text())}
    assert reference_keys() <= cited


def reference_keys() -> set[str]:
    """The keys that REFERENCES.md defines: [Key] at the start of a line, a list entry or a table row."""
    text = (ROOT / "sim_core/REFERENCES.md").read_text()
    return set(re.findall(r"^[-*|#\s]*\**`?\[([A-Z][A-Za-z]+\d{4}[a-z]?)\]", text, re.MULTILINE))


def test_a_version_of_the_changelog_fits_on_a_screen() -> None:
    """If a merge brought back old lines, take the file of the branch it was merged with, and add the new line again."""
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    assert [section.split()[0] for section in sections[:2]] == ["Unreleased", "0.2.0"]
    assert {section.split()[0]: n for section in sections if (n := len(section.splitlines())) > 60} == {}


def test_launch_and_tests_are_no_packages() -> None:
    """ROS 2 has a Python package called launch: ours must never be imported in its place."""
    assert not [*(ROOT / "launch").rglob("__init__.py"), *(ROOT / "tests").rglob("__init__.py")]


@pytest.mark.parametrize("file", LAUNCH_FILES, ids=lambda file: file.stem)
def test_every_launch_file_is_a_right_plan(file: Path) -> None:
    from nodes.framework.plan.files.file import load_plan

    plan = load_plan(file)
    assert plan.sim.robot


@pytest.mark.parametrize("command", [[str(CONSOLE_SCRIPT)], [sys.executable, "-P", "-m", "nodes.cli"]])
def test_a_folder_called_nodes_where_one_stands_does_not_shadow_ours(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "__init__.py").write_text("raise SystemExit('the wrong nodes package')\n")
    done = subprocess.run(
        [*command, "robot", "list"], cwd=tmp_path, capture_output=True, text=True, timeout=60, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert "rotary_pendulum" in done.stdout


def test_every_library_is_pinned_to_the_version_of_the_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    named = {canonicalize_name(Requirement(line).name) for line in asked}
    assert named - {"armswing"} <= pinned  # which its extra `all` names, for the other extras


def test_importing_nodes_pulls_in_nothing_heavy() -> None:
    program = (
        "import sys; import nodes.node, nodes.framework.plan.launch_plan, nodes.framework.messages, nodes.trajectory;"
        "print(sorted({'numba', 'casadi', 'scipy', 'llvmlite', 'PyQt5'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_skip_that_no_list_allows_fails_the_check(tmp_path: Path) -> None:
    junit, allowed = tmp_path / "junit.xml", tmp_path / "allowed.txt"
    junit.write_text(
        '<testsuites><testsuite><testcase classname="tests.a" name="test_b[x]"><skipped message="no peer"/>'
        '</testcase><testcase classname="tests.a" name="test_c"/></testsuite></testsuites>'
    )

    def check(text: str) -> subprocess.CompletedProcess[str]:
        allowed.write_text(text)
        script = [sys.executable, str(ROOT / ".ci/check_skips.py"), str(junit), str(allowed)]
        return subprocess.run(script, capture_output=True, text=True)

    unlisted = check("# nothing\n")
    assert unlisted.returncode == 1
    assert "tests.a.test_b[x]: no peer" in unlisted.stderr
    assert check("tests.a.test_b[x]: the peer has no wheel here\n").returncode == 0
    assert check("tests.a.*: the peer has no wheel here\n").returncode == 0
    assert check("tests.a.test_b[x]\n").returncode == 2


def test_pages_and_examples_import_from_armswing_alone() -> None:
    """Except the pages on extending armswing and on its architecture, and the files that these pages name."""
    from nodes.cli.commands.setup.controller import CONTROLLER
    from robots.importing.source import FUNCTION

    pages = [page for page in ("README.md", *DOCS) if not page.startswith(("docs/extending/", "docs/architecture/"))]
    files = [*map(ROOT.joinpath, pages), *(ROOT / "docs/examples").glob("*.py"), *(ROOT / "launch").rglob("*.py")]
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in files} | {"armswing new": CONTROLLER}
    texts["robot import"] = FUNCTION
    pattern = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(PACKAGES)})\b.*", re.MULTILINE)
    assert sum("from armswing" in text for text in texts.values()) > 15
    assert {name: found for name, text in texts.items() if (found := pattern.findall(text))} == {}


@pytest.mark.parametrize("package", ["armswing", "sim_core", "nodes"])
def test_a_package_lists_its_public_names_and_has_each(package: str) -> None:
    module = importlib.import_module(package)
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in dir(module))
    assert {"armswing": "build", "sim_core": "mass_matrix", "nodes": "Node"}[package] in dir(module)


def test_every_part_of_a_description_is_imported_from_armswing_mechanism() -> None:
    from armswing import mechanism
    from sim_core.mechanism.constraints import Constraint
    from sim_core.mechanism.guards import Condition, OfSlip
    from sim_core.mechanism.outputs import Output

    parts = {*get_args(Constraint), *get_args(Output), *get_args(Condition)} - {*get_args(OfSlip)}
    assert len(parts) > 30
    assert {part.__name__ for part in parts if getattr(mechanism, part.__name__, None) is not part} == set()

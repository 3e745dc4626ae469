"""Launch files that are installed with armswing: found by name, and copied with all that they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.cli.application import run
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.files.shipped import installed_launch_files, launch_file
from robots.files import SHARE

INSTALLED = installed_launch_files()
ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_launch_file_is_found_by_its_name_and_by_its_path_in_the_repository() -> None:
    files = sorted((ROOT / "launch").rglob("*.toml"))
    assert {path.resolve() for path in INSTALLED.values()} == set(files)
    assert len(INSTALLED) == len(files)  # no two have one name
    for file in files:
        for name in (file.stem, file.name, str(file.relative_to(ROOT))):
            assert launch_file(name).resolve() == file


@pytest.mark.parametrize("place", ["gibbon_cable.toml", "launch/gibbon_cable.toml"])
def test_a_local_launch_file_of_the_name_comes_first(place: str, folder: Path) -> None:
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).write_text('[sim]\nrobot = "triple_pendulum"\n')
    assert load_plan("gibbon_cable").sim.robot == "triple_pendulum"


@pytest.mark.parametrize("name", INSTALLED)
def test_a_copied_launch_file_needs_no_other_installed_file(name: str, folder: Path) -> None:
    assert run(["launch", name, "--copy"]) == 0
    plan = load_plan(name)
    assert Path(plan.folder) == folder
    named = [*(node.run for node in plan.nodes), *(view.sim.robot for view in plan.views)]
    assert not [each for each in named if str(SHARE.resolve()) in each or str(ROOT / "launch") in each]
    for node in plan.nodes:
        if str(file := node.params.get("file", "")).endswith(".csv"):
            assert (folder / file).is_file()


def test_a_copy_replaces_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bench_arm.urdf").write_text("mine")
    assert run(["launch", "push", "--copy"]) == 2
    assert "'bench_arm.urdf' exists and is different" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["bench_arm.urdf"]
    (folder / "bench_arm.urdf").unlink()
    assert [run(["launch", "push", "--copy"]) for _ in range(2)] == [0, 0]
    assert capsys.readouterr().out.splitlines()[:3] == ["wrote push.toml", "wrote bench_arm.urdf", "wrote push.py"]


@pytest.mark.parametrize("more", [[], ["--copy"]])
def test_a_name_like_that_of_an_installed_launch_file_is_suggested(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["launch", "gibon_cable", *more]) == 2
    assert "did you mean 'gibbon_cable'?" in capsys.readouterr().err


def test_the_list_of_installed_launch_files_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["launch", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(INSTALLED)
    assert all(len(line.split()) > 3 for line in lines)

"""The Python file that `armswing robot import` writes returns the mechanism of the model file."""

from __future__ import annotations

from pathlib import Path

import pytest

from armswing import build
from nodes.cli.application import run

BENCH_ARM = str(Path(__file__).resolve().parents[3] / "launch/examples/bench_arm.urdf")


def test_the_written_function_returns_an_equal_mechanism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["robot", "import", BENCH_ARM, "--output", "arm.py"]) == 0
    assert capsys.readouterr().out == "arm.py:bench_arm: 6 bodies, 3 moving joints, 3 actuators\n"
    assert build("arm.py:bench_arm") == build(BENCH_ARM)
    assert run(["robot", "import", BENCH_ARM]) == 0
    assert capsys.readouterr().out == Path("arm.py").read_text()


def test_a_file_with_the_name_of_a_keyword_gives_a_function_that_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("class.urdf").write_text(Path(BENCH_ARM).read_text())
    assert run(["robot", "import", "class.urdf", "--output", "arm.py"]) == 0
    reference = capsys.readouterr().out.partition(": ")[0]
    assert reference == "arm.py:class_"
    assert build(reference) == build("class.urdf")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["rotary_pendulum"],
            "armswing: 'rotary_pendulum' is no model file; give a file with a name that ends with .urdf or ",
        ),
        (["none.urdf"], "armswing: robot 'none.urdf': no such file; tried "),
        ([BENCH_ARM, "--output", "no/arm.py"], "armswing: --output no/arm.py: there is no folder 'no'"),
        (
            [BENCH_ARM, "--param", "friction=much"],
            "friction is 'much'; it must be one of bristles, regularized, ignore",
        ),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["robot", "import", *arguments]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1

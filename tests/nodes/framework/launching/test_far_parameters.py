"""A parameter file with a number far from what ships: where it is said, and that it is said once."""

from __future__ import annotations

import warnings
from pathlib import Path

from nodes.framework.plan.files.file import load_plan
from robots.charmie.parameters import DEFAULT_FILE

PLAN = '[sim]\nrobot = "charmie"\nparameters = {{ file = "{file}" }}\n'


def test_checking_a_plan_leaves_the_warning_to_the_server(tmp_path: Path) -> None:
    file, plan = tmp_path / "mine.toml", tmp_path / "plan.toml"
    file.write_text(DEFAULT_FILE.read_text().replace("mass = 20.0", "mass = 20000.0", 1))
    plan.write_text(PLAN.format(file=file))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_plan(plan).sim.parameters == {"file": str(file)}

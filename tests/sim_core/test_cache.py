"""What is compiled is kept, and thrown away when anything it came from changes."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from robots.registry import build
from sim_core.integrators.ahead import example_arguments
from sim_core.inverse import inverse_dynamics
from sim_core.kernels.bound import ROW
from sim_core.kernels.machine_code import native
from sim_core.kernels.stepping import is_loop_cached
from sim_core.simulation import Simulation
from sim_core.system import assemble

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import sys
from robots.registry import build
from sim_core.system import assemble
from sim_core.simulation import Simulation
from sim_core.stabilization.stabilizers import Baumgarte
system = assemble(build("triple_pendulum"))
sim = Simulation(system, stepper="semi_implicit", stabilizer=Baumgarte(5.0, 12.0))
sim.step(100)
loaded = "casadi" in sys.modules, "numba" in sys.modules
print(system.from_cache, *loaded, sim.state.q.tolist().__repr__())
"""


def run(folder: Path, cache: Path) -> list[str]:
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(cache),
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN], env=environment, cwd=cache, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(maxsplit=3)


def copy_of_the_sources(folder: Path) -> Path:
    for package in ("sim_core", "robots"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_a_warm_start_derives_nothing_and_an_edited_law_is_seen(tmp_path: Path) -> None:
    sources, cache = copy_of_the_sources(tmp_path / "sources"), tmp_path / "cache"
    cache.mkdir()
    cold, warm = run(sources, cache), run(sources, cache)
    assert cold[:3] == ["False", "True", "True"]
    assert warm[:3] == ["True", "False", "False"]
    assert warm[3] == cold[3]
    # the law is a callee of the loop, in another file than the loop's
    laws = sources / "sim_core" / "stabilization" / "laws.py"
    text = laws.read_text()
    assert "2.0 * alpha * phidot[row]" in text
    laws.write_text(text.replace("2.0 * alpha * phidot[row]", "1.0 * alpha * phidot[row]"))
    step = sources / "sim_core" / "integrators" / "step.py"
    edited = run(sources, cache)
    assert edited[3] != cold[3]
    # and an inner function that is compiled into the loop
    text = step.read_text()
    assert "failed += m.state[Q, i] * 0.0 +" in text
    step.write_text(text.replace("failed += m.state[Q, i] * 0.0 +", "failed += m.state[Q, i] * 0.0 + 1.0 +"))
    environment_refuses = subprocess.run(
        [sys.executable, "-P", "-c", RUN],
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(sources)},
        cwd=cache,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "SimulationDiverged" in environment_refuses.stderr


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    program = "from robots.registry import build\nfrom sim_core.system import assemble\n"
    program += "print(assemble(build('rotary_pendulum')).from_cache)"
    started = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    printed = [process.communicate(timeout=100)[0].strip() for process in started]
    assert sorted(printed) == ["False", "True", "True"]


def test_a_damaged_object_is_compiled_anew(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cold = run(ROOT, cache)
    (stored,) = (cache / "armswing" / "kernels").glob("*.o")
    stored.write_bytes(stored.read_bytes()[:-100])
    again = run(ROOT, cache)
    assert again[0] == "False"
    assert again[3] == cold[3]


def test_a_bound_kernel_keeps_the_code_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_loaded", {})  # nothing else keeps the library
    monkeypatch.setattr(native, "MOST_LOADED", 0)
    system = assemble(build("arm_2dof"))
    q, v, a, tau = (np.full(2, 0.3) for _ in range(4))
    call, library = system.bind_inverse_dynamics(q, v, a, tau), weakref.ref(system._library)
    expected = inverse_dynamics(system, q, v, a)
    del system
    gc.collect()
    assert library() is not None
    call()
    np.testing.assert_array_equal(tau, expected)
    del call
    gc.collect()
    assert library() is None


def test_what_is_compiled_is_said_once_and_a_start_from_the_cache_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    caplog.set_level("INFO", logger="armswing.compile")
    assemble(build("arm_2dof"))
    first, second = caplog.messages
    assert first == f"compiling the kernels of 'arm_2dof', a few seconds, once: {tmp_path}/armswing keeps it"
    assert re.fullmatch(r"compiled the kernels of 'arm_2dof' in \d+\.\d s", second)
    caplog.clear()
    assert assemble(build("arm_2dof")).from_cache
    assert caplog.messages == []


def test_whether_a_loop_is_kept_is_known_before_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation(assemble(build("triple_pendulum")), stepper="semi_implicit")
    sim.warm_up()
    loop = sim.stepper.loop(), example_arguments(sim.stepper)
    assert is_loop_cached(*loop)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ARMSWING_INSTALLED_LOOPS", "")
    assert not is_loop_cached(*loop)


def test_a_loaded_library_is_kept_until_its_files_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    key = assemble(build("single_pendulum")).code_hash
    first = native.load_shared(key)
    assert first is not None
    assert native.load_shared(key) is first
    stem = tmp_path / "armswing" / "kernels" / key
    shutil.copy(stem.with_suffix(".json"), tmp_path / "copy.json")
    os.replace(tmp_path / "copy.json", stem.with_suffix(".json"))
    second = native.load_shared(key)
    assert second is not None
    assert second is not first
    data = stem.with_suffix(".o").read_bytes()
    stem.with_suffix(".o").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert native.load_shared(key) is None
    stem.with_suffix(".o").unlink()
    assert native.load_shared(key) is None


def test_only_the_last_libraries_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(native, "MOST_LOADED", 2)
    keys = [assemble(build(name)).code_hash for name in ("single_pendulum", "double_pendulum", "simple_pendulum")]
    first = native.load_shared(keys[0])
    for key in keys[1:]:
        native.load_shared(key)
    assert len(native._loaded) == 2
    assert native.load_shared(keys[0]) is not first


def test_more_kernels_than_one_row_of_slots_are_bound_at_a_time() -> None:
    system = assemble(build("single_pendulum"))
    q, v, a = np.array([0.3]), np.zeros(1), np.zeros(1)
    outs = [np.zeros(1) for _ in range(5 * ROW)]
    calls = [system.bind_inverse_dynamics(q, v, a, out) for out in outs]
    for call, out in zip(calls, outs, strict=True):
        call()
        assert out[0] == outs[0][0] != 0.0
        out[0] = 0.0
        outs[0][0] = 0.0
        calls[0]()

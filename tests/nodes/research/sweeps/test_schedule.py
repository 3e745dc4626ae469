"""Order in which a sweep gives cells to its workers: the first cell of what is compiled anew runs alone."""

from __future__ import annotations

from nodes.research.sweeps.axes import parse_axis
from nodes.research.sweeps.design import Sweep
from nodes.research.sweeps.engine import Schedule


def sweep_over(*axes: str, repeat: int = 1) -> Sweep:
    return Sweep(launch="/arm.toml", cwd="/", axes=[parse_axis(text) for text in axes], repeat=repeat, seconds=1.0)


def test_cells_with_one_value_of_a_planners_parameter_run_together_and_its_first_alone() -> None:
    sweep = sweep_over("planner.modes=10,20", repeat=3)
    schedule = Schedule(sweep, range(sweep.cells))
    assert schedule.next() == 0
    assert schedule.next() is None  # the robot's kernels are not compiled yet
    schedule.ended(0)
    assert [schedule.next() for _ in range(4)] == [1, 2, 3, None]
    schedule.ended(3)
    assert [schedule.next() for _ in range(3)] == [4, 5, None]


def test_a_method_compiles_before_the_values_of_a_planners_parameter() -> None:
    sweep = sweep_over("sim.stepper=rk4,euler", "planner.modes=10,20", repeat=2)
    schedule = Schedule(sweep, range(sweep.cells))
    assert [schedule.next() for _ in range(3)] == [0, 4, None]  # one of each method
    schedule.ended(4)
    assert [schedule.next() for _ in range(3)] == [5, 6, None]
    schedule.ended(0)
    assert [schedule.next() for _ in range(3)] == [1, 2, None]


def test_an_axis_of_a_node_with_many_values_is_not_grouped() -> None:
    sweep = sweep_over("planner.tolerance_mm=0:1:1001", "planner.modes=10,20")
    schedule = Schedule(sweep, range(sweep.cells))
    assert schedule.next() == 0
    schedule.ended(0)
    assert [schedule.next() for _ in range(4)] == [2, 4, 6, 8]


def test_cells_that_were_run_before_are_left_out() -> None:
    sweep = sweep_over("planner.modes=10,20", repeat=3)
    schedule = Schedule(sweep, [2, 5])
    assert schedule.next() == 2
    schedule.ended(2)
    assert schedule.next() == 5
    assert schedule.next() is None

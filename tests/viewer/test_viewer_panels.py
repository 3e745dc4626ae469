"""What is plotted where: a panel per unit, none for what a robot does not have, and what is said about that."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.messages import (
    ActuatorDescription,
    BodyDescription,
    Description,
    Event,
    ForceDescription,
    GripperDescription,
    JointDescription,
    RobotState,
)
from viewer.data.signals import Signals
from viewer.panels import Panel, arrange, check_curves, choose_fields

SLIDES, TURNS = JointDescription(name="cart", unit="m"), JointDescription(name="pole", unit="rad")


def robot(joints: list[JointDescription], driven: list[str], phi: float = 1e-12) -> Signals:
    units = {joint.name: "N" if joint.unit == "m" else "N m" for joint in joints}
    signals = Signals()
    actuators = [ActuatorDescription(name=name, joint=name, unit=units[name]) for name in driven]
    signals.take("it/description", Description(robot="it", joints=joints, actuators=actuators))
    names = [joint.name for joint in joints]
    zeros = [0.0] * len(names)
    for tick in range(3):
        state = RobotState(timestamp=0.1 * tick, name=names, position=zeros, velocity=zeros, effort=zeros, phi=phi)
        signals.take("it/state", state)
    return signals


def shown(panels: tuple[Panel, ...]) -> list[str]:
    return [f"{panel.field.name} {panel.unit}" + (" wide" if panel.wide else "") for panel in panels]


def test_metres_and_radians_never_share_an_axis() -> None:
    panels, left_out = arrange(choose_fields([]), robot([SLIDES, TURNS], ["cart", "pole"]), keep_empty=False)
    assert shown(panels)[:6] == [
        "position m",
        "velocity m/s",
        "position rad",
        "velocity rad/s",
        "effort N",
        "effort N m",
    ]
    assert [panel.only for panel in panels[:4]] == [{"cart"}, {"cart"}, {"pole"}, {"pole"}]
    assert left_out == ""


def test_joints_of_one_unit_share_a_panel_and_undriven_ones_have_no_effort() -> None:
    panels, _ = arrange(choose_fields([]), robot([TURNS, JointDescription(name="arm")], ["arm"]), keep_empty=False)
    assert shown(panels)[:3] == ["position rad", "velocity rad/s", "effort N m"]
    assert [panel.takes("pole") for panel in panels[:3]] == [True, True, False]


def test_free_and_spherical_joints_have_plots_of_position_in_metres_and_of_the_quaternion() -> None:
    signals = robot([], [])
    signals.take("it/description", Description(robot="it", frames=["base", "ball"]))
    for tick in range(3):
        base, ball = [0.1 * tick, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.6, 0.8, 0.0, 0.0]
        signals.take("it/state", RobotState(timestamp=1.0 + tick, frames=[*base, *ball]))
    panels, left_out = arrange(choose_fields([]), signals, keep_empty=False)
    assert shown(panels)[:2] == ["place m", "orientation 1"]
    place, orientation = signals.series["place"], signals.series["orientation"]
    assert tuple(place.labels) == ("base x", "base y", "base z")  # the points of a spherical joint coincide
    assert place.values[-1].tolist() == [0.2, 0.0, 0.5]
    assert tuple(orientation.labels) == tuple(f"{name} q{part}" for name in ("base", "ball") for part in "wxyz")
    assert orientation.values[-1].tolist() == [1.0, 0.0, 0.0, 0.0, 0.6, 0.8, 0.0, 0.0]
    panels, left_out = arrange(choose_fields(["place"]), robot([TURNS], ["pole"]), keep_empty=False)
    assert (panels, left_out) == ((), "not plotted: position (this robot has no free joints)")


def test_a_violation_that_is_always_exactly_zero_has_no_panel() -> None:
    panels, left_out = arrange(choose_fields([]), robot([TURNS], ["pole"], phi=0.0), keep_empty=False)
    assert shown(panels) == ["position rad", "velocity rad/s", "effort N m", "energy J"]
    assert left_out == "not plotted: violation (exactly 0 in every state: no constraints)"


def test_a_violation_that_ever_was_keeps_its_panel() -> None:
    signals = robot([TURNS], ["pole"], phi=1e-16)
    signals.take("it/state", RobotState(timestamp=0.0, name=["pole"], position=[0.0]))
    assert "phi constraints' units" in shown(arrange(choose_fields([]), signals, keep_empty=False)[0])


def test_what_leaves_no_pair_gives_the_energy_both_columns() -> None:
    panels, left_out = arrange(choose_fields([]), robot([TURNS], []), keep_empty=False)
    assert shown(panels)[2] == "energy J wide"
    assert [panel.wide for panel in panels] == [False, False, True, False, False]
    assert left_out == "not plotted: effort (this robot has no actuators)"


def test_fields_that_were_asked_for_stay_and_say_why_they_are_empty() -> None:
    panels, left_out = arrange(choose_fields(["effort", "phi"]), robot([TURNS], [], phi=0.0), keep_empty=True)
    assert [panel.remark for panel in panels] == [
        "this robot has no actuators",
        "exactly 0 in every state: no constraints",
    ]
    assert not any(panel.takes("pole") or panel.takes("phi") for panel in panels)
    assert left_out == ""


def test_a_grid_draws_each_curve_in_its_panel_and_lays_itself_out_anew(qtbot: Any) -> None:
    pytest.importorskip("pyqtgraph", exc_type=ImportError)
    from viewer.qt.plots import PlotGrid

    grid = PlotGrid(choose_fields([]))
    qtbot.addWidget(grid.widget)
    grid.show(robot([TURNS], ["pole"], phi=0.0), 0.0, 0.2)
    assert [plot.field.name for plot in grid.plots] == ["position", "velocity", "effort", "energy"]
    signals = robot([SLIDES, TURNS], [])
    grid.show(signals, 0.0, 0.2)
    labels = [[label for _, label in plot._curves] for plot in grid.plots]
    assert labels == [["cart"], ["cart"], ["pole"], ["pole"], ["energy"], ["phi"], ["phidot"]]
    pens = [next(iter(plot._curves.values())).opts["pen"].color().name() for plot in grid.plots[:4]]
    assert pens[0] == pens[1] != pens[2] == pens[3]
    grid.plots[0].plot.setXRange(0.05, 0.1, padding=0.0)
    for plot in grid.plots:
        assert plot.plot.viewRange()[0] == pytest.approx([0.05, 0.1])


def test_a_wide_grid_has_four_columns_and_its_last_panel_takes_what_is_left(qtbot: Any) -> None:
    pytest.importorskip("pyqtgraph", exc_type=ImportError)
    from viewer.qt.plots import PlotGrid

    grid = PlotGrid(choose_fields([]))
    qtbot.addWidget(grid.widget)
    signals = robot([SLIDES, TURNS], [])

    def columns() -> list[list[int]]:
        cells = grid.widget.ci.items
        return [sorted({column for row, column in cells[plot.plot]}) for plot in grid.plots]

    grid.show(signals, 0.0, 0.2)
    assert columns() == [[0], [1], [0], [1], [0, 1], [0], [1]]
    grid.wide = True
    grid.show(signals, 0.0, 0.2)
    assert columns() == [[0], [1], [2], [3], [0], [1], [2, 3]]
    grid.plots[0].plot.setXRange(0.05, 0.1, padding=0.0)
    for plot in grid.plots:
        assert plot.plot.viewRange()[0] == pytest.approx([0.05, 0.1])


def test_what_no_state_tells_of_has_no_panel() -> None:
    signals = robot([TURNS], ["pole"])
    assert signals.description is not None
    signals.description.actuators.append(ActuatorDescription(name="grip", joint="", unit="1"))
    assert shown(arrange(choose_fields(["effort"]), signals, keep_empty=False)[0]) == ["effort N m"]


def climber(phi: float) -> Signals:
    """A robot with one gripper and a force on it, that lets go and takes hold again."""
    signals = Signals()
    description = Description(
        robot="it",
        joints=[TURNS],
        bodies=[BodyDescription(name="paw")],
        outputs=["x", "z", "along", "across"],
        output_units=["N", "N", "1", "1"],
        forces=[ForceDescription(name="paw", body="paw", outputs=["x", "z"], axes=[1.0, 0.0, 0.0, 0.0, 0.0, 1.0])],
        holds=[GripperDescription(name="paw", body="paw", outputs=["along", "across"])],
    )
    signals.take("it/description", description)
    for tick, values in enumerate([(3.0, 4.0, 1.0, 1.0), (0.0, 2.0, 0.0, 1.0), (0.0, 0.0, 0.0, 0.0)]):
        told = dict(zip(description.outputs, values, strict=True))
        state = RobotState(timestamp=0.1 * tick, name=["pole"], position=[0.0], velocity=[0.0], phi=phi, outputs=told)
        signals.take("it/state", state)
    signals.take("it/event", Event(timestamp=0.2, kind="release", part="paw", source="held", target="free"))
    signals.take("it/event", Event(timestamp=0.2, kind="set", key="mass"))
    return signals


def test_forces_and_grippers_take_the_place_of_violations_that_are_small() -> None:
    names = [panel.field.name for panel in arrange(choose_fields([]), climber(1e-12), keep_empty=False)[0]]
    assert names == ["position", "velocity", "energy", "force", "hold"]
    names = [panel.field.name for panel in arrange(choose_fields([]), climber(1e-6), keep_empty=False)[0]]
    assert names == ["position", "velocity", "energy", "phi", "force", "hold"]


def test_a_force_is_plotted_by_its_size_and_a_gripper_by_what_it_does() -> None:
    signals = climber(0.0)
    force, hold = signals.derived("force"), signals.derived("hold")
    assert force is not None
    assert hold is not None
    assert (force.labels, hold.labels) == (("paw",), ("paw",))
    assert force.values[:, 0].tolist() == [5.0, 2.0, 0.0]
    assert hold.values[:, 0].tolist() == [2.0, 1.0, 0.0]
    assert robot([TURNS], []).derived("force") is None
    (panel,), _ = arrange(choose_fields(["hold"]), robot([TURNS], []), keep_empty=True)
    assert panel.remark == "this robot has no grippers"


def test_what_a_gripper_does_is_written_on_its_axis_in_words(qtbot: Any) -> None:
    pytest.importorskip("pyqtgraph", exc_type=ImportError)
    from viewer.qt.plots import PlotGrid

    grid, signals = PlotGrid(choose_fields(["hold", "outputs.across"])), climber(0.0)
    qtbot.addWidget(grid.widget)
    grid.show(signals, 0.0, 0.15)  # while it slides and grips
    hold, outputs = (plot.plot for plot in grid.plots)
    assert hold.getAxis("left")._tickLevels == [[(0, "open"), (1, "slides"), (2, "grips")]]
    low, high = hold.getViewBox().viewRange()[1]
    assert low < 0.0
    assert high > 2.0
    assert outputs.getAxis("left")._tickLevels is None


def test_one_curve_alone_has_the_first_colour_and_no_dashes(qtbot: Any) -> None:
    pytest.importorskip("pyqtgraph", exc_type=ImportError)
    from viewer.qt import theme
    from viewer.qt.plots import PlotGrid

    signals = Signals()
    many = {f"output_{k}": float(k) for k in range(12)}
    for tick in range(3):
        signals.take("it/state", RobotState(timestamp=0.1 * tick, outputs=many))
    grid = PlotGrid(choose_fields(["outputs.output_11"]), keep_empty=True)
    qtbot.addWidget(grid.widget)
    grid.set_still()
    grid.show(signals, 0.0, 0.3)
    (plot,) = grid.plots
    ((_, label),) = plot._curves
    pen = plot._curves["", label].opts["pen"]
    assert (label, pen.color().name(), pen.dashPattern()) == ("output_11", theme.curve_color(0), [])


def test_changes_of_configuration_stand_as_lines_in_every_plot(qtbot: Any) -> None:
    pytest.importorskip("pyqtgraph", exc_type=ImportError)
    from viewer.qt.plots import PlotGrid

    grid, signals = PlotGrid(choose_fields([])), climber(0.0)
    qtbot.addWidget(grid.widget)
    grid.show(signals, 0.0, 0.3)
    assert signals.changes == [(0.2, "release")]
    for plot in grid.plots:
        assert [line.value() for line in plot._changes if line.isVisible()] == [0.2]
    grid.show(signals, 0.0, 0.1)
    assert not any(line.isVisible() for plot in grid.plots for line in plot._changes)


def test_one_curve_is_plotted_by_name_and_a_misspelt_one_is_told_what_was_meant() -> None:
    signals = climber(0.0)
    fields = choose_fields(["outputs.along", "position.pole", "force.paw"])
    check_curves(fields, signals)
    panels, _ = arrange(fields, signals, keep_empty=True)
    assert [(panel.field.name, panel.unit, panel.only) for panel in panels] == [
        ("outputs", "1", {"along"}),
        ("position", "rad", {"pole"}),
        ("force", "N", {"paw"}),
    ]
    with pytest.raises(ValueError, match=r"field 'outputs' has no curve 'alon'; did you mean 'outputs.along'\?"):
        check_curves(choose_fields(["outputs.alon"]), signals)
    with pytest.raises(ValueError, match=r"FIELD\.CURVE for a single curve, such as outputs\.along, or TOPIC"):
        choose_fields(["along"])
    with pytest.raises(ValueError, match=r"no field 'positon' to plot; did you mean 'position'\?"):
        choose_fields(["positon"])
    with pytest.raises(ValueError, match=r"no field 'along' to plot; did you mean 'outputs.along'\?"):
        choose_fields(["along"], signals)

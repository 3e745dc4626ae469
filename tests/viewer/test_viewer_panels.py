"""What is plotted where: a panel per unit, none for what a robot does not have, and what is said about that."""

from __future__ import annotations

import pytest

from nodes.framework.messages import (
    ActuatorDescription,
    BodyDescription,
    Description,
    Event,
    ForceDescription,
    GripperDescription,
    JointDescription,
    RobotState,
)
from viewer.curves import colour_places
from viewer.data.signals import Signals
from viewer.layout import Curve, PlotSpec
from viewer.panels import check_curves, choose_fields, default_plots

SLIDES, TURNS = JointDescription(name="cart", unit="m"), JointDescription(name="pole", unit="rad")


def robot(joints: list[JointDescription], driven: list[str], phi: float = 1e-12) -> Signals:
    units = {joint.name: "N" if joint.unit == "m" else "N m" for joint in joints}
    signals = Signals()
    actuators = [ActuatorDescription(name=name, joint=name, unit=units[name]) for name in driven]
    signals.add([("it/description", Description(robot="it", joints=joints, actuators=actuators))])
    names = [joint.name for joint in joints]
    zeros = [0.0] * len(names)
    for tick in range(3):
        state = RobotState(timestamp=0.1 * tick, name=names, position=zeros, velocity=zeros, effort=zeros, phi=phi)
        signals.add([("it/state", state)])
    return signals


def values(signals: Signals, field: str, label: str) -> list[float]:
    column = signals.column(field, label)
    assert column is not None
    return [float(value) for value in column[1]]


def last(signals: Signals, field: str) -> list[float]:
    return [values(signals, field, label)[-1] for label in signals.labels(field)]


def shown(specs: tuple[PlotSpec, ...]) -> list[str]:
    return [f"{spec.title} {spec.unit}" for spec in specs]


def curves(specs: tuple[PlotSpec, ...]) -> list[list[str]]:
    return [[curve.field for curve in spec.curves] for spec in specs]


def test_metres_and_radians_never_share_an_axis() -> None:
    specs, left_out = default_plots(choose_fields([]), robot([SLIDES, TURNS], ["cart", "pole"]), keep_empty=False)
    assert shown(specs)[:6] == [
        "Position m",
        "Velocity m/s",
        "Position rad",
        "Velocity rad/s",
        "Effort N",
        "Effort N m",
    ]
    assert curves(specs[:4]) == [["position.cart"], ["velocity.cart"], ["position.pole"], ["velocity.pole"]]
    assert left_out == ""


def test_joints_of_one_unit_share_a_panel_and_undriven_ones_have_no_effort() -> None:
    specs, _ = default_plots(choose_fields([]), robot([TURNS, JointDescription(name="arm")], ["arm"]), keep_empty=False)
    assert shown(specs)[:3] == ["Position rad", "Velocity rad/s", "Effort N m"]
    assert [len(fields) for fields in curves(specs[:3])] == [2, 2, 1]


def test_free_and_spherical_joints_have_plots_of_position_in_metres_and_of_the_quaternion() -> None:
    signals = robot([], [])
    signals.add([("it/description", Description(robot="it", frames=["base", "ball"]))])
    for tick in range(3):
        base, ball = [0.1 * tick, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.6, 0.8, 0.0, 0.0]
        signals.add([("it/state", RobotState(timestamp=1.0 + tick, frames=[*base, *ball]))])
    specs, left_out = default_plots(choose_fields([]), signals, keep_empty=False)
    assert shown(specs)[:2] == ["Position of free joints m", "Orientation as quaternion w x y z 1"]
    assert signals.labels("place") == ["base x", "base y", "base z"]  # the points of a spherical joint coincide
    assert last(signals, "place") == [0.2, 0.0, 0.5]
    assert signals.labels("orientation") == [f"{name} q{part}" for name in ("base", "ball") for part in "wxyz"]
    assert last(signals, "orientation") == [1.0, 0.0, 0.0, 0.0, 0.6, 0.8, 0.0, 0.0]
    specs, left_out = default_plots(choose_fields(["place"]), robot([TURNS], ["pole"]), keep_empty=False)
    assert (specs, left_out) == ((), "not plotted: position (this robot has no free joints)")


def test_a_violation_that_is_always_exactly_zero_has_no_panel() -> None:
    specs, left_out = default_plots(choose_fields([]), robot([TURNS], ["pole"], phi=0.0), keep_empty=False)
    assert shown(specs) == ["Position rad", "Velocity rad/s", "Effort N m", "Energy J"]
    assert left_out == "not plotted: violation (exactly 0 in every state: no constraints)"


def test_a_violation_that_ever_was_keeps_its_panel() -> None:
    signals = robot([TURNS], ["pole"], phi=1e-16)
    signals.add([("it/state", RobotState(timestamp=0.0, name=["pole"], position=[0.0]))])
    assert "Violation |Φ| constraints' units" in shown(default_plots(choose_fields([]), signals, keep_empty=False)[0])


def test_a_robot_without_actuators_has_no_effort() -> None:
    specs, left_out = default_plots(choose_fields([]), robot([TURNS], []), keep_empty=False)
    assert shown(specs)[2] == "Energy J"
    assert left_out == "not plotted: effort (this robot has no actuators)"


def test_fields_that_were_asked_for_stay_and_say_why_they_are_empty() -> None:
    specs, left_out = default_plots(choose_fields(["effort", "phi"]), robot([TURNS], [], phi=0.0), keep_empty=True)
    assert [spec.title for spec in specs] == [
        "Effort  (this robot has no actuators)",
        "Violation |Φ|  (exactly 0 in every state: no constraints)",
    ]
    assert curves(specs) == [[], []]
    assert left_out == ""


def test_what_no_state_tells_of_has_no_panel() -> None:
    signals = robot([TURNS], ["pole"])
    assert signals.description is not None
    signals.description.actuators.append(ActuatorDescription(name="grip", joint="", unit="1"))
    assert shown(default_plots(choose_fields(["effort"]), signals, keep_empty=False)[0]) == ["Effort N m"]


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
    signals.add([("it/description", description)])
    for tick, values in enumerate([(3.0, 4.0, 1.0, 1.0), (0.0, 2.0, 0.0, 1.0), (0.0, 0.0, 0.0, 0.0)]):
        told = dict(zip(description.outputs, values, strict=True))
        state = RobotState(timestamp=0.1 * tick, name=["pole"], position=[0.0], velocity=[0.0], phi=phi, outputs=told)
        signals.add([("it/state", state)])
    signals.add([("it/event", Event(timestamp=0.2, kind="release", part="paw", source="held", target="free"))])
    signals.add([("it/event", Event(timestamp=0.2, kind="set", key="mass"))])
    return signals


def test_forces_and_grippers_take_the_place_of_violations_that_are_small() -> None:
    names = [spec.title for spec in default_plots(choose_fields([]), climber(1e-12), keep_empty=False)[0]]
    assert names == ["Position", "Velocity", "Energy", "Force", "Grippers"]
    names = [spec.title for spec in default_plots(choose_fields([]), climber(1e-6), keep_empty=False)[0]]
    assert names == ["Position", "Velocity", "Energy", "Violation |Φ|", "Force", "Grippers"]


def test_a_force_is_plotted_by_its_size_and_a_gripper_by_what_it_does() -> None:
    signals = climber(0.0)
    assert (signals.labels("force"), signals.labels("hold")) == (["paw"], ["paw"])
    assert values(signals, "force", "paw") == [5.0, 2.0, 0.0]
    assert values(signals, "hold", "paw") == [2.0, 1.0, 0.0]
    assert robot([TURNS], []).labels("force") == []
    (spec,), _ = default_plots(choose_fields(["hold"]), robot([TURNS], []), keep_empty=True)
    assert spec.title == "Grippers  (this robot has no grippers)"


def test_one_curve_is_plotted_by_name_and_a_misspelt_one_is_told_what_was_meant() -> None:
    signals = climber(0.0)
    fields = choose_fields(["outputs.along", "position.pole", "force.paw"])
    check_curves(fields, signals)
    specs, _ = default_plots(fields, signals, keep_empty=True)
    assert [spec.unit for spec in specs] == ["1", "rad", "N"]
    assert curves(specs) == [["outputs.along"], ["position.pole"], ["force.paw"]]
    with pytest.raises(ValueError, match=r"field 'outputs' has no curve 'alon'; did you mean 'outputs.along'\?"):
        check_curves(choose_fields(["outputs.alon"]), signals)
    with pytest.raises(ValueError, match=r"FIELD\.CURVE for a single curve, such as outputs\.along, or TOPIC"):
        choose_fields(["along"])
    with pytest.raises(ValueError, match=r"no field 'positon' to plot; did you mean 'position'\?"):
        choose_fields(["positon"])
    with pytest.raises(ValueError, match=r"no field 'along' to plot; did you mean 'outputs.along'\?"):
        choose_fields(["along"], signals)


def test_plots_name_their_curves_and_a_joint_has_one_colour_in_all_of_them() -> None:
    specs, _ = default_plots(choose_fields([]), robot([SLIDES, TURNS], []), keep_empty=False)
    assert curves(specs)[:5] == [["position.cart"], ["velocity.cart"], ["position.pole"], ["velocity.pole"], ["energy"]]
    joints = ["cart", "pole"]
    places = [list(colour_places(spec.curves, joints).values()) for spec in specs[:4]]
    assert places == [[0], [0], [1], [1]]
    both = [Curve("it/state", f"{kind}.pole") for kind in ("position", "velocity")]
    assert list(colour_places(both, joints).values()) == [0, 1]  # two quantities in one plot
    specs, _ = default_plots(choose_fields(["hold", "outputs.across"]), climber(0.0), keep_empty=True)
    assert [spec.words for spec in specs] == [("open", "slides", "grips"), ()]
    assert [[curve.topic for curve in spec.curves] for spec in specs] == [["it/derived"], ["it/state"]]
    many = [Curve("it/state", f"outputs.output_{place}") for place in (11, 3)]
    assert list(colour_places(many, joints).values()) == [0, 1]

"""What a listener can draw of a robot: supports, springs, forces, and its beams as they are deflected."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nodes.cli.application import run as command_line
from nodes.framework.messages import BodyPoses, Message, Polylines
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.simulation.description import describe, output_names, output_units
from nodes.framework.simulation.server import SimServer
from robots.registry import build, names
from sim_core.errors import UnknownName
from sim_core.mechanism import Body, ForceArrow, Joint, Mechanism, SphereContact, SurfaceForceOutput, X
from sim_core.mechanism.validation import validate
from sim_core.system import assemble


@pytest.mark.parametrize("formulation", ["partitioned", "schur"])
@pytest.mark.parametrize("modes", [0, 5])
def test_a_beam_is_said_as_it_is_deflected_through_the_point_that_hangs_on_it(formulation: str, modes: int) -> None:
    parameters = {"formulation": formulation, "modes": modes, "elements": 6, "supports": "simple"}
    sim = SimPlan(robot="lipinski_pendulum", mode="lockstep", stepper="implicit_midpoint", parameters=parameters)
    server = SimServer(Plan(name="p", sim=sim))
    heard: list[Message] = []
    server.out = lambda topic, payload: heard.append(decode(topic, payload))
    server.start()
    for _ in range(100):
        server.step()
    all_lines, all_poses = ([m for m in heard if isinstance(m, kind)] for kind in (Polylines, BodyPoses))
    description = server.robots[0].messages.description
    bodies = [body.name for body in description.bodies]
    assert len(all_lines) == len(all_poses) > 5
    for lines, poses in zip(all_lines, all_poses, strict=True):
        assert (lines.name, lines.timestamp) == (["beam"], poses.timestamp)
        points = np.reshape(lines.points, (-1, 3))
        assert lines.count == [len(points)] == [103]
        hook = np.reshape(poses.p, (-1, 3))[bodies.index("hook")]
        assert np.interp(hook[0], points[:, 0], points[:, 2]) == pytest.approx(hook[2], abs=1e-3)
        assert points[[0, -1]] == pytest.approx(np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 0.0]]), abs=1e-6)
    assert [shape.kind for shape in description.ground] == ["line", "line"]
    assert np.reshape(description.ground[1].points, (-1, 3))[0] == pytest.approx([5.0, 0.0, 0.0])
    assert description.output_units == ["m", "m", "N"]
    (force,) = description.forces
    assert (force.body, force.outputs, force.axes) == ("hook", ["contact_force"], [0.0, 0.0, 1.0])


def test_clamped_ends_stand_in_blocks_on_either_side() -> None:
    description = describe(build("lipinski_pendulum"), 1e-3, [], "")
    for shape, side in zip(description.ground, (-1.0, 1.0), strict=True):
        half = shape.size[0] / 2
        assert shape.position == pytest.approx([2.5 + side * (2.5 + half), 0.0, 0.0])


def test_springs_and_forces_are_described() -> None:
    description = describe(build("andrews_squeezer"), 1e-3, [], "")
    assert len(description.springs) == len(build("andrews_squeezer").springs) > 0
    mechanism = build("rotary_pendulum")
    arrow = ForceArrow(name="pull", body="arm", outputs=("height",), axes=(X,))
    with pytest.raises(UnknownName, match="arrow 'pull' has no output 'height'"):
        validate(dataclasses.replace(mechanism, arrows=(arrow,)))


@pytest.mark.parametrize("formulation", ["partitioned", "schur", "augmented"])
def test_a_robot_on_a_beam_is_shown_in_words(formulation: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--param", f"formulation={formulation}", "--param", "supports=simple"]
    assert command_line(["robot", "show", "lipinski_pendulum", *options]) == 0
    out, err = capsys.readouterr()
    assert "beam  5 m     590.1 N m2  1.179 kg/m  0 N      simple    20 modes" in out
    assert "contact  beam  hook" in out
    assert "contact_force     N" in out
    assert err == ""


@pytest.mark.parametrize("robot", names())
def test_every_robot_is_shown_in_words_and_the_units_of_its_outputs_are_known(
    robot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["robot", "show", robot]) == 0
    assert capsys.readouterr().out.startswith(f"{robot}, gravity (")
    mechanism = build(robot)
    assert "" not in output_units(mechanism, output_names(mechanism))


def test_a_gibbons_outputs_are_metres_newtons_and_whether_a_hand_holds() -> None:
    mechanism = build("gibbon")
    units = dict(zip(output_names(mechanism), output_units(mechanism, output_names(mechanism)), strict=True))
    wanted = {"hand_a_x": "m", "hand_b_vz": "m/s", "hand_b_force_x": "N", "hand_a_grips": "1"}
    assert {name: units[name] for name in wanted} == wanted
    assert set(units) == set(assemble(mechanism).output_names)


def test_contact_forces_that_are_outputs_are_drawn_as_arrows_at_their_spheres() -> None:
    ball = Body(name="ball", mass=1.0, inertia=(1e-3, 1e-3, 1e-3, 0, 0, 0))
    mechanism = Mechanism(
        name="ball",
        coordinates="joint",
        bodies=(ball,),
        joints=(Joint(name="slide", kind="prismatic", child="ball"),),
        contacts=(SphereContact(name="floor", body="ball", center=(0.0, 0.0, 0.1), radius=0.1, stiffness=1e5),),
        outputs=(SurfaceForceOutput(name="push", contact="floor", axes="xz"),),
        initial_q=(0.0,),
        initial_v=(0.0,),
    )
    (arrow,) = describe(mechanism, 1e-3, ["push_x", "push_z"], "").forces
    assert (arrow.name, arrow.body, arrow.point) == ("push", "ball", [0.0, 0.0, 0.1])
    assert (arrow.outputs, arrow.axes) == (["push_x", "push_z"], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0])

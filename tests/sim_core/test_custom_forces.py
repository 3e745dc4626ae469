"""Forces of one's own: closed forms, states, inputs, parameters, work, and refusals."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from typing import Any

import casadi as ca
import numpy as np
import pytest
from scipy.linalg import expm

from sim_core.errors import InvalidMechanism, InvalidRequest
from sim_core.mechanism import Actuator, Body, CustomForce, ForcePoint, Joint, Mechanism, Tunable, X
from sim_core.simulation import Simulation
from sim_core.system import assemble

MASS = 2.0


def cart(**parts: Any) -> Mechanism:
    """A mass on a rail, at 0.3 m with 1 m/s."""
    rest: dict[str, Any] = {"initial_q": (0.3,), "initial_v": (1.0,)}
    return Mechanism(
        name="cart",
        coordinates="joint",
        bodies=(Body(name="cart", mass=MASS, inertia=(0.1, 0.1, 0.1, 0, 0, 0)),),
        joints=(Joint(name="rail", kind="prismatic", child="cart", axis=X),),
        gravity=(0.0, 0.0, 0.0),
        **(rest | parts),
    )


def drag(force: Any) -> dict[str, Any]:
    speed = force.velocity["rail"]
    return {"rail": -force.parameter["c"] * speed * ca.fabs(speed)}


def test_a_cart_with_quadratic_drag_follows_the_closed_form() -> None:
    c = 1.5
    mechanism = cart(forces=(CustomForce(name="air", law=drag, parameters={"c": Tunable("c", c)}),))
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    sim.advance(2.0)
    assert sim.state.v[0] == pytest.approx(1.0 / (1.0 + c * 2.0 / MASS), rel=1e-10)
    assert sim.state.q[0] == pytest.approx(0.3 + MASS / c * math.log(1.0 + c * 2.0 / MASS), rel=1e-10)
    assert abs(sim.energy_ledger.departure) < 1e-10
    sim.set_parameters({"c": 0.0})
    before = sim.state.v[0]
    sim.advance(1.0)
    assert sim.state.v[0] == pytest.approx(before, abs=1e-14)


def test_a_force_on_a_point_and_one_on_a_joint_agree_in_both_coordinate_families() -> None:
    def wind(force: Any) -> dict[str, Any]:
        return {"tip": 0.4 * (ca.DM([2.0, 0.5, 0.0]) - force.point_velocity["tip"]) * ca.cos(force.t)}

    def sims() -> Any:
        law = CustomForce(name="wind", law=wind, points=(ForcePoint(name="tip", body="rod", point=(0.5, 0.0, 0.0)),))
        rod = Body(name="rod", mass=1.0, inertia=(0.01, 0.02, 0.02, 0, 0, 0), center_of_mass=(0.25, 0, 0))
        whole = Mechanism(
            name="rod",
            coordinates="joint",
            bodies=(rod,),
            joints=(Joint(name="pivot", child="rod"),),
            forces=(law,),
            gravity=(0.0, -9.81, 0.0),
            initial_q=(0.2,),
            initial_v=(0.0,),
        )
        yield whole
        yield dataclasses.replace(whole, coordinates="absolute", initial_q=(0.0, 0.0, 0.2), initial_v=(0.0, 0.0, 0.0))

    both = [Simulation(assemble(each), step_s=1e-3) for each in sims()]
    for sim in both:
        sim.advance(2.0)
        assert abs(sim.energy_ledger.departure) < 1e-8
    assert both[0].readings.position(0) == pytest.approx(both[1].readings.position(0), abs=1e-8)
    assert both[0].readings.position(0) != pytest.approx(0.2, abs=0.1)


def motor(force: Any) -> dict[str, Any]:
    """A motor's current, L di/dt = u - R i - k v, and its force k i."""
    p, i = force.parameter, force.state["current"]
    voltage = force.input["voltage"]
    return {
        "rail": p["k"] * i,
        "current": (voltage - p["R"] * i - p["k"] * force.velocity["rail"]) / p["L"],
    }


def test_a_motor_with_a_current_follows_its_linear_closed_form() -> None:
    R, L, k, u = 2.0, 0.1, 1.5, 6.0
    law = CustomForce(name="motor", law=motor, parameters={"R": R, "L": L, "k": k}, states={"current": 0.5})
    mechanism = cart(forces=(law,), actuators=(Actuator(name="voltage", unit="V", start=u),), initial_v=(0.0,))
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    assert sim.system.coordinate_names == ("rail", "motor.current")
    assert sim.state.v[1] == 0.5
    sim.set_effort([u])
    A = np.array([[0.0, k / MASS], [-k / L, -R / L]])
    steady = np.linalg.solve(A, [0.0, -u / L])
    for t in (0.1, 0.5, 2.0):
        sim.advance(t - sim.time)
        expected = steady + expm(A * t) @ ([0.0, 0.5] - steady)
        assert sim.state.v == pytest.approx(expected, abs=1e-8)
    assert sim.energy() == pytest.approx(0.5 * MASS * sim.state.v[0] ** 2, rel=1e-12)
    kept = sim.snapshot()
    sim.advance(0.3)
    after = sim.snapshot()
    sim.restore(kept)
    sim.advance(0.3)
    np.testing.assert_array_equal(sim.snapshot().v, after.v)


HASH = """
import sys
sys.path.insert(0, "tests/sim_core")
from test_custom_forces import CustomForce, cart, drag, motor
states = {"current": 0.0}
laws = CustomForce(name="air", law=drag, parameters={"c": 1.0}), CustomForce(
    name="motor", law=motor, parameters={"R": 1.0, "L": 1.0, "k": 1.0}, states=states)
from sim_core.mechanism import Actuator
print(cart(forces=laws, actuators=(Actuator(name="voltage"),)).canonical_hash)
"""


def test_the_hash_of_a_law_is_that_of_its_expressions_in_every_process() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", HASH],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    }
    assert len(said) == 1

    def hashed(law: Any, c: float) -> str:
        return cart(forces=(CustomForce(name="air", law=law, parameters={"c": c}),)).canonical_hash

    assert hashed(drag, 1.0) != hashed(drag, 2.0)
    assert hashed(drag, 1.0) != hashed(lambda f: {"rail": -f.parameter["c"] * f.velocity["rail"]}, 1.0)


def decides(force: Any) -> dict[str, Any]:
    return {"rail": -1.0 if force.velocity["rail"] > 0.0 else 1.0}


def misspells(force: Any) -> dict[str, Any]:
    return {"rail": force.velocty["rail"]}


def line_of(law: Any) -> int:
    """Line of the file at which the body of a law of one line begins."""
    return int(law.__code__.co_firstlineno) + 1


REFUSED: dict[str, tuple[CustomForce, str]] = {
    "joint": (CustomForce(name="f", law=lambda f: {"rail": f.velocity["rial"]}), "has no joint 'rial'"),
    "result": (CustomForce(name="f", law=lambda f: {"rial": 1.0}), "has no joint, point or state entry 'rial'"),
    "size": (CustomForce(name="f", law=lambda f: {"rail": ca.vertcat(1, 2)}), "the law returned 2 entries for rail"),
    "dict": (CustomForce(name="f", law=lambda f: 1.0), "returned a float; it must return a dict"),
    "rate": (CustomForce(name="f", law=lambda f: {}, states={"z": 0.0}), "returned no rate for the state 'z'"),
    "symbol": (
        CustomForce(name="f", law=lambda f: {"rail": ca.SX.sym("x")}),
        "rail depends on 'x', which is none of the law's inputs",
    ),
    "operation": (
        CustomForce(name="f", law=lambda f: {"rail": ca.erf(f.t)}),
        "is not supported in kernels",
    ),
    "decision": (
        CustomForce(name="f", law=decides),
        f"force 'f': the law decides by an expression in {__file__}, line {line_of(decides)}; write casadi.if_else",
    ),
    "attribute": (
        CustomForce(name="f", law=misspells),
        f"force 'f': the law fails in {__file__}, line {line_of(misspells)}: AttributeError: 'LawInputs' object has no",
    ),
    "arguments": (CustomForce(name="f", law=lambda: {}), "force 'f': the law fails: TypeError: "),  # type: ignore
    "nan": (
        CustomForce(name="f", law=lambda f: {"rail": 2.0 * math.sin(f.t)}),
        "force 'f': the expression that the law returned for rail contains NaN",
    ),
    "body": (
        CustomForce(name="f", law=lambda f: {}, points=(ForcePoint(name="p", body="car"),)),
        "has no body 'car'",
    ),
    "double": (
        CustomForce(name="f", law=lambda f: {}, states={"rail": 0.0}),
        "a parameter, point or state is named 'rail', like a joint; rename the parameter",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_law_that_cannot_be_meant_is_refused_in_one_line(case: str) -> None:
    force, said = REFUSED[case]
    with pytest.raises((InvalidMechanism, InvalidRequest)) as refused:
        assemble(cart(forces=(force,)))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)

"""The events of one step: N bodies that land on N floors at once, one after the other, or coupled to each other."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest

from sim_core.errors import (
    ConstraintGapWarning,
    InvalidMechanism,
    InvalidRequest,
    SimulationDiverged,
    StartWarning,
    UnknownName,
)
from sim_core.integrators.steppers import STEPPERS
from sim_core.mechanism import Actuator, Anchored, Body, ConstraintMode, Joint, Mechanism, Z
from sim_core.mechanism.guards import Beyond, Commanded, Condition, Crossing, Guard, Pushed, Window
from sim_core.mechanism.outputs import HoldingOutput
from sim_core.simulation import Simulation
from sim_core.state import State, Transition
from sim_core.system import System, assemble

G = 9.81
MOST = 10
FALLING = (ConstraintMode(name="falling", constraints=()),)


def ball_parts(n: int) -> dict[str, Any]:
    """n balls of 1, 2, ... kg that fall along z, a floor at z = 0 below each."""
    inertia = (0.1, 0.1, 0.1, 0.0, 0.0, 0.0)
    return {
        "coordinates": "joint",
        "bodies": tuple(Body(name=f"ball_{k}", mass=1.0 + k, inertia=inertia) for k in range(n)),
        "joints": tuple(Joint(name=f"fall_{k}", kind="prismatic", child=f"ball_{k}", axis=Z) for k in range(n)),
        "constraints": tuple(
            Anchored(name=f"floor_{k}", body=f"ball_{k}", point=(0.0, 0.0, 0.0), axis=Z, at=0.0) for k in range(n)
        ),
        "initial_q": (1.0,) * n,
        "initial_v": (0.0,) * n,
    }


def lands(k: int, **changes: Any) -> Crossing:
    described: dict[str, Any] = {"name": f"lands_{k}", "part": f"ball_{k}", "engages": (f"floor_{k}",)}
    return Crossing(body=f"ball_{k}", axis=Z, direction=-1, kind="lands", **described | changes)


def balls(n: int, **changes: Any) -> Mechanism:
    """Each ball lands on its own floor: n guards, one constraint mode with a name."""
    guards = tuple(lands(k) for k in range(n))
    return Mechanism(**{"name": "balls", **ball_parts(n), "constraint_modes": FALLING, "guards": guards} | changes)


def named_balls(n: int) -> Mechanism:
    """The same with a name for each of the 2^n sets of floors, and a guard for each way from one to the next."""

    def called(lying: int) -> str:
        return "".join("L" if lying >> k & 1 else "o" for k in range(n))

    sets = [tuple(f"floor_{k}" for k in range(n) if lying >> k & 1) for lying in range(2**n)]
    guards = [
        lands(k, name=f"lands_{k}.{lying}", source=called(lying), target=called(lying | 1 << k), engages=())
        for lying in range(2**n)
        for k in range(n)
        if not lying >> k & 1
    ]
    constraint_modes = tuple(ConstraintMode(name=called(lying), constraints=held) for lying, held in enumerate(sets))
    return balls(n, name="named_balls", constraint_modes=constraint_modes, guards=tuple(guards))


def in_one_step(n: int, seed: int = 0, step_s: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
    """Heights from which n balls land between 0.05 and 0.95 of one step, and where in it each does."""
    place = np.random.default_rng(seed).uniform(0.05, 0.95, n)
    return 0.5 * G * ((451 + place) * step_s) ** 2, place


def landed(sim: Simulation) -> list[Transition]:
    """Events until all balls lie, and half a second more."""
    sim.advance(1.0)
    return sim.take_events()


@pytest.fixture(scope="module")
def pair() -> System:
    return assemble(balls(2))


@pytest.mark.parametrize("n", [2, 3, MOST])
def test_n_bodies_that_land_in_one_step_are_n_events_and_all_are_at_rest(n: int) -> None:
    """In the order of their landings; each loses what it fell: m v^2 / 2 at the step's end."""
    heights, place = in_one_step(n)
    sim = Simulation(assemble(balls(n, initial_q=tuple(heights))))
    events = landed(sim)
    order = np.argsort(place)
    assert [event.part for event in events] == [f"ball_{k}" for k in order]
    assert {event.time for event in events} == {0.452}
    assert sim.take_notices() == []  # many at once are no chatter
    held: list[int] = []
    for event, k in zip(events, order, strict=True):
        assert event.source == (" + ".join(f"floor_{j}" for j in sorted(held)) or "falling")
        held.append(k)
        assert event.target == " + ".join(f"floor_{j}" for j in sorted(held))
        assert event.energy == pytest.approx(0.5 * (1.0 + k) * (G * 0.452) ** 2, rel=1e-9)
        moved = event.after - event.before
        assert np.flatnonzero(moved).tolist() == [n + k]
    np.testing.assert_allclose(sim.state.q, 0.0, atol=1e-9)
    np.testing.assert_allclose(sim.state.v, 0.0, atol=1e-9)
    assert sim.holding == tuple(f"floor_{k}" for k in range(n))


@pytest.mark.soak
@pytest.mark.parametrize("n", range(2, MOST + 1))
@pytest.mark.parametrize("seed", range(10))
def test_any_number_lands_in_any_order(n: int, seed: int) -> None:
    heights, place = in_one_step(n, seed)
    sim = Simulation(assemble(balls(n)))
    sim.reset(heights, np.zeros(n))
    events = landed(sim)
    assert [event.part for event in events] == [f"ball_{k}" for k in np.argsort(place)]
    np.testing.assert_allclose(sim.state.v, 0.0, atol=1e-9)


@pytest.mark.parametrize("n", [2, 4])
def test_configurations_with_names_see_the_same_events(n: int) -> None:
    heights, _ = in_one_step(n)
    named, sets = (Simulation(assemble(make(n))) for make in (named_balls, balls))
    for sim in (named, sets):
        sim.reset(heights, np.zeros(n))
    for event, other in zip(landed(named), landed(sets), strict=True):
        assert (event.part, event.time, event.energy) == (other.part, other.time, other.energy)
        np.testing.assert_array_equal(event.after, other.after)
    assert named.constraint_mode == "L" * n
    assert named.coordinates.tolist() == sets.coordinates.tolist()


def test_bodies_that_land_at_the_same_instant_are_events_in_the_order_of_the_description(pair: System) -> None:
    sim = Simulation(pair)
    events = landed(sim)
    assert [event.part for event in events] == ["ball_0", "ball_1"]
    assert [event.energy for event in events] == pytest.approx([0.5 * m * (G * 0.452) ** 2 for m in (1, 2)], rel=1e-9)
    np.testing.assert_allclose(sim.state.v, 0.0, atol=1e-9)


@pytest.mark.parametrize("stepper", STEPPERS)
def test_every_stepper_stops_both(pair: System, stepper: str) -> None:
    sim = Simulation(pair, stepper=stepper, stabilizer="none")
    sim.reset(in_one_step(2)[0], np.zeros(2))
    assert sorted(event.part for event in landed(sim)) == ["ball_0", "ball_1"]
    np.testing.assert_allclose(sim.state.v, 0.0, atol=1e-9)
    assert np.abs(sim.state.q).max() < 2.0 * G * 0.452 * sim.step_s


def test_it_makes_no_difference_how_many_steps_are_taken_at_a_time(pair: System) -> None:
    heights = [1.0, 0.3]
    whole, single = Simulation(pair), Simulation(pair)
    for sim in (whole, single):
        sim.reset(heights, np.zeros(2))
    whole.step(800)
    for _ in range(800):
        single.step()
    assert whole.tick == single.tick == 800
    assert whole.snapshot().to_plain() == single.snapshot().to_plain()
    assert [event.time for event in whole.take_events()] == [event.time for event in single.take_events()]


@pytest.mark.parametrize("at", [0, 451, 452, 453, 500])
def test_a_snapshot_holds_which_constraints_hold(pair: System, at: int) -> None:
    """At any tick, also where the set has no name; a state goes through JSON as it does in a recording."""
    sim = Simulation(pair)
    sim.reset([1.0, 1.5], np.zeros(2))
    sim.step(at)
    kept = State.from_plain(json.loads(json.dumps(sim.snapshot().to_plain())))
    sim.step(800 - at)
    other = Simulation(pair)
    other.restore(kept)
    assert other.holding == (("floor_0",) if at >= 452 else ())
    assert other.constraint_mode == ("floor_0" if at >= 452 else "falling")
    other.step(800 - at)
    assert other.snapshot().to_plain() == sim.snapshot().to_plain()
    other.reset()
    assert (other.constraint_mode, other.holding) == ("falling", ())


def test_a_state_that_contradicts_itself_is_refused(pair: System) -> None:
    sim = Simulation(pair)
    plain = sim.snapshot().to_plain()
    for changes, says in (
        ({"constraint_mode": 1}, "constraint mode number 1, but the mechanism has 1"),
        ({"constraint_mode": -2}, "constraint mode number -2, but the mechanism has 1"),
        (
            {"p": [0.0, 1.0]},
            "constraint mode 'falling', but the parameter that switches constraint 'floor_1' is 1; set this parameter",
        ),
        (
            {"constraint_mode": -1, "p": [0.5, 1.0]},
            "no constraint mode, but the parameter that switches constraint 'floor_0' is 0.5",
        ),
        ({"guards": [1.0]}, "1 entries in guards"),
    ):
        with pytest.raises(InvalidRequest, match=says):
            sim.restore(State.from_plain(plain | changes))
    assert sim.snapshot().to_plain() == plain


def test_a_snapshot_from_before_guards_were_kept_in_it_goes_on(pair: System) -> None:
    sim = Simulation(pair)
    sim.step(300)
    plain = sim.snapshot().to_plain()
    del plain["guards"]
    other = Simulation(pair)
    other.restore(State.from_plain(plain))
    assert len(landed(other)) == 2


# -- starts at the level, and beyond it -------------------------------------------------------------------------------


@pytest.mark.parametrize("height", [0.0, 1e-13, -1e-13])
def test_a_body_that_starts_at_its_level_lands_in_the_first_step(pair: System, height: float) -> None:
    sim = Simulation(pair)
    sim.reset([height, 1.0], np.zeros(2))
    sim.step()
    assert [event.part for event in sim.take_events()] == ["ball_0"]
    sim.advance(1.0)
    assert abs(sim.coordinates[0]) <= 1e-9


def test_a_body_that_is_thrown_up_from_its_level_lands_when_it_is_back(pair: System) -> None:
    sim = Simulation(pair)
    sim.reset([0.0, 1.0], [1.0, 0.0])
    sim.advance(1.0)
    (event,) = [event for event in sim.take_events() if event.part == "ball_0"]
    assert event.time == pytest.approx(2.0 / G, abs=1e-3)


def test_a_body_that_starts_beyond_its_level_is_warned_of(pair: System) -> None:
    sim = Simulation(pair)
    with pytest.warns(StartWarning, match=r"'balls'.*guard 'lands_0'.*0\.2 m.*not fire") as caught:
        sim.reset([-0.2, 1.0], np.zeros(2))
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.reset([-0.2, 1.0], [2.5, 0.0])  # on its way to the other side
    assert [event.part for event in landed(sim)] == ["ball_0", "ball_1"]


# -- events that follow from events -----------------------------------------------------------------------------------


def switched(**changes: Any) -> Mechanism:
    """One ball with a switch `hold`; its floor opens where that is off."""
    opens = Guard(name="opens", releases=("floor_0",), conditions=(Commanded(actuator="hold", upto=0.5),))
    hold = Actuator(name="hold", start=1.0, effort_limit=1.0, unit="1")
    return balls(1, **{"name": "switched", "actuators": (hold,), "guards": (lands(0), opens)} | changes)


def test_a_constraint_that_is_switched_on_though_it_is_violated_is_named_once_a_run() -> None:
    """The level that the guard watches lies 0.2 m above the floor."""
    sim = Simulation(assemble(balls(2, guards=(lands(0), lands(1, level=0.2)))))
    with pytest.warns(ConstraintGapWarning, match=r"switched on 'floor_1' violated by 0.199 m at t = 0.404") as caught:
        landed(sim)
    assert len(caught) == 1
    assert [notice.kind for notice in sim.take_notices() if "floor" in notice.line] == ["constraint_gap"]
    sim.reset()
    with pytest.warns(ConstraintGapWarning, match="'floor_1'"):
        landed(sim)


@pytest.mark.parametrize("height", [0.01, 1.0, 100.0])
def test_what_a_body_sinks_in_within_one_step_is_no_gap(height: float) -> None:
    sim = Simulation(assemble(balls(1, initial_q=(height,))))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConstraintGapWarning)
        sim.advance(round(math.sqrt(2.0 * height / G), 3) + 0.1)
    assert len(sim.take_events()) == 1


def test_hands_that_are_told_to_open_together_let_go_together() -> None:
    n = 3
    hold = tuple(Actuator(name=f"hold_{k}", start=1.0, effort_limit=1.0, unit="1") for k in range(n))
    opens = tuple(
        Guard(name=f"opens_{k}", releases=(f"floor_{k}",), conditions=(Commanded(actuator=f"hold_{k}", upto=0.5),))
        for k in range(n)
    )
    sim = Simulation(
        assemble(
            balls(
                n,
                name="hands",
                actuators=hold,
                guards=opens,
                start="held",
                constraint_modes=(ConstraintMode(name="held"), *FALLING),
                initial_q=(0.0,) * n,
            )
        )
    )
    sim.advance(0.01)
    assert sim.take_events() == []
    sim.set_effort({"hold_0": 0.0, "hold_2": 0.0})
    sim.step()
    events = sim.take_events()
    assert [(event.kind, event.source, event.target) for event in events] == [
        ("opens_0", "held", "floor_1 + floor_2"),
        ("opens_2", "floor_1 + floor_2", "floor_1"),
    ]
    assert [event.energy for event in events] == [0.0, 0.0]
    sim.set_effort({"hold_1": 0.0})
    sim.advance(0.1)
    assert sim.constraint_mode == "falling"
    np.testing.assert_allclose(sim.coordinates, [-0.5 * G * s**2 for s in (0.1, 0.099, 0.1)], atol=1e-9)


def test_what_is_let_go_at_its_level_falls(pair: System) -> None:
    sim = Simulation(assemble(switched()))
    assert len(landed(sim)) == 1
    sim.set_effort({"hold": 0.0})
    sim.advance(0.1)
    assert [event.kind for event in sim.take_events()] == ["opens"]
    assert sim.coordinates[0] == pytest.approx(-0.5 * G * 0.099**2, rel=1e-3)


def test_a_floor_that_is_open_lets_what_lands_on_it_through() -> None:
    sim = Simulation(assemble(switched()))
    sim.set_effort({"hold": 0.0})
    events = landed(sim)
    assert [event.kind for event in events] == ["lands", "opens"]
    assert sim.coordinates[0] < -1.0


def test_a_landing_makes_another_guard_fire_in_the_same_step() -> None:
    """The force on the first floor, which exceeds 5 N as soon as a ball lies there, opens the second floor."""
    presses = Guard(
        name="presses",
        conditions=(Pushed(constraints=("floor_0",), axis=Z, force=5.0),),
        requires=("floor_0",),
        releases=("floor_1",),
    )
    sim = Simulation(
        assemble(
            balls(
                2,
                name="chain",
                start="second",
                constraint_modes=(ConstraintMode(name="second", constraints=("floor_1",)), *FALLING),
                guards=(lands(0), presses),
                initial_q=(1.0, 0.0),
            )
        )
    )
    events = landed(sim)
    assert [(event.kind, event.time) for event in events] == [("lands", 0.452), ("presses", 0.452)]
    assert [event.target for event in events] == ["floor_0 + floor_1", "floor_0"]


def test_guards_that_undo_each_other_in_one_step_end_the_run_and_are_named() -> None:
    below = (Beyond(body="ball_0", axis=(0.0, 0.0, -1.0), level=0.0),)
    catches = Guard(name="catches", conditions=below, engages=("floor_0",), impact="inelastic")
    drops = Guard(name="drops", conditions=below, releases=("floor_0",))
    sim = Simulation(assemble(balls(1, name="undone", guards=(catches, drops))))
    with pytest.raises(SimulationDiverged, match=r"t = 0\.452 s: guards 'catches' and 'drops' undo") as caught:
        sim.advance(1.0)
    assert caught.value.reason == "guards repeat"
    assert "\n" not in str(caught.value)
    caught.value.file.unlink()


def test_a_level_is_crossed_once_in_a_step() -> None:
    """From above to below, and not back at once, though either way is watched; two levels in a step are two events."""
    way: dict[str, Any] = {"body": "ball_0", "axis": Z, "impact": "none"}
    guards = (
        Crossing(name="down", source="falling", target="low", level=0.5, **way),
        Crossing(name="up", source="low", target="falling", level=0.5, **way),
        Crossing(name="lower", source="low", target="lowest", level=0.4999, **way),
    )
    names = tuple(ConstraintMode(name=name, constraints=()) for name in ("falling", "low", "lowest"))
    sim = Simulation(assemble(balls(1, name="levels", guards=guards, constraint_modes=names)), step_s=1e-3)
    assert [(event.kind, event.time) for event in landed(sim)] == [("down", 0.32), ("lower", 0.32)]
    slow = Simulation(assemble(balls(1, name="levels", guards=guards[:2], constraint_modes=names)))
    slow.reset([0.49], [1.0])
    slow.advance(0.5)
    assert [event.kind for event in slow.take_events()] == ["down", "up"]


def test_a_crossing_that_changes_nothing_is_one_event() -> None:
    passes = (
        Crossing(name="passes", source="falling", target="falling", body="ball_0", axis=Z, level=0.5, impact="none"),
        Crossing(name="too", source="falling", target="falling", body="ball_0", axis=Z, level=0.5, impact="none"),
    )
    sim = Simulation(assemble(balls(1, name="passed", guards=passes)))
    assert [event.kind for event in landed(sim)] == ["passes", "too"]


# -- coupled bodies ---------------------------------------------------------------------------------------------------


def bar(feet: tuple[float, ...], tilt: float = 0.0, spin: float = 0.0, height: float = 1.0) -> Mechanism:
    """A bar of 2 kg and 2 m in the plane, with feet at places along it, and a floor below each."""
    return Mechanism(
        name=f"bar_{len(feet)}",
        coordinates="absolute",
        bodies=(Body(name="bar", mass=2.0, inertia=(0.0, 0.0, 2.0 / 3.0, 0.0, 0.0, 0.0)),),
        constraints=tuple(
            Anchored(name=f"foot_{k}", body="bar", point=(x, 0.0, 0.0), axis=(0.0, 1.0, 0.0), at=0.0)
            for k, x in enumerate(feet)
        ),
        constraint_modes=FALLING,
        guards=tuple(
            Crossing(name=f"lands_{k}", body="bar", point=(x, 0.0, 0.0), direction=-1, engages=(f"foot_{k}",))
            for k, x in enumerate(feet)
        ),
        gravity=(0.0, -G, 0.0),
        initial_q=(0.0, height, tilt),
        initial_v=(0.0, 0.0, spin),
        reference_q=(0.0, 1.0, 0.1),
    )


def test_a_bar_that_lands_on_both_ends_at_once_is_one_impact() -> None:
    """Closed form: each end takes half of m v^2 / 2, and nothing turns."""
    sim = Simulation(assemble(bar((-1.0, 1.0))))
    first, second = landed(sim)
    np.testing.assert_array_equal(first.before, second.before)
    np.testing.assert_array_equal(first.after, second.after)
    np.testing.assert_allclose(first.after[3:], 0.0, atol=1e-12)
    assert [first.energy, second.energy] == pytest.approx([0.25 * 2.0 * (G * 0.452) ** 2] * 2, rel=1e-9)
    assert (first.source, first.target, second.target) == ("falling", "foot_0", "foot_0 + foot_1")


def test_a_bar_that_lands_on_one_end_first_lands_on_the_other_in_the_same_step() -> None:
    """Closed form: the first end takes the quarter m v^2 / 8 that does not turn, the second all that is left."""
    sim = Simulation(assemble(bar((-1.0, 1.0), tilt=1e-4, height=0.5 * G * 0.4515**2)))
    events = landed(sim)
    assert [(event.kind, event.time) for event in events] == [("lands_0", 0.452), ("lands_1", 0.452)]
    total = 0.5 * 2.0 * (G * 0.452) ** 2
    assert [event.energy for event in events] == pytest.approx([total / 4, 3 * total / 4], rel=1e-3)
    assert sum(event.energy for event in events) == pytest.approx(total, rel=1e-9)
    np.testing.assert_allclose(sim.state.v, 0.0, atol=1e-9)


def test_a_bar_on_more_feet_than_it_needs_comes_to_rest_with_an_event_for_each() -> None:
    sim = Simulation(assemble(bar(tuple(np.linspace(-1.0, 1.0, MOST).tolist()))))
    events = landed(sim)
    assert [event.kind for event in events] == [f"lands_{k}" for k in range(MOST)]
    assert sum(event.energy for event in events) == pytest.approx(0.5 * 2.0 * (G * 0.452) ** 2, rel=1e-9)
    np.testing.assert_allclose(sim.state.v, 0.0, atol=1e-9)
    np.testing.assert_allclose(sim.state.q[1:], 0.0, atol=1e-9)


def test_an_end_that_an_impact_sends_back_lands_when_it_comes_down_again() -> None:
    """Both feet are below their floors at the step's end; the first impact turns the other end up and over."""
    sim = Simulation(assemble(bar((-0.2, -0.9))))
    sim.reset([0.0, 2e-3, -2e-3], [0.0, -4.0, 0.0])
    sim.step()
    (first,) = sim.take_events()
    assert (first.kind, sim.holding) == ("lands_0", ("foot_0",))
    kept = State.from_plain(sim.snapshot().to_plain())  # which waits for it to come down
    sim.advance(1.2)
    (second,) = sim.take_events()
    assert second.kind == "lands_1"
    assert second.time > 0.5
    assert sim.coordinates[2] == pytest.approx(-np.pi)
    np.testing.assert_allclose(sim.state.v, 0.0, atol=1e-9)
    other = Simulation(sim.system)
    other.restore(kept)
    other.advance(1.2)
    assert other.snapshot().to_plain() == sim.snapshot().to_plain()


# -- descriptions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"engages": ()}, "changes nothing"),
        ({"target": "falling"}, "has the target 'falling' and also switches 'floor_0'"),
        ({"engages": (), "target": "falling"}, "has the target 'falling' but no source"),
        ({"source": "lying"}, "no constraint mode 'lying'"),
        ({"engages": ("flor_0",)}, "no constraint 'flor_0'.*did you mean 'floor_0'"),
        ({"releases": ("floor_1",)}, "no constraint 'floor_1'"),
        ({"requires": ("floor_1",)}, "no constraint 'floor_1'"),
        ({"engages": "floor_0"}, "engages is 'floor_0'; it must be a tuple"),
        ({"releases": ("floor_0",)}, "engages and releases constraint 'floor_0'"),
        ({"requires": ("floor_0",), "excludes": ("floor_0",)}, "requires and excludes constraint 'floor_0'"),
        ({"requires": ("floor_0",)}, "can never change anything"),
    ],
)
def test_guards_that_cannot_be_meant_are_refused_in_one_line(changes: dict[str, Any], says: str) -> None:
    with pytest.raises((InvalidMechanism, UnknownName), match=f"guard 'lands_0'.*{says}") as caught:
        assemble(balls(1, guards=(lands(0, **changes),)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (Commanded(actuator="switch", above=1.0, upto=1.0), "above 1 and upto 1, which no value satisfies"),
        (Commanded(actuator="switch", above=1.0, upto=0.0), "above 1 and upto 0, which no value satisfies"),
        (Window(aims=(), gap=1.0, speed=1.0), "Window has no aims"),
        (Pushed(constraints=(), axis=Z), "Pushed names no constraint"),
    ],
)
def test_a_condition_that_always_or_never_holds_is_refused_in_one_line(condition: Condition, says: str) -> None:
    guard = Guard(name="opens", conditions=(condition,), engages=("floor_0",))
    with pytest.raises(InvalidMechanism, match=f"guard 'opens'.*{says}"):
        assemble(balls(1, guards=(guard,), actuators=(Actuator(name="switch"),)))


def test_requirements_say_when_a_guard_is_watched() -> None:
    """The second ball lands only where the first lies: the other way round it falls through, as described."""
    guards = lands(0), lands(1, requires=("floor_0",))
    system = assemble(
        balls(2, name="in_turn", guards=guards, outputs=(HoldingOutput(name="lies", constraint="floor_1"),))
    )
    for heights, lie in (([0.5, 1.0], 1.0), ([1.0, 0.5], 0.0)):
        sim = Simulation(system)
        sim.reset(heights, np.zeros(2))
        sim.advance(0.6)
        assert sim.outputs()["lies"] == lie

"""Gibbon: a robot that swings hand over hand along a cable or bars, with two arms and an actuated elbow.

World x runs along the line (cable or bars), z upwards. The joint `slide` moves hand a along x, and `drop` along -z,
from the world's origin. `pitch` rotates the arm of hand a about y (0: hanging). `elbow` rotates the other arm relative
to the first (0: straight). Hand b is at the end of the other arm. Either hand can hold the line, by constraints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from robots.gibbon import grips
from robots.gibbon import parameters as numbers
from robots.gibbon.feasible import check_feasible, tension_to_hold
from robots.gibbon.lines import DOWN, LineSetup, cable, on_bars, on_cable, on_segments
from robots.gibbon.parameters import GRAVITY, ROBOTS, Link, Robot
from robots.parameters import ParameterInfo, require_choice, require_not_negative, require_positive, require_whole
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Actuator, Body, Joint, Mechanism, Number, Shape, Tunable, X, Y

NAME = "gibbon"
HAND_COLORS = {"hand_a": "#0072b2", "hand_b": "#d55e00"}  # colours of the first two curves of a plot
LINES, STARTS, TRUNKS = ("cable", "segments", "bars"), ("both", "a", "b"), ("passive", "actuated")

CABLE = {"tension": 5e3, "modes": 30, "damping_ratio": 0.01, "clamp_width": numbers.CLAMP_WIDTH}
SEGMENTS = {"tension": 5e3, "segments": numbers.CABLE_SEGMENTS, "damping_ratio": 0.05}
ON_CABLE = {name: f"{number:g}, on the cable" for name, number in CABLE.items()}
ON_CABLE["damping_ratio"] += f"; {SEGMENTS['damping_ratio']:g}, on segments"
PER_LINE = {
    "spacing": f"{numbers.CABLE_ROBOT.step:g} on the cable, {numbers.BAR_ROBOT.step:g} on bars",
    "x": f"{numbers.CABLE_START:g} on the cable, the second bar",
    "torque": f"{numbers.CABLE_ROBOT.torque_limit:g} on the cable, {numbers.BAR_ROBOT.torque_limit:g} on bars",
}


def gibbon(
    line: Annotated[
        Literal["cable", "segments", "bars"],
        ParameterInfo(
            "line to swing along: a cable as a beam, a cable of rigid segments, or bars (with another robot)"
        ),
    ] = "cable",
    links: Annotated[
        Literal[2, 3], ParameterInfo("number of links: two arms, or two arms and a trunk at the elbow")
    ] = 2,
    start: Annotated[Literal["both", "a", "b"], ParameterInfo("hands that hold the line at the start")] = "both",
    spacing: Annotated[
        float | None,
        ParameterInfo("distance between bars, or between the hands on the cable", "m", PER_LINE["spacing"]),
    ] = None,
    start_x: Annotated[
        float | None,
        ParameterInfo("position of the rear (or only) hand along the line at the start", "m", PER_LINE["x"]),
    ] = None,
    torque_limit: Annotated[
        float | None, ParameterInfo("torque limit of elbow and trunk", "N m", PER_LINE["torque"])
    ] = None,
    mass_scale: Annotated[float, ParameterInfo("factor on the masses and inertias of arms and trunk")] = 1.0,
    elbow_damping: Annotated[float, ParameterInfo("damping of elbow and trunk", "N m s")] = 0.0,
    tension: Annotated[
        float | None, ParameterInfo("tension of the cable, 2000 to 20000", "N", ON_CABLE["tension"])
    ] = None,
    modes: Annotated[
        int | None, ParameterInfo("number of vibration modes of the cable, 1 to 49", "", ON_CABLE["modes"])
    ] = None,
    damping_ratio: Annotated[
        float | None,
        ParameterInfo(
            "damping ratio, 0 to 1, of the cable's modes or of the segments' fastest one", "", ON_CABLE["damping_ratio"]
        ),
    ] = None,
    clamp_width: Annotated[
        float | None, ParameterInfo("length of a hand along the cable; 0: a point", "m", ON_CABLE["clamp_width"])
    ] = None,
    segments: Annotated[
        int | None, ParameterInfo("number of rigid segments of the cable", "", f"{numbers.CABLE_SEGMENTS}, on segments")
    ] = None,
    bars: Annotated[
        int | None, ParameterInfo("number of bars, the first at x = 0", "", f"{numbers.BARS}, on bars")
    ] = None,
    hook: Annotated[bool, ParameterInfo("whether hands only pull down on the line, and grip it from above")] = False,
    trunk: Annotated[
        Literal["passive", "actuated"], ParameterInfo("trunk joint with or without a motor, for links = 3")
    ] = "passive",
) -> Mechanism:
    """Two arms with an actuated elbow and a gripper at each end, that swing hand over hand along a cable or bars.

    The command of the actuators grip_a and grip_b sets the state of a hand: above 1/2 closed, above 1/4 sliding along a
    cable, otherwise open.

    start          hands that hold the line at the start, at rest: "both", with hand a at start_x and hand b one spacing
                   further; or "a" or "b" alone, at start_x
    links          2: two arms; 3: also a trunk at the elbow
    spacing        distance between bars, or between the hands on the cable, m
    start_x        position of the rear (or only) hand at the start, m
    torque_limit   torque limit of elbow and trunk, N m
    mass_scale     factor on the masses and inertias of arms and trunk in SOURCES.md
    elbow_damping  damping of elbow and trunk, N m s
    tension        tension of the cable, N
    clamp_width    length of a hand along the cable, m
    hook           whether hands can only pull downwards on the line: a hand then releases the line when it would push
                   upwards, and grips the line only from above
    """
    require_choice(NAME, "line", line, LINES)
    require_choice(NAME, "links", links, (2, 3))
    require_choice(NAME, "start", start, STARTS)
    require_choice(NAME, "trunk", trunk, TRUNKS)
    require_choice(NAME, "hook", hook, (False, True))
    require_positive(NAME, mass_scale=mass_scale)
    require_not_negative(NAME, elbow_damping=elbow_damping)
    given = {"tension": tension, "modes": modes, "damping_ratio": damping_ratio, "clamp_width": clamp_width}
    given |= {"segments": segments, "bars": bars}
    own = _of_line(line, given)
    robot = ROBOTS["bars" if line == "bars" else "cable", links].scaled(mass_scale)
    step = robot.step if spacing is None else spacing
    limit = robot.torque_limit if torque_limit is None else torque_limit
    require_positive(NAME, spacing=step, torque_limit=limit)
    if trunk == "actuated" and links == 2:
        raise InvalidRequest(f"robot {NAME!r}: trunk is 'actuated', but links is 2; set links to 3 for a trunk")
    check_feasible(robot, step, limit)
    chosen: dict[str, float] = {"links": links, "spacing": step, "torque_limit": limit, "mass_scale": mass_scale}
    chosen |= {"elbow_damping": elbow_damping, "hook": float(hook)}
    place = (step if line == "bars" else numbers.CABLE_START) if start_x is None else start_x
    chosen |= {"start_x": place, **own}
    if line == "bars":
        require_whole(NAME, 1, **own)
        setup = on_bars(robot, start, place, step, own["bars"])
    else:
        require_positive(NAME, tension=own["tension"])
        require_not_negative(NAME, damping_ratio=own["damping_ratio"])
        least = tension_to_hold(robot)
        if line == "cable":
            width = own.pop("clamp_width")
            require_whole(NAME, 1, modes=own["modes"])
            require_not_negative(NAME, clamp_width=width)
            setup = on_cable(robot, start, place, step, cable(**own, least=least), width)
        else:
            count = own.pop("segments")
            require_whole(NAME, numbers.FEWEST_SEGMENTS, segments=count)
            setup = on_segments(robot, start, place, step, cable(**own, modes=1, least=least), count)
    held = tuple(constraint.name for constraint in setup.held)
    hands = grips.Line(setup.aims, setup.length, setup.sag + robot.arm_a.length, hook, held)
    motors = ("elbow", "trunk") if links == 3 and trunk == "actuated" else ("elbow",)
    actuators = [Actuator(name=name, joint=name, effort_limit=limit) for name in motors]
    return Mechanism(
        name=NAME,
        coordinates="joint",
        **_joined(_Body(robot, elbow_damping).parts(), setup.parts),
        actuators=(*actuators, *grips.grippers(start)),
        **_held(setup, hands, start),
        gravity=(0.0, 0.0, -GRAVITY),
        parameters=chosen,
    )


def _of_line(line: str, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a line, with defaults for those that are not given.

    line   line that the robot swings along
    given  {parameter of some line: value, or None for the default}
    Raises InvalidRequest if a value is given that belongs to another line.
    """
    usual: dict[str, dict[str, Any]] = {"cable": CABLE, "segments": SEGMENTS, "bars": {"bars": numbers.BARS}}
    for name, value in given.items():
        if value is not None and name not in usual[line]:
            others = " or ".join(repr(other) for other in usual if name in usual[other])
            raise InvalidRequest(
                f"robot {NAME!r}: {name} is {value!r}, but line is {line!r}; leave this parameter out, or set line to "
                f"{others}"
            )
    return {name: number if given[name] is None else given[name] for name, number in usual[line].items()}


def _joined(body: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of Mechanism with the parts of the body, then those of the line."""
    return {name: (*body.get(name, ()), *line.get(name, ())) for name in dict.fromkeys((*body, *line))}


def _held(setup: LineSetup, hands: grips.Line, start: str) -> dict[str, Any]:
    """Keyword arguments of Mechanism that depend on the line, such as constraints, guards and the start."""
    q = setup.start.q
    return {
        "constraints": (
            *(constraint for hand in grips.HANDS for constraint in setup.constraints[hand]),
            *setup.held,
        ),
        "beams": setup.beams,
        "outputs": grips.outputs(),
        "constraint_modes": grips.constraint_modes(hands),
        "start": start,
        "guards": grips.guards(hands),
        "ground": setup.shapes,
        "arrows": grips.arrows(),
        "initial_q": q,
        "initial_v": (0.0,) * len(q),
        # a common reference, so that all starts share one set of kernels
        "reference_q": (5.0, 0.0, -0.7, -1.4, *[0.0] * (len(q) - 4)),
    }


@dataclass(frozen=True)
class _Body:
    """The gibbon without the line: its bodies and joints."""

    robot: Robot
    damping: float

    def parts(self) -> dict[str, Any]:
        """The gibbon's bodies and joints, as keyword arguments of Mechanism."""
        robot, damping = self.robot, Tunable("elbow_damping", self.damping, unit="N m s")
        bodies = [
            Body(name="trolley", mass=0.0, inertia=_across(0.0)),
            _hand("hand_a", robot.hand_a, -robot.hand_a.centre),
            _arm("arm_a", robot.arm_a),
            _arm("arm_b", robot.arm_b),
            _hand("hand_b", robot.hand_b, robot.hand_b.centre),
        ]
        elbow, end = (0.0, 0.0, -robot.arm_a.length), (0.0, 0.0, -robot.arm_b.length)
        joints = [
            Joint(name="slide", kind="prismatic", child="trolley", axis=X),
            Joint(name="drop", kind="prismatic", parent="trolley", child="hand_a", axis=DOWN),
            Joint(name="pitch", parent="hand_a", child="arm_a", axis=Y),
            Joint(name="elbow", parent="arm_a", child="arm_b", axis=Y, parent_point=elbow, damping=damping),
            Joint(name="wrist_b", kind="fixed", parent="arm_b", child="hand_b", parent_point=end),
        ]
        if robot.trunk is not None:
            bodies.append(_arm("trunk", robot.trunk))
            joints.append(
                Joint(name="trunk", parent="arm_a", child="trunk", axis=Y, parent_point=elbow, damping=damping)
            )
        return {"bodies": tuple(bodies), "joints": tuple(joints)}


def _arm(name: str, link: Link) -> Body:
    return Body(
        name=name,
        mass=Tunable(f"{name}_mass", link.mass, numbers.LIGHTEST * link.mass, unit="kg"),
        inertia=_across(Tunable(f"{name}_inertia", link.inertia, numbers.LIGHTEST * link.inertia, unit="kg m2")),
        center_of_mass=(0.0, 0.0, -link.centre),
        shapes=(Shape(kind="line", points=(0.0, 0.0, 0.0, 0.0, 0.0, -link.length)),),
    )


def _hand(name: str, link: Link, centre: float) -> Body:
    shapes = (Shape(kind="sphere", size=(0.025,), color=HAND_COLORS[name]),)
    return Body(
        name=name, mass=link.mass, inertia=_across(link.inertia), center_of_mass=(0.0, 0.0, centre), shapes=shapes
    )


def _across(moment: Number) -> tuple[Number, Number, float, float, float, float]:
    """Inertia (Ixx, Iyy, Izz, Ixy, Ixz, Iyz) of a thin rod along z with the transverse moment of inertia `moment`."""
    return (moment, moment, 0.0, 0.0, 0.0, 0.0)

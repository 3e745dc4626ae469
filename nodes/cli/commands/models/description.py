"""Description of a robot for `armswing robot show`, as plain values and as tables."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from nodes.cli.terminal import print_line, print_table

BEAM = ("name", "length", "elements", "modes", "bending_stiffness", "mass_per_length", "tension", "supports")
SPRING = ("stiffness", "rest_length", "damping", "pretension")
JOINT_PARTS = ("damping", "load", "armature", "spring", "friction", "stops")


def plain_description(mechanism: Any) -> dict[str, Any]:
    """Description of a mechanism as plain values, for JSON; numbers in SI units and radians."""
    from nodes.framework.simulation.description import output_names, output_units
    from sim_core.kernels.choice import choice_text
    from sim_core.mechanism.constraints import BeamContact

    return {
        "name": mechanism.name,
        "bodies": [{"name": body.name, "mass": _number(body.mass)} for body in mechanism.bodies],
        "joints": [
            {
                **{"name": j.name, "kind": j.kind, "unit": j.unit, "lower": j.lower, "upper": j.upper},
                **{"parent": j.parent, "child": j.child, "axis": [float(component) for component in j.axis]},
                **{part: _part(getattr(j, part)) for part in JOINT_PARTS},
            }
            for j in mechanism.joints
            if j.coordinates
        ],
        "actuators": [_actuator(a) for a in mechanism.actuators],
        "kernels": choice_text(mechanism),
        "constraint_modes": [constraint_mode.name for constraint_mode in mechanism.constraint_modes],
        "starts_in": mechanism.constraint_modes[mechanism.start_constraint_mode].name,
        "switched": list(mechanism.switched),
        "springs": [
            {"name": s.name, "from": s.body_a, "to": s.body_b, **{key: _number(getattr(s, key)) for key in SPRING}}
            for s in mechanism.springs
        ],
        "beams": [_beam(beam) for beam in mechanism.beams],
        "contacts": [
            {"name": c.name, "beam": c.beam, "body": c.body, "point": [float(x) for x in c.point]}
            for c in mechanism.constraints
            if isinstance(c, BeamContact)
        ],
        "constraints": [
            {"name": c.name, "kind": type(c).__name__, "between": _between(c)}
            for c in mechanism.constraints
            if not isinstance(c, BeamContact)
        ],
        "sphere_contacts": [_part(contact) for contact in mechanism.contacts],
        "free_starts": _free_starts(mechanism),
        "forces": [
            {"name": f.name, "parameters": {key: _number(number) for key, number in f.parameters}}
            for f in mechanism.forces
        ],
        "outputs": dict(zip(names := output_names(mechanism), output_units(mechanism, names), strict=True)),
        "tunables": {tunable.name: float(tunable.value) for tunable in mechanism.tunables},
        "tunable_ranges": {
            one.name: {"unit": one.unit, "least": _finite(one.least), "most": _finite(one.most)}
            for one in mechanism.tunables
        },
        "parameters": {key: float(value) for key, value in mechanism.parameters.items()},
        "gravity": [float(component) for component in mechanism.gravity],
    }


def _free_starts(mechanism: Any) -> dict[str, list[float]]:
    """{body on a free joint from the ground: position x, y, z, m, at which it starts}, in joint coordinates."""
    found, first = {}, 0
    for joint in mechanism.joints if mechanism.has_joint_coordinates else ():
        if joint.is_free and joint.parent == "ground" and not any(joint.parent_point):
            found[joint.child] = [float(each) + 0.0 for each in mechanism.initial_q[first : first + 3]]
        first += len(joint.coordinates)
    return found


def _part(part: Any) -> Any:
    """Convert a number, a tuple or a part such as a spring to plain values; text and None are not changed."""
    if dataclasses.is_dataclass(part) and not hasattr(part, "value"):
        return {field.name: _part(getattr(part, field.name)) for field in dataclasses.fields(part)}
    if isinstance(part, tuple):
        return [_part(each) for each in part]
    return part if part is None or isinstance(part, str) else _number(part)


def _between(constraint: Any) -> str:
    """Text of what a constraint relates, such as "arm, ground", "a - 2 b = 0" or "a follows a function of time"."""
    from sim_core.mechanism import JointRelation, PrescribedMotion, SpinRelation

    if isinstance(constraint, JointRelation):
        terms = [(factor, name) for name, factor in constraint.terms]
        return f"{_sum(terms)} = {_number(constraint.offset):g}"
    if isinstance(constraint, SpinRelation):
        return f"{_sum([(factor, f'w({body})') for body, _, factor in constraint.terms])} = 0"
    if isinstance(constraint, PrescribedMotion):
        given = f"velocity {constraint.input!r}" if constraint.input else "a function of time"
        return f"{constraint.joint or constraint.body} follows {given}"
    ends = [getattr(constraint, key) for key in ("body", "body_a", "body_b", "other") if hasattr(constraint, key)]
    return ", ".join(ends if len(ends) > 1 else [*ends, "ground"])


def _sum(terms: list[tuple[float, str]]) -> str:
    """Sum of (factor, name) as text, such as "a - 2 b"."""
    text = ""
    for factor, name in terms:
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += f"{sign}{'' if abs(factor) == 1.0 else f'{abs(factor):g} '}{name}"
    return text


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _tunable(name: str, robot: dict[str, Any]) -> tuple[str, str, str, str]:
    limits = robot["tunable_ranges"][name]
    least, most = (None if limits[end] is None else f"{limits[end]:.6g}" for end in ("least", "most"))
    span = " ".join(part for part in (least and f"from {least}", most and f"to {most}") if part)
    return f"  {name}", f"{robot['tunables'][name]:g}", limits["unit"], span


def _beam(beam: Any) -> dict[str, Any]:
    return {key: getattr(beam, key) for key in BEAM} | {"tension": _number(beam.tension)}


def _actuator(actuator: Any) -> dict[str, Any]:
    keys = ("name", "joint", "unit", "effort_limit", "velocity_limit")
    servo = actuator.servo and {"stiffness": actuator.servo.stiffness, "damping": actuator.servo.damping}
    return {**{key: getattr(actuator, key) for key in keys}, "modes": list(actuator.modes), "servo": servo}


def print_start(consistent: dict[str, Any]) -> None:
    """Print a start that satisfies the constraints, {"q": ..., "v": ...}."""
    print_line("\na start near its own that satisfies the constraints, in m, rad, m/s and rad/s")
    print_table(("  ", "numbers"), [(f"  {key}", _numbers(each)) for key, each in consistent.items()])


def print_description(robot: dict[str, Any]) -> None:
    """Print the tables of a robot's description.

    robot  result of `plain_description`, with the entries that `armswing robot show` adds, such as "about"
    """
    print_line(f"{robot['name']}, gravity ({', '.join(f'{g:g}' for g in robot['gravity'])}) m/s^2")
    if robot["about"]:
        print_line(robot["about"])
    print_line("\nbodies")
    print_table(("  name", "mass"), [(f"  {b['name']}", f"{b['mass']:g} kg") for b in robot["bodies"]])
    print_line("\njoints")
    print_table(
        ("  name", "kind", "axis", "parent", "child", "limits"),
        [(f"  {j['name']}", j["kind"], _axis(j), j["parent"], j["child"], _limits(j)) for j in robot["joints"]],
    )
    print_line("\nactuators" if robot["actuators"] else "\nactuators: none, nothing drives it")
    rates = {j["name"]: f"{j['unit']}/s" for j in robot["joints"]}
    print_table(
        ("  name", "joint", "largest effort", "largest velocity", "takes"),
        [
            (f"  {a['name']}", a["joint"], _limit(a, "effort", a["unit"]), _limit(a, "velocity", rate), takes)
            if a["joint"]
            else (f"  {a['name']}", "none, a switch", "1 is on, 0 off", "", takes)
            for a in robot["actuators"]
            for rate, takes in [(rates.get(a["joint"], ""), ", ".join(a["modes"]))]
        ],
    )
    if len(robot["constraint_modes"]) > 1:
        print_line(f"\nconstraint modes: {', '.join(robot['constraint_modes'])}; it starts in {robot['starts_in']}")
    elif robot["switched"]:
        print_line(f"\nconstraints that guards switch: {', '.join(robot['switched'])}")
    if robot["springs"]:
        print_line("\nsprings")
        print_table(
            ("  name", "from", "to", "stiffness", "rest length", "damping", "pretension"),
            [
                (f"  {s['name']}", s["from"], s["to"], f"{k:g} N/m", f"{rest:g} m", f"{damping:g} N s/m", f"{pull:g} N")
                for s in robot["springs"]
                for k, rest, damping, pull in [[s[key] for key in SPRING]]
            ],
        )
    _print_joint_parts(robot)
    _print_constraints(robot)
    _print_beams(robot)
    if robot["outputs"]:
        print_line("\noutputs")
        print_table(("  name", "unit"), [(f"  {name}", unit) for name, unit in robot["outputs"].items()])
    print_line(f"\nkernels: {robot['kernels']}")
    print_line("\nparameters of [sim.parameters] and --param")
    print_table(("  name", "default", "unit", "what it is"), [_parameter(each) for each in robot["takes"]])
    if robot["tunables"]:
        print_line("\ntunables, which change while it runs")
        print_table(("  name", "value", "unit", "range"), [_tunable(key, robot) for key in robot["tunables"]])
    fixed = {key: value for key, value in robot["parameters"].items() if key not in robot["choices"]}
    if fixed:
        print_line("\nnumbers of the description, in m, kg, s, N and rad")
        print_table(("  name", "value"), [(f"  {key}", f"{value:g}") for key, value in fixed.items()])


def _parameter(takes: dict[str, Any]) -> tuple[str, str, str, str]:
    """Table row of one parameter of a robot's builder: (name, default, unit, meaning).

    takes  description of the parameter; if its default is None or "", the row has words that explain this default
    """
    default = takes["default"]
    stands_for = takes["none"] if default in (None, "") else str(default)
    one_of = f"{', '.join(map(str, takes['choices']))}: " if takes["choices"] else ""
    return f"  {takes['name']}", stands_for or '""', takes["unit"], f"{one_of}{takes['meaning']}"


def _print_joint_parts(robot: dict[str, Any]) -> None:
    """Print one row for each spring, friction, stop and other part of a joint."""
    rows = [(f"  {j['name']}", part, text) for j in robot["joints"] for part, text in _joint_parts(j)]
    if rows:
        print_line("\nsprings, friction, stops and rotors of joints")
        print_table(("  joint", "part", "numbers"), rows)


def _joint_parts(joint: dict[str, Any]) -> list[tuple[str, str]]:
    """[(name of a part, its numbers with units)] of the parts that a joint has."""
    unit, effort = joint["unit"], "N" if joint["unit"] == "m" else "N m"
    found = []
    if joint["damping"]:
        found.append(("damping", f"{joint['damping']:g} {effort} s/{unit}"))
    if joint["load"]:
        found.append(("load", f"{joint['load']:g} {effort}"))
    if joint["armature"]:
        found.append(("armature", f"{joint['armature']:g} {'kg' if unit == 'm' else 'kg m2'}"))
    if (spring := joint["spring"]) is not None:
        cubic = f", cubic {spring['cubic']:g} {effort}/{unit}^3" if spring["cubic"] else ""
        preload = f", preload {spring['preload']:g} {effort}" if spring["preload"] else ""
        oriented = joint["kind"] in ("spherical", "free")
        rest = "" if oriented else f", rest at {spring['rest']:g} {unit}"
        found.append(("spring", f"{spring['stiffness']:g} {effort}/{unit}{cubic}{rest}{preload}"))
    if (friction := joint["friction"]) is not None:
        static = "" if friction["static"] is None else f", static {friction['static']:g} {effort}"
        smooth = f", smooth below {friction['smoothing_velocity']:g} {unit}/s"
        bristle = friction["bristle_stiffness"]
        near_rest = smooth if bristle is None else f", bristle {bristle:g} {effort}/{unit}"
        found.append(("dry friction", f"{friction['coulomb']:g} {effort}{static}{near_rest}"))
    if (stops := joint["stops"]) is not None:
        power = "" if stops["exponent"] == 1.0 else f"^{stops['exponent']:g}"
        found.append(("stops", f"{stops['stiffness']:g} {effort}/{unit}{power}, {stops['dissipation']:g} s/{unit}"))
    return found


def _print_constraints(robot: dict[str, Any]) -> None:
    """Print constraints and couplings, contacts of spheres, and custom forces."""
    if robot["constraints"]:
        print_line("\nconstraints and couplings")
        rows = [(f"  {c['name']}", c["kind"], c["between"]) for c in robot["constraints"]]
        print_table(("  name", "kind", "between"), rows)
    if robot["sphere_contacts"]:
        touching = {name for c in robot["sphere_contacts"] for name in (c["body"], c["other"])} - {"ground"}
        print_line(f"\ncontacts: {len(robot['sphere_contacts'])}, of {len(touching)} bodies")
        print_table(
            ("  name", "of", "with", "stiffness", "dissipation", "friction"),
            [
                (
                    *(f"  {c['name']}", _round(c["body"], c["radius"]), _surface(c)),
                    *(_contact_stiffness(c), f"{c['dissipation']:g} s/m", f"{c['friction']:g}"),
                )
                for c in robot["sphere_contacts"]
            ],
        )
    for body, place in robot["free_starts"].items():
        print_line(f"\nstart: {body} at ({', '.join(f'{each:.6g}' for each in place)}) m")
    if robot["forces"]:
        print_line("\ncustom forces")
        print_table(
            ("  name", "parameters"),
            [
                (f"  {f['name']}", ", ".join(f"{key} {number:g}" for key, number in f["parameters"].items()))
                for f in robot["forces"]
            ],
        )


def _round(body: str, radius: float) -> str:
    return f"{body}, sphere of {radius:g} m" if radius else f"{body}, point"


def _surface(contact: dict[str, Any]) -> str:
    """Body and shape that a sphere touches, such as "ground, plane"."""
    if contact["other_half_sizes"] is not None:
        shape = "box"
    elif contact["other_radius"] is None:
        shape = "plane"
    else:
        shape = f"{'capsule' if any(contact['other_half_axis']) else 'sphere'} of {contact['other_radius']:g} m"
    return f"{contact['other']}, {shape}"


def _contact_stiffness(contact: dict[str, Any]) -> str:
    if contact["stiffness"] is None:
        return "from its mass"
    power = "" if contact["exponent"] == 1.0 else f"^{contact['exponent']:g}"
    return f"{contact['stiffness']:g} N/m{power}"


def _print_beams(robot: dict[str, Any]) -> None:
    if robot["beams"]:
        print_line("\nbeams")
        print_table(
            ("  name", "length", "EI", "mass", "tension", "supports", "coordinates"),
            [
                (
                    *(f"  {b['name']}", f"{b['length']:g} m", f"{b['bending_stiffness']:g} N m2"),
                    *(f"{b['mass_per_length']:g} kg/m", f"{b['tension']:g} N", b["supports"]),
                    f"{b['modes']} modes" if b["modes"] else f"all nodes of {b['elements']} elements",
                )
                for b in robot["beams"]
            ],
        )
    if robot["contacts"]:
        print_line("\npoints that slide on a beam")
        print_table(
            ("  name", "beam", "body", "at"),
            [
                (f"  {c['name']}", c["beam"], c["body"], f"({', '.join(f'{x:g}' for x in c['point'])}) m")
                for c in robot["contacts"]
            ],
        )


def _number(value: Any) -> float:
    """Return a number of a description as a float: the value of a tunable parameter, or the number itself."""
    return float(getattr(value, "value", value))


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{round(value, 12) + 0.0:.10g}" for value in values)


def _axis(joint: dict[str, Any]) -> str:
    """Joint axis as text: a letter with a sign, such as "-y", or otherwise its components in the parent's frame.

    A joint without an axis gives "-".
    """
    if joint["kind"] in ("spherical", "free"):
        return "-"
    axis: list[float] = joint["axis"]
    signed = {1.0: "", -1.0: "-"}
    for letter, component in zip("xyz", axis, strict=True):
        if component in signed:
            return f"{signed[component]}{letter}"
    return f"({', '.join(f'{component:.4g}' for component in axis)})"


def _limits(joint: dict[str, Any]) -> str:
    if joint["kind"] in ("spherical", "free"):
        return "none" if joint["upper"] is None else f"angle up to {joint['upper']:g} rad"
    if joint["lower"] is None and joint["upper"] is None:
        return f"none, {joint['unit']}"
    lower, upper = (("-" if bound is None else f"{bound:g}") for bound in (joint["lower"], joint["upper"]))
    return f"{lower} to {upper} {joint['unit']}"


def _limit(actuator: dict[str, Any], of: str, unit: str) -> str:
    limit = actuator[f"{of}_limit"]
    return "no limit" if limit is None else f"{limit:g} {unit}"

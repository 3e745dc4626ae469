"""Every key of a launch file with type, default and description, from the plan's structs and their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from nodes.framework.plan.files.arguments import Argument
from nodes.framework.plan.files.including import Group, Include, MilestoneTable, NodeTable
from nodes.framework.plan.key_checks import type_text
from nodes.framework.plan.launch_plan import LinkPlan, Plan, SimPlan
from sim_core.integrators.steppers import ADJUSTABLE, STEPPERS
from sim_core.stabilization.membership import FuzzySets
from sim_core.stabilization.registry import stabilizers_by_name
from sim_core.tables import defaults_of

# Description of each parameter of steppers and stabilizers; a test checks that every one has one.
ABOUT_PARAMETERS = {
    "alpha": "gain in 2 alpha Phidot, 1/s; by default 1/h, or beta where that is given",
    "beta": "gain in beta^2 Phi, 1/s; by default sqrt2/h, or alpha where that is given",
    "Kp": "gain of Phi",
    "Ki": "gain of the integral of Phi",
    "Kd": "gain of Phidot",
    "Ku": "gain of the rules' output",
    "weight": "pseudo_inverse | mass: metric in which a correction is least",
    "level": "both | position | velocity: quantities that are corrected",
    "inside_rhs": "true: the correction stays inside the right-hand side, as in the papers; violations then grow",
    "sets": "fuzzy sets: kind = triangle (set I) | trapezoid (set II) | gaussian (set III), conjunction, width",
    "conjunction": "product | minimum: operator that joins the memberships of Phi and Phidot",
    "width": "plateau of a trapezoid or sigma of a Gaussian, up to 0.5; triangles have none",
    "sigma": "sigma of the Gaussians, 0.05 .. 0.5",
    "permitted": "permitted [|Phi|, |Phidot|]: Kp = 1/|Phi|, Kd = 1/|Phidot|, Ku = 100 Kp; without it 1e2, 1e-2, 1e4",
    "saturation": "violation at which the control saturates, in the rows' unit; by default 1 % of the robot's length",
    "pole": "pole of the sampled loop, 0 .. 1; by default the stepper's own choice",
    "phi": "|Phi| after the first step, summed over the rows",
    "phidot": "|Phidot| after the first step, summed over the rows",
    "speed": "2-norm of the start's coordinate rates",
    "tolerance": "relative tolerance of Newton's iteration",
    "rho": "factor by which a step damps the fastest vibration, 0 .. 1",
    "rtol": "relative error allowed in a step",
    "atol": "absolute error allowed in a step",
}
# Description of each stepper and stabilizer; a test checks that every one has one and that there are no others.
ABOUT_METHODS = {
    "none": "no stabilization",
    "baumgarte": "2 alpha dPhi/dt + beta^2 Phi; without gains 1/h and sqrt2/h, one alone damps critically",
    "pid": "Baumgarte with an integral; without gains three poles at -1/(10 h), `Kp` alone damps critically",
    "direct_correction": "correction of positions, velocities or both after each step",
    "projection": "direct correction least in the metric of the masses, with the step's factorization",
    "fuzzy_paper": "25 fuzzy rules at every stage; `sets` is a table of kind, conjunction and width",
    "sampled_fuzzy": "the default: fuzzy control, held over a step; its gains follow the step",
    "nada_set_1": "Nada's controller with triangles",
    "nada_set_2": "Nada's controller with trapezoids",
    "nada_set_3": "Nada's controller with Gaussians",
    "man_case_1": "Man's controller for starts at rest",
    "man_case_2": "Man's controller for starts in motion; first violations and start speed must be given",
    "rk4": "the classical Runge-Kutta method of order 4, the default",
    "semi_implicit": "semi-implicit Euler, order 1",
    "dopri5": "Dormand and Prince's method of order 5, fixed step",
    "abm4": "Adams, Bashforth and Moulton's method of order 4",
    "implicit_midpoint": "order 2, a beam's stiffness is implicit; no numerical damping",
    "generalized_alpha": "order 2, a beam's stiffness is implicit; a step damps the fastest vibration by `rho`",
    "tr_bdf2": "implicit, L-stable, order 2",
    "radau5": "implicit, L-stable, order 5",
    "dopri5_adaptive": "Dormand-Prince 5(4) with error control, steps end at the ticks",
    "dopri5_dense": "Dormand-Prince 5(4) with error control, ticks by interpolation, as in ode45",
    "adams_variable": "Adams methods of variable order, by scipy",
    "radau_variable": "Radau IIA with error control, by scipy",
}
TABLES: dict[str, type[msgspec.Struct]] = {
    "": Plan,
    "[args]": Argument,
    "[sim]": SimPlan,
    "[[nodes]]": NodeTable,
    "[nodes.link]": LinkPlan,
    "[[milestones]]": MilestoneTable,
    "[[groups]]": Group,
    "[[include]]": Include,
}
NOT_IN_A_FILE = {"": ("sim", "nodes", "milestones", "folder", "simulations", "commanders"), "[sim]": ("namespace",)}


def docstring_of(kind: Any) -> tuple[str, str, dict[str, str]]:
    """(first paragraph, lines that describe no field, {field: description}) of the docstring of `kind`."""
    first, _, body = (inspect.getdoc(kind) or "").partition("\n\n")
    described: dict[str, str] = {}
    rest: list[str] = []
    name = ""
    for line in body.splitlines():
        found = re.match(r"([a-z_]\w*)((?:,| \.\.) \w+)?  +(\S.*)", line)
        if found:
            name = found[1]
            described[name] = found[3]
        elif name and line.startswith("  "):
            described[name] += " " + line.strip()
        else:
            name = ""
            rest.append(line)
    return " ".join(first.split()), "\n".join(rest).strip(), described


# Description of each key, from the docstrings of its struct and its bases. A test checks that every key has one.
ABOUT = {
    table: {
        key: line
        for base in reversed(kind.__mro__)
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct
        for key, line in docstring_of(base)[2].items()
        if key not in NOT_IN_A_FILE.get(table, ())
    }
    for table, kind in TABLES.items()
}


def keys(table: str) -> Iterator[tuple[str, str, str, str]]:
    """(key, type, default, description) of each key of a table, given by its name in TABLES."""
    methods: dict[str, Iterable[str]] = {}
    if table == "[sim]":
        methods = {"stepper": STEPPERS, "stabilizer": stabilizers_by_name()}
    for field in msgspec.structs.fields(TABLES[table]):
        key = field.encode_name
        if key not in NOT_IN_A_FILE.get(table, ()):
            about = ABOUT[table].get(key, "")
            names = f": {', '.join(methods[key])}" if key in methods else ""
            yield key, type_text(field.type), _default(table, field), about + names


def parameters(kind: str) -> Iterator[tuple[str, str, str, str]]:
    """(method, key, default, description) of each parameter of the steppers or stabilizers.

    kind  "stepper" or "stabilizer"
    """
    makers = ADJUSTABLE if kind == "stepper" else stabilizers_by_name()
    for name, maker in makers.items():
        for key, default in defaults_of(maker).items():
            yield name, key, default_text(default), ABOUT_PARAMETERS.get(key, "")


def default_text(default: object) -> str:
    """Default of a parameter as written in a launch file.

    Returns "required" if there is no default, and "-" if the default is derived from other values.
    """
    if default is inspect.Parameter.empty:
        return "required"
    if default is None:
        return "-"
    if isinstance(default, str | bool | int | float):
        return msgspec.json.encode(default).decode()
    return f'{{ kind = "{default.kind}" }}' if isinstance(default, FuzzySets) else str(default)


def _default(table: str, field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "its file's" if (table, field.name) == ("", "name") else "required"
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.json.encode(field.default_factory()).decode()
    return "-" if field.default is None else msgspec.json.encode(field.default).decode()

"""Export of a robot's kernels for the robot's own computer: C99 sources or an object file, with a header and an
example.

The kernels are inverse dynamics, forward dynamics and forward kinematics, as in `sim_core.inverse`. Object files are
for x86-64 or aarch64.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robots.export.native_derivatives import Derivatives, wrapper
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.kernels.effort import LIMIT_S, check_least_effort
from sim_core.kernels.machine_code.native import cross_target, object_code
from sim_core.mechanism import Mechanism, PrescribedMotion
from sim_core.mechanism.checks.angles import EULER_PARAMETERS

if TYPE_CHECKING:
    import casadi as ca

    from sim_core.kernels.c_source import Signature

# {target: LLVM triple, processor, features}; processors of the last ten years
TARGETS = {
    "x86_64": ("x86_64-unknown-linux-gnu", "x86-64-v3", ""),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", ""),
}
HOW = """{title}

Written by armswing from the mechanism {mechanism!r} (hash {hash}).

Calling convention: every argument is an array of double that the caller owns, read (const) or written, of the sizes
below; all inputs are read before any output is written, so an output may be one of the inputs. No function allocates,
keeps state or fails; all are thread-safe. SI units and radians. Needs libm and nothing else.

Coordinates, in the order of every array [{N}_N_Q]:
{coordinates}

Bodies, in the order of the poses [{N}_N_BODIES]:
{bodies}{parameters}"""


@dataclass(frozen=True)
class Interface:
    """The functions that are exported for a robot, with their C signatures.

    n_rows  number of constraint rows
    """

    mechanism: Mechanism
    prefix: str
    coordinates: tuple[str, ...]
    n_rows: int
    functions: dict[str, ca.Function]
    twins: dict[str, list[tuple[int, int]]]
    signatures: dict[str, Signature]


def export_files(mechanism: Mechanism, format_name: str, target: str = "x86_64") -> dict[str, bytes]:
    """{file name: content} of the header, the example, and the source or object file, and of those of the derivatives.

    format_name  "c" for a C99 source, "object" for an object file
    target       computer for which the object file is compiled, one of TARGETS
    Raises UnknownName for a target that is not in TARGETS. Raises InvalidRequest for what the C functions do not
    support, such as beams, first-order states, prescribed motions, custom forces, and
    constraints that are not always active.
    """
    if target not in TARGETS:
        raise UnknownName("robot export", "target", target, TARGETS)
    interface = interface_of(mechanism)
    name = interface.prefix
    derivatives = Derivatives.of(mechanism, interface.prefix, interface.n_rows)
    texts = {f"{name}.h": header(interface), f"{name}_example.c": example(interface)}
    texts[f"{name}_derivatives.h"] = derivatives.header()
    if format_name == "c":
        texts |= {f"{name}.c": source(interface), f"{name}_derivatives.c": derivatives.source()}
        return {file: text.encode() for file, text in texts.items()}
    objects = {f"{name}.o": object_file(interface, target)}
    objects[f"{name}_derivatives.o"] = derivatives.object_file(cross_target(*TARGETS[target]))
    return {file: text.encode() for file, text in texts.items()} | objects


def identifier(text: str) -> str:
    """A name converted to a valid C identifier."""
    plain = re.sub(r"\W", "_", text)
    return f"_{plain}" if plain[:1].isdigit() else plain


def interface_of(mechanism: Mechanism) -> Interface:
    """The Interface of a mechanism.

    Raises InvalidRequest for a mechanism that the C functions do not support.
    """
    from sim_core.derivation.equations import derive
    from sim_core.kernels.c_source import Signature

    if len(mechanism.constraint_modes) > 1:
        raise InvalidRequest(
            f"{mechanism.name!r} has {len(mechanism.constraint_modes)} constraint modes (sets of active constraints); "
            "the C export supports only one"
        )
    if mechanism.switched:
        named = ", ".join(map(repr, mechanism.switched))
        raise InvalidRequest(
            f"{mechanism.name!r} has guards that activate and deactivate the constraints {named}; "
            "the C export supports only constraints that are always active"
        )
    if mechanism.beams:
        named = ", ".join(repr(beam.name) for beam in mechanism.beams)
        raise InvalidRequest(f"{mechanism.name!r} has beams {named}; C and object files support rigid bodies only")
    if mechanism.first_order_states:
        named = ", ".join(repr(state.name) for state in mechanism.first_order_states)
        raise InvalidRequest(
            f"{mechanism.name!r} has first-order states {named}; C and object files do not support them; "
            "those of an imported robot's friction are left out with friction=regularized"
        )
    if driven := [c.name for c in mechanism.constraints if isinstance(c, PrescribedMotion)]:
        named = ", ".join(map(repr, driven))
        raise InvalidRequest(
            f"{mechanism.name!r} has prescribed motions {named}; C and object files do not support them"
        )
    if mechanism.forces:
        named = ", ".join(repr(force.name) for force in mechanism.forces)
        raise InvalidRequest(f"{mechanism.name!r} has custom forces {named}; C and object files do not support them")
    advice = "these are the limits of C and object files, whose code has no loops; export the model as URDF or MJCF"
    check_least_effort(mechanism, LIMIT_S, advice)
    derivation = derive(mechanism)
    prefix = identifier(mechanism.name)
    first = mechanism.constraint_modes[0].name
    n_rows = len(derivation.facts["row_names"])  # type: ignore[arg-type]
    p = {4: "p"} if mechanism.parameter_names else {}
    lam = {1: "lam"} if n_rows else {}
    functions = {
        "inverse_dynamics": derivation.functions["inverse_dynamics"],
        "forward_dynamics": derivation.functions[f"{first}.forward_dynamics"],
        "forward_kinematics": derivation.functions["poses"],
    }
    signatures = {
        "inverse_dynamics": Signature(f"{prefix}_inverse_dynamics", {1: "q", 2: "v", 3: "a"} | p, {0: "tau"}),
        "forward_dynamics": Signature(f"{prefix}_forward_dynamics", {1: "q", 2: "v", 3: "tau"} | p, {0: "a"} | lam),
        "forward_kinematics": Signature(f"{prefix}_forward_kinematics", {1: "q"} | p, {0: "positions", 1: "rotations"}),
    }
    if mechanism.oriented_joints:
        rebased = {0: "q_new", 1: "v_new", 2: "p_new"}
        functions["rebase"] = derivation.functions["rebase"]
        signatures["rebase"] = Signature(f"{prefix}_rebase", {1: "q", 2: "v", 4: "p"}, rebased)
    coordinates: tuple[str, ...] = tuple(derivation.facts["coordinate_names"])  # type: ignore[arg-type]
    return Interface(mechanism, prefix, coordinates, n_rows, functions, derivation.twins, signatures)


def _parameters(mechanism: Mechanism) -> dict[str, float]:
    """{name: default value} of the entries of the parameter array p, in order."""
    values = map(float, mechanism.parameter_values(0))
    return dict(zip(mechanism.parameter_names, values, strict=True))


def _about(interface: Interface, title: str) -> str:
    mechanism, N = interface.mechanism, interface.prefix.upper()
    units = _units(interface)
    lines = [f"  {k:3} {name} ({units[k]})" for k, name in enumerate(interface.coordinates)]
    bodies = [f"  {k:3} {body.name}" for k, body in enumerate(mechanism.bodies)]
    values = [f"  {k:3} {name} = {value!r}" for k, (name, value) in enumerate(_parameters(mechanism).items())]
    parameters = f"\n\nParameters, in the order of p [{N}_N_P]:\n" + "\n".join(values) if values else ""
    text = HOW.format(
        title=title,
        mechanism=mechanism.name,
        hash=mechanism.canonical_hash[:16],
        N=N,
        coordinates="\n".join(lines),
        bodies="\n".join(bodies),
        parameters=parameters,
    )
    return "/* " + text.replace("*/", "* /").replace("\n", "\n   ").replace("\n   \n", "\n\n") + "\n*/"


def _units(interface: Interface) -> list[str]:
    """Units of the coordinates, as text, in order."""
    slides = {joint.name for joint in interface.mechanism.joints if joint.is_length}
    if interface.mechanism.has_joint_coordinates:
        return ["m" if name in slides or name.endswith((".x", ".y", ".z")) else "rad" for name in interface.coordinates]
    ends = [name.rpartition(".")[2] for name in interface.coordinates]
    return ["m" if end in ("x", "y", "z") else "1" if end in EULER_PARAMETERS else "rad" for end in ends]


COMMENTS = {
    "inverse_dynamics": "tau [N_Q], N or N m: the generalized forces that give accelerations a [N_Q] at q, v [N_Q].",
    "forward_dynamics": "a [N_Q]: the accelerations under generalized forces tau [N_Q] at q, v [N_Q].",
    "forward_kinematics": "positions [N_BODIES][3], m, and rotations [N_BODIES][3][3], row by row, of the bodies at\n"
    "   q: origin and axes of each, seen from the world.",
    "rebase": "q, v, p of the same state with the rotations moved from q to the quaternions in p: call it after each\n"
    "   integration step. The orientation of a spherical or free joint is the quaternion NAME.qw to NAME.qz in p,\n"
    "   times the rotation since the last call in the coordinates NAME.rx to NAME.rz of q: a vector of length\n"
    "   4 tan(angle / 4) along the axis. Where these are 0, their velocities are the angular velocity in the child's\n"
    "   axes.",
}
WITH_ROWS = {
    "inverse_dynamics": "\n   Of the tree alone: its loops do not act. What the actuators give is tau + J' lam,"
    "\n   with J the Jacobian of the loops' rows and lam their multipliers.",
    "forward_dynamics": "\n   lam [N_ROWS]: the multipliers of the constraints' rows.",
}


def header(interface: Interface) -> str:
    """Text of the C header: sizes, order of joints and bodies, and declarations of the exported functions.

    The functions are inverse dynamics, forward dynamics and forward kinematics, and with spherical or free joints
    `rebase`, which ends an integration step.
    """
    N, mechanism = interface.prefix.upper(), interface.mechanism
    sizes = {"N_Q": len(interface.coordinates), "N_BODIES": len(mechanism.bodies)}
    sizes |= {"N_ROWS": interface.n_rows} if interface.n_rows else {}
    sizes |= {"N_P": len(mechanism.parameter_names)} if mechanism.parameter_names else {}
    lines = [_about(interface, f"{mechanism.name}: inverse dynamics, forward dynamics, forward kinematics.")]
    lines += ["", f"#ifndef {N}_H", f"#define {N}_H", ""]
    lines += [f"#define {N}_{name} {size}" for name, size in sizes.items()]
    lines += ["", "/* Places of the coordinates. */", "enum {"]
    lines += [f"    {N}_{identifier(name).upper()} = {k}," for k, name in enumerate(interface.coordinates)]
    lines += ["};", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    for name, signature in interface.signatures.items():
        rows = WITH_ROWS.get(name, "") if interface.n_rows else ""
        lines += [f"/* {COMMENTS[name]}{rows} */", f"{signature.prototype()};", ""]
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def source(interface: Interface) -> str:
    """Text of the C99 source of the functions for inverse dynamics, forward dynamics and forward kinematics."""
    from sim_core.kernels.c_source import c_function
    from sim_core.kernels.program import program_of

    lines = [
        f"/* {interface.mechanism.name}; see {interface.prefix}.h. Compile with: cc -O2 -c {interface.prefix}.c */"
    ]
    lines += ["", f'#include "{interface.prefix}.h"', "", "#include <math.h>"]
    for name, signature in interface.signatures.items():
        lines += ["", c_function(program_of(interface.functions[name]), signature)]
    return "\n".join([*lines, ""])


def example(interface: Interface) -> str:
    """Text of a C program that calls each exported function once and prints the results."""
    N, prefix, mechanism = interface.prefix.upper(), interface.prefix, interface.mechanism
    constant = "" if mechanism.oriented_joints else "const "  # `rebase` writes p
    p = f"    {constant}double p[{N}_N_P] = {{{', '.join(map(repr, _parameters(mechanism).values()))}}};"
    with_p, rows = (", p" if mechanism.parameter_names else ""), (", lam" if interface.n_rows else "")
    start = ", ".join(repr(float(value)) for value in mechanism.initial_q)
    lines = [
        f"/* cc -O2 {prefix}_example.c {prefix}.c -lm -o {prefix}_example   (or {prefix}.o for {prefix}.c)",
        "   Prints efforts, accelerations, positions and rotations, one array per line. */",
        "",
        f'#include "{prefix}.h"',
        "",
        "#include <stdio.h>",
        "",
        "static void print(const double *values, int size)",
        "{",
        "    for (int i = 0; i < size; ++i) printf(\"%.17g%c\", values[i], i + 1 < size ? ' ' : '\\n');",
        "}",
        "",
        "int main(void)",
        "{",
        f"    const double start[{N}_N_Q] = {{{start}}};",
        f"    double q[{N}_N_Q], v[{N}_N_Q], a[{N}_N_Q], tau[{N}_N_Q];",
        f"    double positions[3 * {N}_N_BODIES], rotations[9 * {N}_N_BODIES];",
        *([p] if mechanism.parameter_names else []),
        *([f"    double lam[{N}_N_ROWS];"] if interface.n_rows else []),
        f"    for (int i = 0; i < {N}_N_Q; ++i) {{",
        "        q[i] = start[i] + 0.01 * (i + 1);",
        "        v[i] = 0.25 - 0.05 * i;",
        "        a[i] = 0.5 - 0.1 * i;",
        "    }",
        f"    {prefix}_inverse_dynamics(q, v, a{with_p}, tau);",
        f"    print(tau, {N}_N_Q);",
        f"    {prefix}_forward_dynamics(q, v, tau{with_p}, a{rows});",
        f"    print(a, {N}_N_Q);",
        f"    {prefix}_forward_kinematics(q{with_p}, positions, rotations);",
        f"    print(positions, 3 * {N}_N_BODIES);",
        f"    print(rotations, 9 * {N}_N_BODIES);",
        *([f"    {prefix}_rebase(q, v, p, q, v, p);", f"    print(p, {N}_N_P);"] if mechanism.oriented_joints else []),
        "    return 0;",
        "}",
        "",
    ]
    return "\n".join(lines)


def object_file(interface: Interface, target: str) -> bytes:
    """Object file, as bytes, with the functions for inverse dynamics, forward dynamics and forward kinematics.

    The functions are compiled from the same LLVM IR as the kernels of the simulation.

    target  type of the computer that runs the functions, one of TARGETS
    """
    from sim_core.kernels.emit import module_of

    functions = {f"kernel.{name}": function for name, function in interface.functions.items()}
    modules = module_of(functions, interface.twins, linkage="internal ")
    wrappers = [wrapper(f"kernel_{name}", signature) for name, signature in interface.signatures.items()]
    return object_code("\n\n".join([modules, *wrappers]), cross_target(*TARGETS[target]))

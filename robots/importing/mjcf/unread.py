"""Parts of an MJCF file outside its bodies, joints and geoms that the import does not read.

Parts that change the motion are refused, unless the import leaves them out on request; others get a note.
"""

from __future__ import annotations

import mujoco

from robots.importing.mjcf.compiled import Compiled
from robots.importing.xml_reader import Element, short

# parts that change the motion and can be left out on request: {name: what they are}
IGNORABLE = {
    "tendon": "tendons with stiffness, damping, armature, friction or limits",
    "equality": "equality constraints",
    "fluid": "the forces of a fluid (density, viscosity and wind)",
}
OPTIONS = {  # {attribute of <option>: (default, what holds in its place)}
    "timestep": (0.002, "the launch file gives step and stepper"),
    "integrator": (0, "the launch file gives step and stepper"),
    "cone": (0, "contacts are forces, see the documentation of MJCF"),
    "impratio": (1.0, "contacts are forces, see the documentation of MJCF"),
    "noslip_iterations": (0, "contacts are forces, see the documentation of MJCF"),
}


def check_options(compiled: Compiled, ignored: frozenset[str]) -> None:
    """Add the forces of fluids, soft bodies and plugins to the errors of a file; note options that are not read."""
    option, model = compiled.model.opt, compiled.model
    where = next(iter(reversed(compiled.root.all("option"))), compiled.root)
    fluid = [name for name in ("density", "viscosity") if getattr(option, name) != 0.0]
    if fluid:
        with compiled.errors.collected():
            refuse(compiled, where, "fluid", f"{fluid[0]} is not 0, and forces of a fluid are not supported", ignored)
    texts: dict[str, list[str]] = {}
    for name, (default, instead) in OPTIONS.items():
        if getattr(option, name) != default:
            texts.setdefault(instead, []).append(name)
    for instead, names in texts.items():
        verb = "are" if len(names) > 1 else "is"
        compiled.notes.add(where, f"{' and '.join(names)} {verb} not read: {instead}")
    if option.enableflags & int(mujoco.mjtEnableBit.mjENBL_OVERRIDE):
        compiled.notes.add(where, "override is not read: contacts have the parameters of their geoms")
    for element in compiled.root.walk():
        if element.content:
            text = f"the text {short(element.content)} in <{element.tag}> is not read: MJCF has values in attributes"
            compiled.notes.add(element, text)
    for flex in range(model.nflex):
        with compiled.errors.collected():
            compiled.element("flex", flex).fail("soft bodies are not supported; remove it")
    for body in range(model.nbody):
        if model.body_plugin[body] >= 0:
            with compiled.errors.collected():
                compiled.element("body", body).fail("it has a plugin, which is not supported; remove the <plugin>")


def refuse(compiled: Compiled, element: Element, kind: str, message: str, ignored: frozenset[str]) -> None:
    """Raise InvalidMechanism about a part of the file, or note that the part is left out if `ignored` contains it.

    kind  one of IGNORABLE
    """
    if kind not in ignored:
        element.fail(f"{message}; pass ignore={kind} to leave out {IGNORABLE[kind]}")
    compiled.notes.add(element, f"{IGNORABLE[kind]} are left out, as ignore={kind} asks")

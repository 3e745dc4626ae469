"""The model that MuJoCo compiles from an MJCF file: arrays of bodies, joints, geoms, constraints and actuators.

MuJoCo resolves included files, default classes, orientations, frames, copies, and inertias from geoms and meshes.
Before it compiles the model, what the import does not need is left out: textures, skins, user data, and meshes that
are missing and do not change the motion.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any, NoReturn

import mujoco
import numpy as np

from robots.importing.inertials import repaired_inertia
from robots.importing.meshes import LARGEST_BYTES
from robots.importing.mjcf.document import read_document
from robots.importing.notes import Notes
from robots.importing.rotations import Array, normalized
from robots.importing.xml_reader import Element, Errors
from sim_core.errors import InvalidMechanism
from sim_core.mechanism import GROUND
from sim_core.spatial import rotation_from_quaternion

ROUNDING = 1e-15
BOUND = 1e-14  # kg and kg m2: mass and inertia of massless bodies while MuJoCo compiles; it refuses 1e-15
LINE = re.compile(r"line (?:number=)?(\d+)", re.IGNORECASE)
REFUSALS = (ValueError, RuntimeError, MemoryError, mujoco.FatalError)  # of MuJoCo
MISSING = "rror opening file"
PLACE = re.compile(r"\s*Element (name )?'([^']*)'(?:, id \d+)?(?:, line \d+)?\s*$")
WORDS = {"inertia must satisfy": "; pass repair=inertia"}  # {beginning of a message of MuJoCo: remedy}
KINDS = {  # {kind of element: attribute of MjSpec}
    "body": "bodies",
    "joint": "joints",
    "geom": "geoms",
    "site": "sites",
    "tendon": "tendons",
    "actuator": "actuators",
    "equality": "equalities",
    "pair": "pairs",
    "sensor": "sensors",
    "mesh": "meshes",
    "flex": "flexes",
}


class Compiled:
    """A compiled model, and the elements of the file from which its parts come.

    model    MuJoCo's MjModel
    root     the <mujoco> element with all included elements
    bodies   (n,) names of the bodies, with GROUND for the world
    joints   (n,) names of the joints
    geoms    (n,) names of the geoms
    repairs  names from `repairs.REPAIRS`
    """

    def __init__(self, path: Path, owner: str, repairs: frozenset[str], unlimited: bool, used: bool) -> None:
        self.owner, self.notes, self.errors, self.repairs = owner, Notes(owner), Errors(owner), repairs
        self.root = read_document(path, owner)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of MuJoCo, such as for deprecated attributes
            before = mujoco.get_mju_user_warning()
            mujoco.set_mju_user_warning(lambda text: None)  # by default they go to a file in the working directory
            try:
                self._spec = self._parsed(path)
                self._strip(unlimited)
                self._repair()
                self._leave_out_meshes(path.parent, used)
                self.errors.check()
                self.model = self._compiled(path.parent)
            finally:
                mujoco.set_mju_user_warning(before)
        self._parts = {
            kind: {part.id: part for part in getattr(self._spec, attribute)} for kind, attribute in KINDS.items()
        }
        self.bodies = self._body_names()
        self.joints = self._names("joint", self.model.njnt, self.model.jnt_bodyid)
        self.geoms = self._names("geom", self.model.ngeom, self.model.geom_bodyid)

    def element(self, kind: str, index: int) -> Element:
        """A part of the model as an element with line and label, for errors and notes.

        kind   one of KINDS
        index  number of the part in the arrays of the model
        """
        part = self._parts[kind].get(index)
        return self._element_of(kind, part) if part is not None else Element(kind, {}, 1, self.owner)

    def name(self, kind: str, index: int) -> str:
        """Name of a part in the file; "" if it has none."""
        part = self._parts[kind].get(index)
        return str(part.name) if part is not None else ""

    def authored(self, kind: str) -> list[int]:
        """Numbers of the parts of a kind, in the order of the file."""
        return [*self._parts[kind]]

    def geoms_of_pair(self, pair: int) -> tuple[int, int]:
        """The two geoms of a <pair>, in the order of the file; MuJoCo orders them by their bodies."""
        a, b = int(self.model.pair_geom1[pair]), int(self.model.pair_geom2[pair])
        return (a, b) if self.name("geom", a) == self._parts["pair"][pair].geomname1 else (b, a)

    def is_disabled(self, part: str) -> bool:
        """Whether a <flag> in <option> disables a part of MuJoCo's dynamics, such as "contact"."""
        bits, flags = mujoco.mjtDisableBit, self.model.opt.disableflags
        names = [part, "constraint"] if part in ("contact", "equality", "limit", "frictionloss") else [part]
        return any(flags & int(getattr(bits, f"mjDSBL_{name.upper()}")) for name in names)

    def fail(self, message: str) -> NoReturn:
        """Raise InvalidMechanism about the file as a whole."""
        self.root.fail(message)

    def _parsed(self, path: Path) -> Any:
        try:
            return mujoco.MjSpec.from_file(str(path))
        except REFUSALS as error:
            raise self._invalid(str(error)) from None

    def _strip(self, unlimited: bool) -> None:
        """Leave out what is not needed, and bound masses so that MuJoCo accepts massless bodies."""
        spec = self._spec
        for material in spec.materials:
            material.textures = [""] * len(material.textures)
        for part in [*spec.textures, *spec.skins, *spec.texts, *spec.tuples, *spec.numerics]:
            spec.delete(part)
        spec.memory, spec.nkey, spec.nuserdata = -1, 0, 0
        for name in [name for name in dir(spec) if name.startswith("nuser_")]:
            setattr(spec, name, -1)
        for light in spec.lights:
            light.texture = ""
        if spec.compiler.settotalmass <= 0.0:
            spec.compiler.boundmass = max(spec.compiler.boundmass, BOUND)
            spec.compiler.boundinertia = max(spec.compiler.boundinertia, BOUND)
        for joint in spec.joints if unlimited else ():
            if joint.limited != mujoco.mjtLimited.mjLIMITED_FALSE and joint.range[0] > joint.range[1]:
                joint.limited = mujoco.mjtLimited.mjLIMITED_FALSE
                self.notes.add(self._element_of("joint", joint), "its range has no number, and stops nothing")

    def _repair(self) -> None:
        """Check the inertias of all bodies that have an <inertial>, or replace them by consistent ones."""
        if self._spec.compiler.balanceinertia or self._spec.compiler.inertiafromgeom == 1:
            return
        for body in self._spec.bodies:
            if not body.explicitinertial:
                continue
            xx, yy, zz, xy, xz, yz = body.fullinertia
            full = not np.isnan(xx)
            tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) if full else np.diag(body.inertia)
            low, middle, high = np.linalg.eigvalsh(tensor).tolist()
            if min(low, low + middle - high) >= -1e-9 * max(abs(low), abs(high)):
                excess = high - low - middle if full else 0.0
                if excess > 0.0:  # MuJoCo refuses also rounding errors
                    body.fullinertia[:3] += excess
                continue
            element = self._element_of("body", body)
            if "inertia" in self.repairs:
                fixed = repaired_inertia(element, tensor, self.notes)
                if full:
                    body.fullinertia = [fixed[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
                else:
                    body.inertia = np.diag(fixed)
                continue
            printed = f"({low:.4g}, {middle:.4g}, {high:.4g}) kg m2"
            what = "none may be negative" if low < 0.0 else "the largest must not exceed the sum of the others"
            with self.errors.collected():
                element.fail(f"inertia has principal moments {printed}; {what}; pass repair=inertia")

    def _leave_out_meshes(self, folder: Path, used: bool) -> None:
        """Leave out geoms of meshes that are neither drawn nor touch, and do not change the inertias."""
        for mesh in self._spec.meshes:
            path = self._path_of(mesh, folder)
            if mesh.file and os.path.exists(path) and not (os.path.isfile(path) and _is_small(path)):
                self._element_of("mesh", mesh).fail(
                    f"{mesh.file} is no file of at most {LARGEST_BYTES} bytes; shorten it, or remove the mesh"
                )
            if not used and not any(self._needs(geom) for geom in self._geoms_of(mesh)):
                self._remove(mesh)

    def _compiled(self, folder: Path) -> Any:
        """The compiled model, without meshes that MuJoCo cannot read and that do not change the motion."""
        while True:
            try:
                return self._spec.compile()
            except REFUSALS as error:
                unread = self._named_in(str(error))
                if not unread:
                    raise self._invalid(str(error)) from None
                if MISSING in str(error):
                    unread += [
                        mesh for mesh in self._spec.meshes if mesh not in unread and self._is_missing(mesh, folder)
                    ]
                for mesh in unread:
                    self._leave_out(mesh, self._is_missing(mesh, folder), error)
                self.errors.check()

    def _named_in(self, text: str) -> list[Any]:
        """The meshes and height fields from files that a message of MuJoCo is about."""
        assets = [each for each in [*self._spec.meshes, *self._spec.hfields] if each.file]
        return [each for each in assets if re.search(rf"\b{re.escape(Path(each.file).name)}'", text)]

    def _is_missing(self, mesh: Any, folder: Path) -> bool:
        return bool(mesh.file) and not os.path.exists(self._path_of(mesh, folder))

    def _leave_out(self, mesh: Any, is_missing: bool, error: Exception) -> None:
        """Leave out a mesh, with a note; add an error for each geom whose mass depends on it.

        error  what MuJoCo says of the first such mesh
        """
        name = Path(mesh.file).name
        why = f"there is no file {name!r}" if is_missing else f"the file {name!r} cannot be read"
        for geom in self._geoms_of(mesh):
            if self._needs(geom):
                if not is_missing:
                    raise self._invalid(str(error)) from None
                with self.errors.collected():
                    self._element_of("geom", geom).fail(f"{why}, from which the body has its mass; add an <inertial>")
        self.notes.add(self._element_of("mesh", mesh), f"{why}: its geoms are neither drawn nor touch")
        self._remove(mesh)

    def _remove(self, mesh: Any) -> None:
        for geom in self._geoms_of(mesh):
            self._spec.delete(geom)
        self._spec.delete(mesh)

    def _geoms_of(self, mesh: Any) -> list[Any]:
        name = mesh.name or Path(mesh.file).stem
        return [geom for geom in self._spec.geoms if name in (geom.meshname, geom.hfieldname)]

    def _needs(self, geom: Any) -> bool:
        """Whether the mass of a body that moves depends on the mesh of a geom."""
        compiler, body = self._spec.compiler, geom.parent
        low, high = compiler.inertiagrouprange
        if geom.mass == 0.0 or geom.density == 0.0 or not low <= geom.group <= high or geom.hfieldname:
            return False
        if compiler.inertiafromgeom == 0 or (body.explicitinertial and compiler.inertiafromgeom != 1):
            return False
        while body is not None and body.name != "world":
            if len(body.joints):
                return True
            body = body.parent
        return False

    def _path_of(self, mesh: Any, folder: Path) -> Path:
        name = Path(mesh.file).name if self._spec.strippath else mesh.file
        return folder / str(self._spec.meshdir) / str(name)

    def _body_names(self) -> list[str]:
        """Names of the bodies. A body without a name has that of its parent with .bodyN."""
        found, numbers = [GROUND], dict[str, int]()
        given = {self.name("body", index) for index in range(self.model.nbody)}
        for index in range(1, self.model.nbody):
            name, parent = self.name("body", index), found[self.model.body_parentid[index]]
            if name == GROUND:
                element = self.element("body", index)
                self.notes.add(element, f"the body is named '{GROUND}_body', as {GROUND!r} is the name of the world")
                name = f"{GROUND}_body"
            while not name or (name in given and not self.name("body", index)):
                numbers[parent] = numbers.get(parent, 0) + 1
                name = f"{parent}.body{numbers[parent]}"
            found.append(name)
        return found

    def _names(self, kind: str, count: int, bodies: Array) -> list[str]:
        """Names of joints or geoms. One without a name has that of its body with .jointN or .geomN."""
        found, number, before = [], 0, -1
        for index in range(count):
            number = number + 1 if bodies[index] == before else 1
            before = bodies[index]
            found.append(self.name(kind, index) or f"{self.bodies[before]}.{kind}{number}")
        return found

    def _element_of(self, kind: str, part: Any) -> Element:
        line = LINE.search(str(part.info))
        label = f"{kind} {part.name!r}" if part.name else f"<{kind}>"
        return Element(kind, {}, int(line[1]) if line else 1, self.owner, label)

    def _invalid(self, text: str) -> InvalidMechanism:
        """A message of MuJoCo as an error of one line, with the line of the file."""
        line, place = LINE.search(text), PLACE.search(text)
        message = text[: place.start()] if place else LINE.sub("", text)
        message = " ".join(message.removeprefix("XML Error: ").removeprefix("Error: ").split()).strip(" :")
        label = f"{place[2]!r}: " if place and place[1] else f"<{place[2]}>: " if place else ""
        label = "" if place and not place[2] else label
        remedy = next((remedy for start, remedy in WORDS.items() if message.startswith(start)), "")
        at = f"line {line[1]}: " if line and line[1] != "0" else ""
        return InvalidMechanism(f"{self.owner}: {at}{label}{message[:300]}{remedy}")


def _is_small(path: Path) -> bool:
    return path.stat().st_size <= LARGEST_BYTES


def rotation(quaternion: Array) -> Array:
    """Rotation matrix (3, 3) of a quaternion w x y z of a compiled model; its entries of right angles are 0 and +-1."""
    R = np.asarray(rotation_from_quaternion(normalized(quaternion)))
    whole = np.round(R)
    return np.where(np.abs(R - whole) < ROUNDING, whole, R) + 0.0

"""Import of robots from model files in the formats URDF and MJCF. Each format's reader is imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from robots.parameters import ParameterInfo, require_choice, require_not_negative, require_whole
from sim_core.mechanism import Mechanism

FRICTION = ParameterInfo("Coulomb friction in the file: with bristles that stick, smooth near rest, or left out")
MESHES = ParameterInfo("meshes in drawings: as they are, or boxes in their place")
REPAIR = ParameterInfo(
    "faults to repair instead of refusing the file: massless (links that move without mass get a small one), inertia "
    "(the nearest consistent one)",
    none="none",
)
LIMITS = ParameterInfo("stops at the joint limits: compliant ones, or none")
CONTACTS = ParameterInfo(
    "what the collision shapes touch: nothing, the ground z = 0, or also one another (spheres and capsules); auto: the "
    "ground if base is free, else nothing"
)
HULL_POINTS = ParameterInfo("largest number of points of a mesh's convex hull")
SERVOS = ParameterInfo("servos of actuators that have none in the file: none, or stiff ones sized for the masses")


def builder(path: Path, owner: str) -> Callable[..., Mechanism]:
    """Function that builds the robot of a URDF or MJCF file. Its parameters are the import options of the format.

    The root element of the file determines the format.

    owner  beginning of every error message and warning, such as "robot 'panda.urdf'"
    """
    from robots.importing.xml_reader import read_xml  # for robots from files alone

    def robot_of_urdf(
        friction: Annotated[Literal["bristles", "regularized", "ignore"], FRICTION] = "bristles",
        mimic: Annotated[
            Literal["coupled", "free"], ParameterInfo("joints that mimic another: they follow it, or move freely")
        ] = "coupled",
        base: Annotated[
            Literal["fixed", "free"], ParameterInfo("the root link: fixed to the ground, or free to move")
        ] = "fixed",
        limits: Annotated[Literal["compliant", "none"], LIMITS] = "compliant",
        meshes: Annotated[Literal["drawn", "boxes"], MESHES] = "drawn",
        repair: Annotated[str, REPAIR] = "",
        servos: Annotated[Literal["none", "stiff"], SERVOS] = "none",
        contacts: Annotated[Literal["auto", "none", "ground", "all"], CONTACTS] = "auto",
        mu: Annotated[float, ParameterInfo("friction coefficient of the contacts")] = 0.8,
        hull_points: Annotated[int, HULL_POINTS] = 16,
        start: Annotated[
            str,
            ParameterInfo(
                "positions at the start: JOINT=NUMBER, JOINT=NUMBER; * in a name stands for anything", none="near 0"
            ),
        ] = "",
    ) -> Mechanism:
        """Build a robot from a URDF file."""
        # for robots of this format alone
        from robots.importing.feet import Touch, positions_of
        from robots.importing.urdf import read_urdf
        from robots.servos import with_servos

        require_choice(str(path), "friction", friction, ("bristles", "regularized", "ignore"))
        require_choice(str(path), "mimic", mimic, ("coupled", "free"))
        require_choice(str(path), "base", base, ("fixed", "free"))
        require_choice(str(path), "limits", limits, ("compliant", "none"))
        require_choice(str(path), "meshes", meshes, ("drawn", "boxes"))
        require_choice(str(path), "servos", servos, ("none", "stiff"))
        require_choice(str(path), "contacts", contacts, ("auto", "none", "ground", "all"))
        require_not_negative(str(path), mu=mu)
        require_whole(str(path), 4, hull_points=hull_points)
        touching = contacts if contacts != "auto" else "ground" if base == "free" else "none"
        positions, touch = positions_of(start, owner), Touch(mu, hull_points)
        mechanism = read_urdf(path, owner, friction, mimic, base, limits, meshes, repair, touching, touch, positions)
        return with_servos(mechanism) if servos == "stiff" else mechanism

    def robot_of_mjcf(
        friction: Annotated[Literal["bristles", "regularized", "ignore"], FRICTION] = "bristles",
        ignore: Annotated[
            str,
            ParameterInfo("parts to leave out instead of refusing the file: tendon, equality, fluid", none="nothing"),
        ] = "",
        keyframe: Annotated[
            str, ParameterInfo("keyframe that gives the start, else the file's positions", none="start, if any")
        ] = "",
        contacts: Annotated[
            Literal["compliant", "ground", "ignore"],
            ParameterInfo("contacts of geoms: compliant ones, only those with the ground, or none"),
        ] = "compliant",
        limits: Annotated[Literal["compliant", "none"], LIMITS] = "compliant",
        meshes: Annotated[Literal["drawn", "boxes"], MESHES] = "drawn",
        servos: Annotated[Literal["none", "stiff"], SERVOS] = "none",
        repair: Annotated[str, REPAIR] = "",
        hull_points: Annotated[int, HULL_POINTS] = 16,
    ) -> Mechanism:
        """Build a robot from an MJCF file."""
        # for robots of this format alone
        from robots.importing.mjcf.reader import read_mjcf
        from robots.servos import with_servos

        require_choice(str(path), "friction", friction, ("bristles", "regularized", "ignore"))
        require_choice(str(path), "contacts", contacts, ("compliant", "ground", "ignore"))
        require_choice(str(path), "limits", limits, ("compliant", "none"))
        require_choice(str(path), "meshes", meshes, ("drawn", "boxes"))
        require_choice(str(path), "servos", servos, ("none", "stiff"))
        require_whole(str(path), 4, hull_points=hull_points)
        mechanism = read_mjcf(path, owner, friction, ignore, keyframe, contacts, limits, meshes, repair, hull_points)
        return with_servos(mechanism) if servos == "stiff" else mechanism

    root = read_xml(path, owner)
    if root.tag == "mujoco":
        return robot_of_mjcf
    if root.tag != "robot":
        root.fail("this is not a model file; its root element must be <robot> for URDF or <mujoco> for MJCF")
    return robot_of_urdf

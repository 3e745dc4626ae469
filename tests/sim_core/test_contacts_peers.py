"""Hunt-Crossley contacts of spheres, capsules and box corners beside Exudyn and beside an independent integration.

Exudyn integrates the same law: between spheres by its own contact (elastic) and by a user function (with dissipation),
at the corners of a box by user functions. Where a body touches a capsule or the edges and faces of a box, the equations
of motion are written here once more, with quaternions, and integrated by scipy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sim_core.mechanism import Body, Joint, Mechanism, SphereContact, box_contacts, capsule_contacts, dissipation_for
from sim_core.simulation import Simulation
from sim_core.spatial import rotation_from_quaternion
from sim_core.system import assemble

BAR = 1e-6  # m, over 1 s
SECONDS = 1.0
GRAVITY = (0.0, 0.0, -9.81)
Array = np.ndarray


@dataclass(frozen=True)
class Free:
    """A free body: its inertia, and its start."""

    name: str
    mass: float
    moments: tuple[float, float, float]
    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    spin: tuple[float, float, float] = (0.0, 0.0, 0.0)


def moved(bodies: list[Free], contacts: tuple[SphereContact, ...], gravity: Any, step_s: float) -> Array:
    """Positions (n, 3) of free bodies after SECONDS, from the kernels."""
    mechanism = Mechanism(
        name="touching",
        coordinates="joint",
        bodies=[Body(name=body.name, mass=body.mass, inertia=(*body.moments, 0, 0, 0)) for body in bodies],  # type: ignore[arg-type]
        joints=[Joint(name=body.name, kind="free", child=body.name, quaternion=body.quaternion) for body in bodies],  # type: ignore[arg-type]
        contacts=contacts,
        gravity=gravity,
        initial_q=tuple(x for body in bodies for x in (*body.position, 0.0, 0.0, 0.0)),
        initial_v=tuple(x for body in bodies for x in (*body.velocity, *body.spin)),
    )
    sim = Simulation(assemble(mechanism), step_s=step_s)
    sim.advance(SECONDS)
    return np.array(sim.poses()[0])


class Exudyn:
    """Free bodies in Exudyn, with Lie group nodes and an explicit solver of fourth order."""

    def __init__(self, bodies: list[Free], gravity: Any) -> None:
        self.exu = pytest.importorskip("exudyn", exc_type=ImportError)  # its wheel needs libGL.so.1
        self.items = importlib.import_module("exudyn.itemInterface")
        self._container = self.exu.SystemContainer()
        self.mbs = self._container.AddSystem()
        self.ground = self.mbs.AddObject(self.items.ObjectGround())
        self.nodes: list[Any] = []
        self.bodies: dict[str, Any] = {"ground": self.ground}
        for body in bodies:
            angle = 2.0 * np.arctan2(np.linalg.norm(body.quaternion[1:]), body.quaternion[0])
            axis = np.array(body.quaternion[1:]) / (np.linalg.norm(body.quaternion[1:]) or 1.0)
            node = self.mbs.AddNode(
                self.items.NodeRigidBodyRotVecLG(
                    referenceCoordinates=[*body.position, *(angle * axis)],
                    initialVelocities=[*body.velocity, *body.spin],  # angular velocity in the body's axes
                )
            )
            self.nodes.append(node)
            self.bodies[body.name] = self.mbs.AddObject(
                self.items.ObjectRigidBody(mass=body.mass, inertia=[*body.moments, 0.0, 0.0, 0.0], nodeNumber=node)
            )
            mark = self.marker(body.name, (0.0, 0.0, 0.0))
            weight = [body.mass * g for g in gravity]
            self.mbs.AddLoad(self.items.LoadForceVector(markerNumber=mark, loadVector=weight))

    def marker(self, body: str, point: Any) -> Any:
        kind = self.items.MarkerBodyRigid if body != "ground" else self.items.MarkerBodyPosition
        return self.mbs.AddMarker(kind(bodyNumber=self.bodies[body], localPosition=list(point)))

    def add_law(self, marks: list[Any], law: Callable[[Array, Array], Array]) -> None:
        """A force on the second of two points by a law of the vector between them and its rate, in world axes."""

        def pull(mbs: Any, t: float, item: int, u: Array, v: Array, k: Any, d: Any, offset: Any) -> Array:
            return -law(np.array(u), np.array(v))

        spring = self.items.ObjectConnectorCartesianSpringDamper
        self.mbs.AddObject(spring(markerNumbers=marks, springForceUserFunction=pull))

    def moved(self, steps: int) -> Array:
        """Positions (n, 3) of the bodies after SECONDS."""
        self.mbs.Assemble()
        settings = self.exu.SimulationSettings()
        settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = steps, SECONDS
        settings.timeIntegration.verboseMode = 0
        settings.solution.file.write = False
        self.mbs.SolveDynamic(settings, solverType=self.exu.DynamicSolverType.RK44)
        position = self.exu.OutputVariableType.Position
        return np.array([self.mbs.GetNodeOutput(node, position) for node in self.nodes])


def pushed(depth: float, rising: float, k: float, c: float) -> float:
    """Normal force k x^(3/2) max(0, 1 + 3/2 c dx/dt) at the depth x = `depth` with -dx/dt = `rising`."""
    return float(k * max(depth, 0.0) ** 1.5 * max(0.0, 1.0 - 1.5 * c * rising))


BALLS = [
    Free("first", 0.8, (2e-3, 2e-3, 2e-3), (0.0, 0.0, 1.0), velocity=(1.0, 0.2, 1.5)),
    Free("other", 1.3, (4e-3, 4e-3, 4e-3), (0.5, 0.05, 1.06), velocity=(-0.3, 0.0, 1.2), spin=(0.0, 0.0, 2.0)),
]
RADII = 0.1, 0.15


@pytest.mark.parametrize("restitution", [1.0, 0.5])
def test_two_spheres_bounce_off_each_other_as_in_exudyn(restitution: float) -> None:
    k, c = 2e4, dissipation_for(restitution, 1.0)
    touch = SphereContact(
        name="touch", body="first", radius=RADII[0], other="other", other_radius=RADII[1], stiffness=k, dissipation=c
    )
    ours = moved(BALLS, (touch,), GRAVITY, 2e-4)
    peer = Exudyn(BALLS, GRAVITY)
    marks = [peer.marker(body.name, (0.0, 0.0, 0.0)) for body in BALLS]
    if restitution == 1.0:
        data = peer.mbs.AddNode(
            peer.items.NodeGenericData(initialCoordinates=[0.1, 0.0, 0.0, 0.0], numberOfDataCoordinates=4)
        )
        law = {"contactStiffness": k, "contactStiffnessExponent": 1.5, "impactModel": 0}
        peer.mbs.AddObject(
            peer.items.ObjectContactSphereSphere(markerNumbers=marks, nodeNumber=data, spheresRadii=[*RADII], **law)
        )
    else:

        def force(u: Array, v: Array) -> Array:
            apart = float(np.linalg.norm(u))
            return pushed(sum(RADII) - apart, float(u @ v) / apart, k, c) * u / apart

        peer.add_law(marks, force)
    theirs = peer.moved(10_000)
    straight = BALLS[0].position[0] + BALLS[0].velocity[0] * SECONDS
    assert abs(theirs[0, 0] - straight) > 0.1  # they have met
    assert np.abs(ours - theirs).max() < BAR


CRATE = Free(
    "crate",
    2.0,
    (0.02, 0.03, 0.04),
    (0.0, 0.0, 0.35),
    (0.8, 0.36, 0.48, 0.0),
    velocity=(0.5, -0.2, 0.0),
    spin=(1.0, 2.0, -0.5),
)
HALF = (0.15, 0.1, 0.08)


@pytest.mark.parametrize("shape", ["box", "capsule"])
def test_corners_and_ends_bounce_off_the_ground_as_in_exudyn(shape: str) -> None:
    """A tilted box falls on its corners, with friction; a tilted capsule on its ends, without.

    A force without friction on the end of a capsule passes through the centre of its sphere.
    """
    k, c, least = 1e4, 0.3, 0.05
    mu = 0.4 if shape == "box" else 0.0
    law: dict[str, Any] = {"stiffness": k, "dissipation": c, "friction": mu, "slip_velocity": least}
    if shape == "box":
        contacts = box_contacts("corner", body="crate", half_sizes=HALF, **law)
    else:
        contacts = capsule_contacts("end", body="crate", radius=0.05, half_axis=(0.0, 0.0, 0.15), **law)
    ours = moved([CRATE], contacts, GRAVITY, 2e-4)
    peer = Exudyn([CRATE], GRAVITY)
    origin = peer.marker("ground", (0.0, 0.0, 0.0))

    def law_of(radius: float) -> Callable[[Array, Array], Array]:
        def force(u: Array, v: Array) -> Array:
            push = pushed(radius - u[2], v[2], k, c)
            drag = mu * push / np.sqrt(v[0] ** 2 + v[1] ** 2 + least**2)
            return np.array([-drag * v[0], -drag * v[1], push])

        return force

    for contact in contacts:
        peer.add_law([origin, peer.marker("crate", contact.center)], law_of(contact.radius))
    theirs = peer.moved(10_000)
    assert abs(theirs[0, 2] - (CRATE.position[2] - 0.5 * 9.81 * SECONDS**2)) > 0.1  # it has met the ground
    assert np.abs(ours - theirs).max() < BAR


# -- a second integration ---------------------------------------------------------------------------------------------

Nearest = Callable[[Array], Array]  # point of a shape nearest to a point, both in the shape's frame


def on_segment(half_axis: Array) -> Nearest:
    return lambda point: float(np.clip(point @ half_axis / (half_axis @ half_axis), -1.0, 1.0)) * half_axis


def on_box(half_sizes: Array) -> Nearest:
    return lambda point: np.clip(point, -half_sizes, half_sizes)


def independently(bodies: list[Free], nearest: Nearest, radii: float, touch: SphereContact) -> Array:
    """Positions (2, 3) after SECONDS of two free bodies without gravity: `touch` between a sphere of the first and a
    shape of the other.

    The state of a body is its position, quaternion, velocity, and angular momentum about its centre in world axes.
    nearest  point of the shape, without the radius, nearest to the sphere's centre
    radii    sum of the sphere's radius and the shape's
    """
    k, c, mu, least = (
        float(x)
        for x in (touch.stiffness, touch.dissipation, touch.friction, touch.slip_velocity)  # type: ignore[arg-type]
    )

    def rates(t: float, state: Array) -> Array:
        found, parts = np.zeros(26), [state[:13], state[13:]]
        frames = []
        for body, part in zip(bodies, parts, strict=True):
            e = part[3:7] / np.linalg.norm(part[3:7])
            R = rotation_from_quaternion(e)
            w = R @ (R.T @ part[10:13] / np.array(body.moments))
            frames.append((part[:3], R, part[7:10], w, e))
        (p1, R1, v1, w1, _), (p2, R2, v2, w2, _) = frames
        center = p1 + R1 @ np.array(touch.center)
        support = p2 + R2 @ nearest(R2.T @ (center - p2))
        apart = float(np.linalg.norm(center - support))
        normal = (center - support) / apart
        at = center - touch.radius * normal
        sliding = v1 + np.cross(w1, at - p1) - v2 - np.cross(w2, at - p2)
        rising = float(normal @ sliding)
        push = pushed(radii - apart, rising, k, c)
        tangential = sliding - rising * normal
        force = push * (normal - mu * tangential / np.sqrt(tangential @ tangential + least**2))
        for index, (body, (p, _, v, w, e), sign) in enumerate(zip(bodies, frames, (1.0, -1.0), strict=True)):
            block = found[13 * index : 13 * index + 13]
            block[:3], block[7:10] = v, sign * force / body.mass
            block[3] = -0.5 * w @ e[1:]
            block[4:7] = 0.5 * (e[0] * w + np.cross(w, e[1:]))
            block[10:13] = np.cross(at - p, sign * force)
        return found

    start = []
    for body in bodies:
        R = rotation_from_quaternion(np.array(body.quaternion))
        momentum = R @ (np.array(body.moments) * np.array(body.spin))
        start += [*body.position, *body.quaternion, *body.velocity, *momentum]
    done = solve_ivp(rates, (0.0, SECONDS), start, method="DOP853", rtol=1e-11, atol=1e-12, max_step=2e-3)
    return np.array([done.y[:3, -1], done.y[13:16, -1]])


SHAPES: dict[str, tuple[dict[str, Any], Nearest, float]] = {
    "capsule": (
        {"other_radius": 0.05, "other_half_axis": (0.06, 0.0, 0.2)},
        on_segment(np.array((0.06, 0.0, 0.2))),
        0.05,
    ),
    "box": ({"other_half_sizes": (0.2, 0.15, 0.1)}, on_box(np.array((0.2, 0.15, 0.1))), 0.0),
}
HITS = {
    ("capsule", "side"): ((0.4, 0.0, 0.08), (-1.0, 0.0, 0.1)),
    ("capsule", "end"): ((0.12, 0.05, 0.6), (0.0, 0.0, -1.0)),
    ("box", "face"): ((0.05, 0.06, 0.5), (0.1, 0.0, -1.0)),
    ("box", "edge"): ((0.45, 0.02, 0.3), (-0.8, 0.0, -0.5)),
    ("box", "corner"): ((0.5, 0.4, 0.35), (-0.9, -0.8, -0.7)),
}


@pytest.mark.parametrize(("shape", "where"), HITS)
def test_a_sphere_meets_a_capsule_or_box_as_in_an_independent_integration(shape: str, where: str) -> None:
    other, nearest, radius = SHAPES[shape]
    position, velocity = HITS[shape, where]
    bodies = [
        Free("first", 0.9, (3e-3, 4e-3, 2e-3), position, (0.8, 0.0, 0.6, 0.0), velocity, (3.0, 0.0, 1.0)),
        Free(
            "other",
            1.4,
            (0.02, 0.03, 0.025),
            (0.0, 0.0, 0.0),
            (0.96, 0.0, 0.0, 0.28),
            (0.0, 0.1, 0.0),
            (0.2, -0.3, 0.4),
        ),
    ]
    law = {"stiffness": 1e4, "dissipation": 0.3, "friction": 0.4, "slip_velocity": 0.05}
    touch = SphereContact(
        name="touch", body="first", center=(0.02, 0.0, 0.01), radius=0.08, other="other", **other, **law
    )
    theirs = independently(bodies, nearest, 0.08 + radius, touch)
    ours = moved(bodies, (touch,), (0.0, 0.0, 0.0), 2e-4)
    straight = np.array(bodies[1].position) + SECONDS * np.array(bodies[1].velocity)
    assert np.abs(theirs[1] - straight).max() > 0.05  # they have met
    assert np.abs(ours - theirs).max() < BAR

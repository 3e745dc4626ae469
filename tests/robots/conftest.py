"""Random trees of joints, and two other engines that read the files we export."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robots.export import export
from sim_core.mechanism import GROUND, Actuator, Body, Joint, Mechanism
from sim_core.spatial import rotation_from_quaternion
from sim_core.system import System

KINDS = ("revolute", "revolute", "revolute", "prismatic", "planar", "fixed")


def _turned(random: np.random.Generator) -> np.ndarray:
    """A rotation; every third one turns by right angles, as robots do."""
    if random.integers(3) == 0:
        columns = random.permutation(3)
        R = np.eye(3)[:, columns] * random.choice([-1.0, 1.0], 3)
        return R * np.sign(np.linalg.det(R))
    e = random.normal(size=4)
    return np.asarray(rotation_from_quaternion(e / np.linalg.norm(e)))


def _body(random: np.random.Generator, name: str) -> Body:
    """Moments that a cloud of points has, along random axes."""
    R, mass, (a, b, c) = _turned(random), random.uniform(0.1, 5.0), random.uniform(0.05, 0.3, 3)
    I = mass * R @ np.diag([b * b + c * c, a * a + c * c, a * a + b * b]) @ R.T
    inertia = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
    return Body(
        name=name,
        mass=float(mass),
        inertia=tuple(map(float, inertia)),  # type: ignore[arg-type]
        center_of_mass=tuple(random.normal(scale=0.2, size=3).tolist()),
    )


def random_tree(seed: int) -> Mechanism:
    """3 to 9 bodies on revolute, prismatic, planar and fixed joints with turned frames, offsets, damping and limits."""
    random = np.random.default_rng(seed)
    bodies = tuple(_body(random, f"body_{index}") for index in range(random.integers(3, 10)))
    joints = []
    for index, body in enumerate(bodies):
        axis = np.eye(3)[random.integers(3)] if random.integers(2) else random.normal(size=3)
        limited = bool(random.integers(2))
        joints.append(
            Joint(
                name=f"joint_{index}",
                kind=KINDS[random.integers(len(KINDS))],  # type: ignore[arg-type]
                parent=GROUND if index == 0 else bodies[random.integers(index)].name,
                child=body.name,
                parent_point=tuple(random.normal(scale=0.4, size=3).tolist()),
                child_point=tuple(random.normal(scale=0.2, size=3).tolist()) if random.integers(2) else (0.0, 0.0, 0.0),
                axis=tuple((axis / np.linalg.norm(axis)).tolist()),
                rotation=tuple(tuple(row) for row in _turned(random).tolist()),  # type: ignore[arg-type]
                damping=float(random.uniform(0.0, 0.5)),
                lower=-1.0 if limited else None,
                upper=1.5 if limited else None,
            )
        )
    n = sum({"planar": 3, "fixed": 0}.get(joint.kind, 1) for joint in joints)
    moving = next(joint.name for joint in joints if joint.kind != "fixed")
    return Mechanism(
        name=f"tree_{seed}",
        coordinates="joint",
        bodies=bodies,
        joints=tuple(joints),
        actuators=(Actuator(name="motor", joint=moving, effort_limit=7.5),),
        gravity=tuple(random.normal(scale=6.0, size=3).tolist()),
        initial_q=tuple(random.normal(size=n).tolist()),
        initial_v=tuple(random.normal(size=n).tolist()),
    )


class Pinocchio:
    """What pinocchio makes of our URDF, in our coordinates; joints are found by name."""

    def __init__(self, system: System) -> None:
        self.pin = pytest.importorskip("pinocchio", exc_type=ImportError)  # its wheel needs libgomp.so.1
        mechanism, self.text = system.mechanism, export(system.mechanism, "urdf").text
        self.model = self.pin.buildModelFromXML(self.text)
        self.model.gravity.linear = np.array(mechanism.gravity)
        self.data = self.model.createData()
        joints = [self.model.joints[self.model.getJointId(name)] for name in system.coordinate_names]
        self.at_q, self.nqs = [joint.idx_q for joint in joints], [joint.nq for joint in joints]
        self.at_v = [joint.idx_v for joint in joints]
        assert self.model.nv == system.n_q
        self.frames = [self._frame(body.name) for body in mechanism.bodies]

    def _frame(self, body: str) -> int:
        """The link that marks the body's own frame: `<body>.origin` where there is one."""
        origin, kind = f"{body}.origin", self.pin.FrameType.BODY
        name = origin if self.model.existFrame(origin, kind) else body
        return int(self.model.getFrameId(name, kind))

    def position(self, q: np.ndarray) -> np.ndarray:
        """Their q; a joint without limits turns as (cos, sin)."""
        theirs = np.zeros(self.model.nq)
        for at, size, angle in zip(self.at_q, self.nqs, q, strict=True):
            theirs[at : at + size] = angle if size == 1 else (np.cos(angle), np.sin(angle))
        return theirs

    def given(self, values: np.ndarray) -> np.ndarray:
        """Velocities, accelerations or efforts in their order."""
        theirs = np.zeros(self.model.nv)
        theirs[self.at_v] = values
        return theirs

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        full = self.pin.crba(self.model, self.data, self.position(q))
        full = np.triu(full) + np.triu(full, 1).T
        return np.asarray(full[np.ix_(self.at_v, self.at_v)])

    def inverse_dynamics(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        tau = self.pin.rnea(self.model, self.data, self.position(q), self.given(v), self.given(a))
        return np.asarray(tau[self.at_v])

    def forward_dynamics(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        a = self.pin.aba(self.model, self.data, self.position(q), self.given(v), self.given(tau))
        return np.asarray(a[self.at_v])

    def poses(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.pin.framesForwardKinematics(self.model, self.data, self.position(q))
        placed = [self.data.oMf[frame] for frame in self.frames]
        return np.array([pose.translation for pose in placed]), np.array([pose.rotation for pose in placed])

    def shapes(self, q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """World poses of the visuals, link by link."""
        drawn = self.pin.buildGeomFromUrdfString(self.model, self.text, self.pin.GeometryType.VISUAL)
        data = drawn.createData()
        self.pin.updateGeometryPlacements(self.model, self.data, drawn, data, self.position(q))
        return [(pose.translation, pose.rotation) for pose in data.oMg]


class MuJoCo:
    """What MuJoCo makes of our MJCF, in our coordinates, without the forces of joint limits."""

    def __init__(self, system: System) -> None:
        self.mj = pytest.importorskip("mujoco")
        self.model = self.mj.MjModel.from_xml_string(export(system.mechanism, "mjcf").text)
        self.model.opt.disableflags |= int(self.mj.mjtDisableBit.mjDSBL_CONSTRAINT)
        self.data = self.mj.MjData(self.model)
        joints = [self.model.joint(name) for name in system.coordinate_names]
        self.at_q, self.at_v = [j.qposadr[0] for j in joints], [j.dofadr[0] for j in joints]
        assert self.model.nv == self.model.nq == system.n_q
        known = {self.model.body(index).name for index in range(self.model.nbody)}
        self.shared = [index for index, body in enumerate(system.mechanism.bodies) if body.name in known]
        self.bodies = [self.model.body(system.mechanism.bodies[index].name).id for index in self.shared]

    def _set(self, q: np.ndarray, v: np.ndarray) -> None:
        self.data.qpos[self.at_q], self.data.qvel[self.at_v] = q, v

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        self._set(q, 0.0 * q)
        self.mj.mj_forward(self.model, self.data)
        full = np.zeros((self.model.nv, self.model.nv))
        self.mj.mj_fullM(self.model, self.data, full)
        return full[np.ix_(self.at_v, self.at_v)]

    def inverse_dynamics(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        self._set(q, v)
        self.data.qacc[self.at_v] = a
        self.mj.mj_inverse(self.model, self.data)
        return np.asarray(self.data.qfrc_inverse[self.at_v])

    def forward_dynamics(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        self._set(q, v)
        self.data.qfrc_applied[self.at_v] = tau
        self.mj.mj_forward(self.model, self.data)
        return np.asarray(self.data.qacc[self.at_v])

    def poses(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the bodies `shared`: those that were not merged with others."""
        self._set(q, 0.0 * q)
        self.mj.mj_kinematics(self.model, self.data)
        return self.data.xpos[self.bodies].copy(), self.data.xmat[self.bodies].reshape(-1, 3, 3).copy()

    def shapes(self, q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """World poses of the geoms, body by body."""
        self._set(q, 0.0 * q)
        self.mj.mj_kinematics(self.model, self.data)
        return list(zip(self.data.geom_xpos.copy(), self.data.geom_xmat.reshape(-1, 3, 3).copy(), strict=True))


ENGINES: dict[str, Any] = {"pinocchio": Pinocchio, "mujoco": MuJoCo}


@pytest.fixture(params=list(ENGINES), scope="module")
def engine(request: pytest.FixtureRequest) -> Any:
    """The class of an engine: give it a System."""
    return ENGINES[request.param]


@pytest.fixture(name="random_tree", scope="session")
def _random_tree() -> Any:
    """The maker of random trees: seed -> Mechanism."""
    return random_tree


@pytest.fixture(name="in_mujoco", scope="session")
def _in_mujoco() -> Any:
    """MuJoCo's side alone: give it a System."""
    return MuJoCo


@pytest.fixture(name="in_pinocchio", scope="session")
def _in_pinocchio() -> Any:
    """Pinocchio's side alone: give it a System."""
    return Pinocchio

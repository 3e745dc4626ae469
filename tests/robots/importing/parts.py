"""Links and joints of URDF files, and the pinocchio model of a file as an oracle."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
import pytest

from armswing import build
from sim_core.derivation.equations import derive_batch
from sim_core.inverse import forward_dynamics, inverse_dynamics, mass_matrix
from sim_core.mechanism import GROUND, Mechanism
from sim_core.spatial import rotation_from_quaternion
from sim_core.system import assemble

LINK = """
<link name="{name}">
  <inertial>
    <origin xyz="0.1 0 0.05"/>
    <mass value="{mass}"/>
    <inertia ixx="0.02" iyy="0.03" izz="0.025" ixy="0.001" ixz="0" iyz="0"/>
  </inertial>
</link>"""
JOINT = """
<joint name="{name}" type="{kind}">
  <parent link="{parent}"/><child link="{child}"/>
  <origin xyz="0.1 0.2 0.3" rpy="0.3 -0.2 0.1"/>
  <axis xyz="{axis}"/>
  <limit lower="-1" upper="2" effort="5" velocity="3"/>{more}
</joint>"""


def link(name: str, mass: float = 1.0) -> str:
    """A link with mass."""
    return LINK.format(name=name, mass=mass)


def joint(name: str, parent: str, child: str, kind: str = "revolute", axis: str = "0 0 1", more: str = "") -> str:
    """A joint with limits."""
    return JOINT.format(name=name, parent=parent, child=child, kind=kind, axis=axis, more=more)


class PinocchioOfUrdf:
    """Mass matrix, inverse and forward dynamics of pinocchio for a URDF file, in our coordinates.

    Joint damping, which pinocchio's algorithms leave out, is added. Positions of continuous joints become cosine and
    sine. Pinocchio has the linear velocity of a free joint in the child's axes; ours is in the parent's.
    """

    def __init__(self, path: str, mechanism: Mechanism, free_base: bool = False) -> None:
        pinocchio = pytest.importorskip("pinocchio", exc_type=ImportError)  # its wheel needs libgomp.so.1
        self._pin = pinocchio
        root = (pinocchio.JointModelFreeFlyer(),) if free_base else ()
        self._model = pinocchio.buildModelFromUrdf(path, *root)
        self._data = self._model.createData()
        self._ours = [each for each in mechanism.joints if each.coordinates]
        names = ["root_joint" if free_base and each.parent == GROUND else each.name for each in self._ours]
        self._joints = [self._model.joints[self._model.getJointId(name)] for name in names]
        assert self._model.nv == sum(len(each.coordinates) for each in self._ours)
        self._damping = np.array([each.damping for each in self._ours for _ in each.coordinates])

    def at(self, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> None:
        """Set the state: p holds the quaternions of the free joints, whose rotation coordinates in q are 0."""
        n, mine, quaternion = len(q), 0, 0
        self._q, self._B, self._bias = np.zeros(self._model.nq), np.zeros((n, n)), np.zeros(n)
        for joint, theirs in zip(self._ours, self._joints, strict=True):
            column, row = slice(mine, mine + theirs.nv), slice(theirs.idx_v, theirs.idx_v + theirs.nv)
            place = slice(theirs.idx_q, theirs.idx_q + theirs.nq)
            self._B[row, column] = np.eye(theirs.nv)
            if theirs.nv == 6:
                e = p[quaternion : quaternion + 4]
                R_parent = np.array(joint.rotation)
                R = R_parent @ rotation_from_quaternion(e)
                self._q[place] = (*(R_parent.T @ q[mine : mine + 3]), *e[1:], e[0])
                self._B[row.start : row.start + 3, mine : mine + 3] = R.T
                moved, w = R.T @ v[mine : mine + 3], v[mine + 3 : mine + 6]
                self._bias[row.start : row.start + 3] = -np.cross(w, moved)
                quaternion += 4
            else:
                at = q[mine]
                self._q[place] = (np.cos(at), np.sin(at)) if theirs.nq == 2 else at
            mine += theirs.nv
        self._v = v

    def mass_matrix(self) -> np.ndarray:
        """M (n, n)."""
        M = np.triu(self._pin.crba(self._model, self._data, self._q))
        return np.asarray(self._B.T @ (M + np.triu(M, 1).T) @ self._B)

    def inverse_dynamics(self, a: np.ndarray) -> np.ndarray:
        """tau (n,)."""
        v, B = self._v, self._B
        tau = self._pin.rnea(self._model, self._data, self._q, B @ v, B @ a + self._bias)
        return np.asarray(B.T @ tau + self._damping * v)

    def forward_dynamics(self, tau: np.ndarray) -> np.ndarray:
        """a (n,)."""
        v, B = self._v, self._B
        force = np.linalg.solve(B.T, tau - self._damping * v)
        a = self._pin.aba(self._model, self._data, self._q, B @ v, force)
        return np.asarray(np.linalg.solve(B, a - self._bias))


def derived_miss(path: str, states: int, **parameters: str) -> float:
    """`worst_miss` of inverse and forward dynamics, with the symbolic equations in place of the compiled ones."""
    mechanism = build(path, **{"limits": "none", **parameters})
    functions = derive_batch(mechanism)
    theirs = PinocchioOfUrdf(path, mechanism, parameters.get("base") == "free")
    names = [name for each in mechanism.joints for name in each.coordinates]
    turning = [name.rpartition(".")[2] in ("rx", "ry", "rz") for name in names]
    random, worst = np.random.default_rng(11), 0.0
    for q, v, a in random.normal(scale=2.0, size=(states, 3, len(names))):
        q[turning] = 0.0
        e = random.normal(size=(len(mechanism.oriented_joints), 4))
        p = (e / np.linalg.norm(e, axis=1, keepdims=True)).ravel()
        theirs.at(q, v, p)
        for name, other in (
            ("inverse_dynamics", theirs.inverse_dynamics(a)),
            ("forward_dynamics", theirs.forward_dynamics(a)),
        ):
            ours = _evaluated(functions[name], [0.0, q, v, a, p])
            worst = max(worst, float(np.abs(ours - other).max() / np.abs(other).max()))
    return worst


def _evaluated(function: ca.Function, arguments: list[Any]) -> np.ndarray:
    """First result of a kernel's function, whose last argument are its own intermediate values."""
    lifted = np.zeros(function.size1_in(function.n_in() - 1)) if function.n_in() > len(arguments) else None
    while lifted is not None:
        found = np.array(function(*arguments, lifted)[-1]).ravel()
        if np.array_equal(found, lifted, equal_nan=True):
            break
        lifted = found
    results = function(*arguments, *([] if lifted is None else [lifted]))
    return np.array(results[0] if isinstance(results, tuple) else results).ravel()


def worst_miss(path: str, states: int, **parameters: str) -> float:
    """Largest relative difference of mass matrix, inverse and forward dynamics from pinocchio's in random states."""
    mechanism = build(path, **{"limits": "none", **parameters})
    system = assemble(mechanism)
    theirs = PinocchioOfUrdf(path, mechanism, parameters.get("base") == "free")
    turning = [name.rpartition(".")[2] in ("rx", "ry", "rz") for name in system.coordinate_names]
    random, worst = np.random.default_rng(11), 0.0
    for q, v, a in random.normal(scale=2.0, size=(states, 3, system.n_q)):
        q[turning] = 0.0
        e = random.normal(size=(len(mechanism.oriented_joints), 4))
        p = (e / np.linalg.norm(e, axis=1, keepdims=True)).ravel()
        theirs.at(q, v, p)
        for ours, other in (
            (mass_matrix(system, q, p), theirs.mass_matrix()),
            (inverse_dynamics(system, q, v, a, p), theirs.inverse_dynamics(a)),
            (forward_dynamics(system, q, v, a, p=p), theirs.forward_dynamics(a)),
        ):
            worst = max(worst, float(np.abs(ours - other).max() / np.abs(other).max()))
    return worst

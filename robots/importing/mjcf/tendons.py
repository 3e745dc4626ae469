"""Tendons of an MJCF file, and the compensation of gravity, as springs and custom forces."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import mujoco

from robots.importing.mjcf.compiled import Compiled
from robots.importing.mjcf.unread import refuse
from robots.importing.rotations import vector
from robots.smoothing import DEFAULT
from robots.smoothing import RATE as SMOOTHING_RATE
from robots.stops import EXPONENT, FAST, RATE, RESTITUTION, SPEEDS
from robots.tendons import AlongPoints, OnJoints, Pull, Weights
from sim_core.mechanism import CustomForce, ForcePoint, Spring, dissipation_for, stiffness_for
from sim_core.mobility import rounded

WRAP = mujoco.mjtWrap


class Tendons:
    """Reads the tendons of a file.

    ignored   names from IGNORABLE: parts that are left out, with a note
    limited   whether the limits of tendons stop them
    friction  whether dry friction of tendons is read
    """

    def __init__(self, compiled: Compiled, ignored: frozenset[str], limited: bool, friction: bool) -> None:
        self._of, self._model, self._ignored, self._limited = compiled, compiled.model, ignored, limited
        self._friction = friction and not compiled.is_disabled("frictionloss")
        self._used = {int(each) for side in self._equalities() for each in side if each >= 0}

    def _equalities(self) -> list[Any]:
        of_tendons = self._model.eq_type == int(mujoco.mjtEq.mjEQ_TENDON)
        return [self._model.eq_obj1id[of_tendons], self._model.eq_obj2id[of_tendons]]

    def name(self, tendon: int) -> str:
        """Name of a tendon; one without has "tendonN" with a free number N."""
        given = {self._of.name("tendon", index) for index in range(self._model.ntendon)}
        free = (f"tendon{number}" for number in itertools.count(1) if f"tendon{number}" not in given)
        unnamed = sum(not self._of.name("tendon", index) for index in range(tendon))
        return self._of.name("tendon", tendon) or next(itertools.islice(free, unnamed, None))

    def read(self, motors: Mapping[int, tuple[tuple[str, float], ...]]) -> Iterator[Spring | CustomForce]:
        """Yield springs and forces of the tendons; what cannot be read is added to the errors of the file.

        motors  {tendon: (name of an actuator, force per command) of each actuator that pulls it}
        """
        for tendon in range(self._model.ntendon):
            element = self._of.element("tendon", tendon)
            pull, unread = self._pull(tendon), self._unread(tendon)
            acts = pull != Pull() or bool(unread)
            inputs = motors.get(tendon, ())
            if self._model.tendon_frictionloss[tendon] != 0.0 and not self._friction:
                self._of.notes.add(element, "frictionloss is left out, as friction=ignore or a flag asks")
            if unread or (acts and "tendon" in self._ignored):
                pull = Pull()
                with self._of.errors.collected():
                    refuse(self._of, element, "tendon", f"{', '.join(unread)}, which is not supported", self._ignored)
            if pull == Pull() and not inputs:
                if tendon not in self._used and not acts:
                    self._of.notes.add(element, "the tendon is not read: it exerts no force of its own")
                continue
            if pull.friction > 0.0:
                speed = f"{pull.smoothing:g} {'rad' if self.turns(tendon) else 'm'}/s"
                self._of.notes.add(element, f"frictionloss is smooth at speeds below {speed}: a loaded tendon creeps")
            yield self._made(tendon, pull, inputs)

    def _pull(self, tendon: int) -> Pull:
        m, parts = self._model, dict[str, Any]()
        if not self._of.is_disabled("spring"):
            parts["spring"] = (float(m.tendon_stiffness[tendon]), *m.tendon_stiffnesspoly[tendon].tolist())
        if not self._of.is_disabled("damper"):
            parts["damping"] = (float(m.tendon_damping[tendon]), *m.tendon_dampingpoly[tendon].tolist())
        weight, loss = float(m.tendon_invweight0[tendon]), float(m.tendon_frictionloss[tendon])
        if self._friction and loss > 0.0 and weight > 0.0:
            parts |= {"friction": loss, "smoothing": max(DEFAULT, rounded(loss * weight / SMOOTHING_RATE))}
        if any(parts.get("spring", ())):
            low, high = m.tendon_lengthspring[tendon].tolist()
            parts["rest"] = (low, high)
        if self._limited and m.tendon_limited[tendon] and not self._of.is_disabled("limit"):
            low, high = m.tendon_range[tendon].tolist()
            if weight > 0.0:
                speed = SPEEDS["rad" if self.turns(tendon) else "m"]
                stiffness = rounded(stiffness_for(1.0 / weight, EXPONENT, RATE, speed))
                dissipation = dissipation_for(RESTITUTION, FAST * speed)
                parts |= {"lower": low, "upper": high, "stiffness": stiffness, "dissipation": dissipation}
        return Pull(**parts)

    def turns(self, tendon: int) -> bool:
        """Whether a tendon is the sum of positions of hinge joints alone, in rad."""
        hinge = int(mujoco.mjtJoint.mjJNT_HINGE)
        return self.is_fixed(tendon) and all(self._model.jnt_type[joint] == hinge for joint, _ in self._wraps(tendon))

    def is_fixed(self, tendon: int) -> bool:
        """Whether a tendon is a sum of joint positions."""
        return bool(self._model.wrap_type[self._model.tendon_adr[tendon]] == int(WRAP.mjWRAP_JOINT))

    def terms(self, tendon: int) -> dict[str, float]:
        """{joint: coefficient} of a fixed tendon."""
        found: dict[str, float] = {}
        for joint, coefficient in self._wraps(tendon):
            found[self._of.joints[joint]] = found.get(self._of.joints[joint], 0.0) + coefficient
        return found

    def ends(self, tendon: int) -> tuple[int, int] | None:
        """The two sites of a straight tendon; None for any other tendon."""
        sites = self._sites(tendon)
        straight = not self.is_fixed(tendon) and not self.is_wrapped(tendon) and [len(each) for each, _ in sites] == [2]
        return (sites[0][0][0], sites[0][0][1]) if straight and sites[0][1] == 1.0 else None

    def is_wrapped(self, tendon: int) -> bool:
        """Whether a tendon wraps around geoms."""
        return bool({int(WRAP.mjWRAP_SPHERE), int(WRAP.mjWRAP_CYLINDER)} & {*self._types(tendon).tolist()})

    def _unread(self, tendon: int) -> list[str]:
        """Features of a tendon that change the motion and cannot be read."""
        m, found = self._model, []
        limited = m.tendon_limited[tendon] and self._limited
        pull = self._pull(tendon)
        if self.is_wrapped(tendon) and (any(pull.spring) or any(pull.damping) or pull.friction > 0.0 or limited):
            found.append("it wraps around geoms and has stiffness, damping, friction or limits")
        if m.tendon_armature[tendon] != 0.0:
            found.append("it has armature")
        if m.tendon_springyield[tendon] != 0.0 and m.tendon_stiffness[tendon] != 0.0:
            found.append("it has springyield")
        return found

    def _types(self, tendon: int) -> Any:
        first, count = self._model.tendon_adr[tendon], self._model.tendon_num[tendon]
        return self._model.wrap_type[first : first + count]

    def _wraps(self, tendon: int) -> list[tuple[int, float]]:
        """(object, number) of each part of a tendon's path."""
        first, count = self._model.tendon_adr[tendon], self._model.tendon_num[tendon]
        ids, numbers = self._model.wrap_objid[first : first + count], self._model.wrap_prm[first : first + count]
        return list(zip(ids.tolist(), numbers.tolist(), strict=True))

    def _sites(self, tendon: int) -> list[tuple[list[int], float]]:
        """(sites, divisor) of each branch between the pulleys of a spatial tendon."""
        branches: list[tuple[list[int], float]] = [([], 1.0)]
        for kind, (site, number) in zip(self._types(tendon), self._wraps(tendon), strict=True):
            if kind == int(WRAP.mjWRAP_PULLEY):
                branches.append(([], number))
            elif kind == int(WRAP.mjWRAP_SITE):
                branches[-1][0].append(site)
        return [branch for branch in branches if branch[0]]

    def can_pull(self, tendon: int) -> bool:
        """Whether the force of an actuator on a tendon can be read."""
        return not self.is_wrapped(tendon)

    def _made(self, tendon: int, pull: Pull, inputs: tuple[tuple[str, float], ...]) -> Spring | CustomForce:
        name = self.name(tendon)
        if self.is_fixed(tendon):
            return CustomForce(name=name, law=OnJoints(pull, tuple(self.terms(tendon).items()), inputs))
        ends = self.ends(tendon)
        if ends is not None and pull.is_linear and not inputs:
            (body_a, a), (body_b, b) = (self.point(site) for site in ends)
            line: dict[str, Any] = {"body_a": body_a, "point_a": a, "body_b": body_b, "point_b": b}
            return Spring(
                name=name, **line, stiffness=pull.spring[0], rest_length=pull.rest[0], damping=pull.damping[0]
            )
        points, segments = dict[int, ForcePoint](), []
        for sites, divisor in self._sites(tendon):
            for site in sites:
                body, point = self.point(site)
                points.setdefault(site, ForcePoint(name=f"p{len(points)}", body=body, point=point))
            pairs = itertools.pairwise(sites)
            segments += [(points[a].name, points[b].name, divisor) for a, b in pairs]
        return CustomForce(name=name, law=AlongPoints(pull, tuple(segments), inputs), points=tuple(points.values()))

    def point(self, site: int) -> tuple[str, tuple[float, float, float]]:
        """(body, point in the body's frame) of a site."""
        return self._of.bodies[self._model.site_bodyid[site]], vector(self._model.site_pos[site])


def gravity_compensation(compiled: Compiled) -> CustomForce | None:
    """Forces on the centres of mass that compensate the gravity of the bodies with `gravcomp`; None without such."""
    m = compiled.model
    bodies = [b for b in range(1, m.nbody) if m.body_gravcomp[b] != 0.0 and m.body_mass[b] > 0.0]
    moving = [b for b in bodies if m.body_weldid[b] != 0]
    if not moving or not m.opt.gravity.any() or compiled.is_disabled("gravity"):
        return None
    for joint in range(m.njnt):
        if m.jnt_actgravcomp[joint] and m.jnt_actfrclimited[joint]:
            compiled.notes.add(
                compiled.element("joint", joint),
                "actuatorgravcomp is not read: the compensation of gravity is not limited by actuatorfrcrange",
            )
    points = tuple(
        ForcePoint(name=f"p{k}", body=compiled.bodies[b], point=vector(m.body_ipos[b])) for k, b in enumerate(moving)
    )
    forces = tuple(
        (f"p{k}", vector(-m.opt.gravity * m.body_mass[b] * m.body_gravcomp[b])) for k, b in enumerate(moving)
    )
    return CustomForce(name="gravcomp", law=Weights(forces), points=points)

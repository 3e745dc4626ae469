"""Unknowns of an output-error fit as one vector: base parameters, friction, zeros, and errors of the actuation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sim_core.identification.base_parameters import BaseParameters

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
FRICTION = ("viscous", "coulomb", "offset", "armature")
ACTUATION = ("gain", "delay", "backlash", "stiffness")
KINDS = ("zero", *ACTUATION)
PLAUSIBLE = {"zero": 0.1, "gain": 0.2, "delay": 0.02, "backlash": 0.05, "stiffness": 0.3}  # rad or m, 1, s, rad, 1
NOT_NEGATIVE = ("viscous", "coulomb", "armature", "backlash")


@dataclass(frozen=True)
class Unknowns:
    """Layout of the vector x of all unknowns.

    base    base parameters; the first n_b entries of x
    joints  names of the n_q joints; each of the groups FRICTION and KINDS has n_q entries

    zero       measured position minus position of the joint, rad or m
    gain       relative deviation of the effort from that which the servo computes or the command states
    delay      time from the recorded command to its effect in the measured positions, s
    backlash   rad or m
    stiffness  relative deviation of the servo's stiffness
    """

    base: BaseParameters
    joints: tuple[str, ...]

    @property
    def n_b(self) -> int:
        """Number of base parameters."""
        return len(self.base.columns)

    @cached_property
    def size(self) -> int:
        """Number of unknowns."""
        return self.n_b + len(self.joints) * (len(FRICTION) + len(KINDS))

    def place(self, group: str) -> slice:
        """Entries of a group: "inertia", or one of FRICTION and KINDS."""
        if group == "inertia":
            return slice(0, self.n_b)
        begin = self.n_b + (*FRICTION, *KINDS).index(group) * len(self.joints)
        return slice(begin, begin + len(self.joints))

    def name(self, index: int) -> str:
        """Name of an unknown, such as "joint_2/gain"."""
        if index < self.n_b:
            return self.base.name(index)
        group, joint = divmod(index - self.n_b, len(self.joints))
        return f"{self.joints[joint]}/{(*FRICTION, *KINDS)[group]}"

    def kind(self, index: int) -> str:
        """The group of an unknown."""
        if index < self.n_b:
            return "inertia"
        return (*FRICTION, *KINDS)[(index - self.n_b) // len(self.joints)]

    def mask(self, groups: Mapping[str, Collection[int]]) -> Mask:
        """(n_x,) which unknowns are fitted: {group: joints}, or all entries of the group "inertia"."""
        found = np.zeros(self.size, dtype=bool)
        for group, joints in groups.items():
            place = self.place(group)
            if group == "inertia":
                found[place] = True
            else:
                found[[place.start + joint for joint in joints]] = True
        return found

"""Frames of links in rolled kernels: their numbers, and symbolic frames made of these."""

from __future__ import annotations

from dataclasses import dataclass, field

import casadi as ca

from sim_core.derivation.symbols import Frame

FRAME = 18  # numbers of a link's frame: position, rotation (column by column), angular velocity, velocity of the origin


@dataclass(frozen=True)
class WorldFrame(Frame):
    """A frame whose angular velocity in the world's axes is known."""

    world: ca.SX = field(default_factory=lambda: ca.SX(3, 1))

    @property
    def w_W(self) -> ca.SX:
        """Angular velocity (3,) of the body in world axes, rad/s."""
        return self.world


def frame_at_place(frame: ca.SX, place: ca.SX, virtual: ca.SX) -> Frame:
    """The frame at a place on a link, which moves with the link's virtual coordinates.

    frame    numbers (FRAME,) of the link's frame
    place    position (3,) on the link, then rotation (9,), column by column
    virtual  translation (3,) and small rotation (3,) of the link
    """
    R_WL = (ca.SX.eye(3) + ca.skew(virtual[3:])) @ ca.reshape(frame[3:12], 3, 3)
    R_WB, w = R_WL @ ca.reshape(place[3:], 3, 3), frame[12:15]
    return WorldFrame(frame[:3] + virtual[:3] + R_WL @ place[:3], R_WB, R_WB.T @ w, world=w)


def parts_of_frame(numbers: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
    """(position p, rotation R, angular velocity w, velocity of the origin) from the numbers of a frame."""
    return numbers[:3], ca.reshape(numbers[3:12], 3, 3), numbers[12:15], numbers[15:]

"""Andrews' squeezer: seven bodies in the plane, fast and stiff. [GonzalezEtAl2006] A03, [HairerWanner1996, ch. VII.7]

Points, bodies and lengths have the names of the benchmark problem. The crank K1 rotates about O. The rod K2 connects
the crank's point F to the point E. Three branches connect E to the ground. The first is the plate K3, which rotates
about B and whose corner D is connected to C by a spring. The second consists of K4 and K5, which are joined at H and
end at A. The third consists of K6 and K7, which are joined at G and end at A.

SOURCES.md lists the sources of the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from robots.parameters import ParameterInfo, require_finite_number
from sim_core.mechanism import ORIGIN, Body, Joint, JointOutput, Mechanism, Shape, Spring, Vector3

MASSES = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
INERTIAS = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
A, B, C = (-0.06934, -0.00227), (-0.03635, 0.03273), (0.014, 0.072)
STIFFNESS, REST_LENGTH = 4530.0, 0.07785
D, DA, E, EA = 0.028, 0.0115, 0.02, 0.01421
RR, RA = 0.007, 0.00092
SS, SA, SB, SC, SD = 0.035, 0.01874, 0.01043, 0.018, 0.02
TA, TB, ZT = 0.02308, 0.00916, 0.04
U, UA, UB = 0.04, 0.01228, 0.00449
ZF, FA = 0.02, 0.01421
START = {
    "beta": -0.0617138900142764496,
    "Theta": 0.0,
    "gamma": 0.455279819163070380,
    "Phi": 0.222668390165885885,
    "delta": 0.487364979543842551,
    "Omega": -0.222668390165885885,
    "epsilon": 1.23054744454982119,
}
# Points of the bodies, m, in axes that rotate with the problem's angles.
POINTS: dict[str, dict[str, tuple[float, float]]] = {
    "K1": {"O": (0.0, 0.0), "F": (RR, 0.0), "center": (RA, 0.0)},
    "K2": {"F": (0.0, 0.0), "E": (-D, 0.0), "center": (-DA, 0.0)},
    "K3": {"B": (0.0, 0.0), "E": (0.0, -SS), "D": (SD, -SC), "center": (SB, -SA)},
    "K4": {"H": (0.0, 0.0), "E": (0.0, -E), "center": (0.0, -(E - EA))},
    "K5": {"A": (0.0, 0.0), "H": (ZT, 0.0), "center": (TA, TB)},
    "K6": {"G": (0.0, 0.0), "E": (ZF, 0.0), "center": (ZF - FA, 0.0)},
    "K7": {"A": (0.0, 0.0), "G": (0.0, -U), "center": (-UB, -UA)},
}


def andrews_squeezer(torque: Annotated[float, ParameterInfo("torque on the crank", "N m")] = 0.033) -> Mechanism:
    """Andrews' squeezer: seven bodies, ten revolute joints, one degree of freedom; from rest, without gravity.

    The coordinates are absolute, with the bodies' origins at the centres of mass. The outputs are the seven angles of
    the benchmark problem, unwrapped, with the names of the problem. The crank reaches 1000 rad/s within 30 ms.

    The largest possible step size depends on the integration method and on the constraint stabilization. With the
    stabilizer `sampled_fuzzy`, RK4 needs a step size of at most 0.05 ms (error 1e-6 rad at 30 ms). With the stabilizer
    `sampled_fuzzy` or `projection`, tr_bdf2 and radau5 converge with step sizes up to 0.2 ms (runs of 0.1 s).

    torque  constant torque on the crank (N m)
    """
    require_finite_number("andrews_squeezer", torque=torque)
    joints = (
        _pin("beta", "ground", "O", "K1", load=torque),
        _pin("Theta", "K1", "F", "K2"),
        _pin("gamma", "ground", "B", "K3", ground=B),
        _pin("Phi", "K5", "H", "K4"),
        _pin("delta", "ground", "A", "K5", ground=A),
        _pin("Omega", "K7", "G", "K6"),
        _pin("epsilon", "ground", "A", "K7", ground=A),
        *(_pin(f"E_{body}", "K3", "E", body) for body in ("K2", "K4", "K6")),
    )
    spring = Spring(
        name="spring",
        body_a="K3",
        point_a=_from_center("K3", "D"),
        body_b="ground",
        point_b=(*C, 0.0),
        stiffness=STIFFNESS,
        rest_length=REST_LENGTH,
    )
    start = _start()
    return Mechanism(
        name="andrews_squeezer",
        coordinates="absolute",
        bodies=tuple(_body(name, *numbers) for name, *numbers in zip(POINTS, MASSES, INERTIAS, strict=True)),
        joints=joints,
        springs=(spring,),
        outputs=tuple(JointOutput(name=angle, joint=angle) for angle in START),
        gravity=ORIGIN,
        initial_q=tuple(number for name in POINTS for number in start[name]),
        initial_v=(0.0,) * 21,
        parameters={"torque": torque, "stiffness": STIFFNESS, "rest_length": REST_LENGTH},
    )


def _from_center(body: str, point: str) -> Vector3:
    (x, y), (center_x, center_y) = POINTS[body][point], POINTS[body]["center"]
    return (x - center_x, y - center_y, 0.0)


def _pin(
    name: str, parent: str, point: str, child: str, ground: tuple[float, float] = (0.0, 0.0), load: float = 0.0
) -> Joint:
    at = (*ground, 0.0) if parent == "ground" else _from_center(parent, point)
    return Joint(
        name=name, parent=parent, child=child, parent_point=at, child_point=_from_center(child, point), load=load
    )


def _body(name: str, mass: float, inertia: float) -> Body:
    corners = [_from_center(name, point) for point in POINTS[name] if point != "center"]
    closed = [*corners, corners[0]] if len(corners) > 2 else corners
    line = Shape(kind="line", points=tuple(c for corner in closed for c in corner))
    return Body(name=name, mass=mass, inertia=(0.0, 0.0, inertia, 0.0, 0.0, 0.0), shapes=(line,))


@dataclass(frozen=True)
class _Placed:
    """Initial pose of a body's frame, the frame in which the benchmark problem gives the body's points.

    x, y   origin of the frame in the world (m)
    angle  angle of the frame (rad)
    """

    x: float
    y: float
    angle: float

    def point(self, x: float, y: float) -> tuple[float, float]:
        c, s = math.cos(self.angle), math.sin(self.angle)
        return self.x + c * x - s * y, self.y + s * x + c * y


def _start() -> dict[str, tuple[float, float, float]]:
    """Return {body: (x, y of the centre of mass in m, angle in rad)} at the start.

    The poses are computed body by body from the published angles, along open chains that begin at the ground.
    """
    a = START
    K1, K3 = _Placed(0.0, 0.0, a["beta"]), _Placed(*B, a["gamma"])
    K5, K7 = _Placed(*A, a["delta"]), _Placed(*A, a["epsilon"])
    K2 = _Placed(*K1.point(*POINTS["K1"]["F"]), a["beta"] + a["Theta"])
    K4 = _Placed(*K5.point(*POINTS["K5"]["H"]), a["delta"] + a["Phi"])
    K6 = _Placed(*K7.point(*POINTS["K7"]["G"]), a["epsilon"] + a["Omega"])
    placed = {"K1": K1, "K2": K2, "K3": K3, "K4": K4, "K5": K5, "K6": K6, "K7": K7}
    return {name: (*body.point(*POINTS[name]["center"]), body.angle) for name, body in placed.items()}

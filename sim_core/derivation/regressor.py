"""Regressor of a tree of joints: the joint efforts as a linear function of the inertial parameters of the links."""

from __future__ import annotations

import casadi as ca

from sim_core.derivation.coordinates.orientations import quasi_velocities
from sim_core.derivation.coordinates.recursive import LinkMotion, carried_motion, motion_of_ground
from sim_core.derivation.coordinates.tree import Link, tree_of
from sim_core.derivation.making import dense_function
from sim_core.derivation.symbols import symbols_for
from sim_core.mechanism.description import Mechanism

PARAMETERS = ("m", "hx", "hy", "hz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")


def derive_regressor(mechanism: Mechanism) -> ca.Function:
    """Function (q, v, a, p) of the matrix Y (n_q, 10 n_links) in tau = Y pi.

    tau are the joint efforts that produce the accelerations a if gravity is the only other force. pi has the PARAMETERS
    of each link on which a body is mounted, in the order of the links: mass, kg; first moments of mass, kg m; moments
    and products of inertia about the link's origin, kg m2, in the link's axes. [Featherstone2008, ch. 5]
    """
    names = tuple(mechanism.family.names(mechanism.bodies, mechanism.joints))
    symbols = symbols_for(mechanism, len(names))
    a = ca.SX.sym("a", len(names))
    quasi = quasi_velocities(mechanism, symbols)
    links = tree_of(mechanism, symbols).links
    if quasi is None:
        Y = _regressor(links, _motions(links, mechanism, symbols.v, a))
    else:
        motions = _motions(links, mechanism, quasi.symbols.v, quasi.B @ a + quasi.bias)
        Y = quasi.B.T @ _regressor(links, motions)
    return dense_function("regressor", {"q": symbols.q, "v": symbols.v, "a": a, "p": symbols.p}, [Y])


def _motions(links: list[Link], mechanism: Mechanism, v: ca.SX, a: ca.SX) -> list[LinkMotion]:
    """Motion of each link, from the ground outwards."""
    ground, motions = motion_of_ground(mechanism), list[LinkMotion]()
    for index, link in enumerate(links):
        before = motions[link.parent] if link.parent >= 0 else ground
        motions.append(carried_motion(before, link.p, link.R, link.s_w, link.s_v, v[index], a[index]))
    return motions


def _regressor(links: list[Link], motions: list[LinkMotion]) -> ca.SX:
    """Y (n_q, 10 n_links): the wrench of each link per parameter, along the joints between the link and the ground.

    The velocity (s_w, s_v) of a link per unit of each joint's velocity is carried outwards, in the link's axes. That
    takes fewer operations than carrying ten wrenches inwards.
    """
    columns: list[ca.SX] = []
    twists: list[dict[int, tuple[ca.SX, ca.SX]]] = []
    for index, link in enumerate(links):
        before = twists[link.parent] if link.parent >= 0 else {}
        carried = {
            joint: (link.R.T @ s_w, link.R.T @ (s_v + ca.cross(s_w, link.p))) for joint, (s_w, s_v) in before.items()
        }
        twists.append(carried | {index: (link.s_w, link.s_v)})
        if link.mounted:
            rows = ca.SX(len(links), len(PARAMETERS))
            for joint, twist in twists[index].items():
                rows[joint, :] = _power(motions[index], *twist)
            columns.append(rows)
    return ca.horzcat(*columns)


def _power(motion: LinkMotion, s_w: ca.SX, s_v: ca.SX) -> ca.SX:
    """Power (1, 10) of a link's inertial wrench per parameter, for the velocity s_w, s_v (3,) of the link.

    With F = m a + K h, n = I dw + w x I w + h x a and the spin matrix K, it is s_v.F + s_w.n.
    """
    about = ca.cross(s_w, motion.w)
    second = s_w @ motion.dw.T + about @ motion.w.T
    first = motion.spin.T @ s_v + ca.cross(motion.a, s_w)
    products = [second[i, j] + second[j, i] for i, j in ((0, 1), (0, 2), (1, 2))]
    return ca.horzcat(ca.dot(s_v, motion.a), first.T, *[second[i, i] for i in range(3)], *products)

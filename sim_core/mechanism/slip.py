"""Guards of wheels that slip: they release a wheel at the friction cone, and engage it when its slip comes to zero."""

from __future__ import annotations

from dataclasses import replace

from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.guards import Guard, Slipping, SlipReversed, SlipTurned
from sim_core.mechanism.quantities import CapturedParameter
from sim_core.mechanism.rolling import Rolling


def with_slip(mechanism: Mechanism) -> Mechanism:
    """The mechanism with the guards of its wheels that slip; unchanged if it has none, or has its guards already."""
    slipping = [c for c in mechanism.constraints if isinstance(c, Rolling) and c.friction is not None]
    wheels = [wheel for wheel in slipping if wheel.slip_angle is None]
    if not wheels:
        return mechanism
    aimed = {
        wheel.name: replace(wheel, slip_angle=CapturedParameter(name=f"{wheel.name}.slip_angle", value=0.0))
        for wheel in wheels
    }
    guards = [guard for wheel in wheels for guard in _guards_of(wheel.name)]
    constraints = tuple(aimed.get(each.name, each) for each in mechanism.constraints)
    return replace(mechanism, constraints=constraints, guards=(*mechanism.guards, *guards))


def _guards_of(name: str) -> tuple[Guard, Guard, Guard]:
    """The guards that release a wheel, engage it, and turn the direction of its slip."""
    own = (name,)
    return (
        Guard(name=f"{name}.slips", conditions=(Slipping(constraint=name),), captures=own, releases=own),
        Guard(name=f"{name}.rolls", conditions=(SlipReversed(constraint=name),), engages=own, impact="inelastic"),
        Guard(name=f"{name}.turns", conditions=(SlipTurned(constraint=name),), captures=own, excludes=own),
    )

"""Check that a host's address in [hosts] is an address of this computer."""

from __future__ import annotations

from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.transport.addresses import is_own, own_addresses
from nodes.framework.transport.security import keys


def check_own_address(plan: Plan, host: str) -> None:
    """Raise PlanError if the address of `host` in the plan is not an address of this computer.

    Raises KeysError if this computer needs a CURVE key for the launch, but its user has none.
    """
    if not plan.hosts:
        return
    keys.own_key()
    address = plan.hosts[host]
    if is_own(address):
        return
    line = f"this launch starts as host {host!r}, but this computer does not have that host's address {address}"
    for other, theirs in plan.hosts.items():
        if is_own(theirs):
            meant = "to leave out --host" if other == plan.sim.host else f"--host {other}"
            raise PlanError(f"{line}; this computer has the address {theirs} of host {other!r}; did you mean {meant}?")
    if not (own := own_addresses()):
        raise PlanError(f"{line}, only loopback addresses; connect this computer to the network of the other hosts")
    raise PlanError(
        f"{line}; the addresses of this computer are {', '.join(own)}; start the launch on each host with "
        f"--set hosts.{host}=ADDRESS, where ADDRESS is one of these addresses"
    )

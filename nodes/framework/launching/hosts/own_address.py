"""Check that a host's address in [hosts] is an address of this computer."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import socket
import struct
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.transport.security import keys

SIOCGIFADDR = 0x8915  # the IPv4 address of an interface
GLOBAL_SCOPE = "00"


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


def is_own(address: str) -> bool:
    """Whether a socket on this computer can bind to this numeric address."""
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((address, 0))
    except OSError as error:
        return error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True


def own_addresses() -> list[str]:
    """Addresses of this computer reachable from other computers, IPv4 before IPv6."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an IPv4 address
                answer = fcntl.ioctl(asked, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(answer[20:24]))
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            digits, _, _, scope, *_ = line.split()
            if scope == GLOBAL_SCOPE:
                found.append(str(IPv6Address(int(digits, 16))))
    return [address for address in found if not ip_address(address).is_loopback]

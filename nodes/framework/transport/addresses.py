"""Addresses of this computer on its networks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import socket
import struct
from ipaddress import IPv6Address, ip_address
from pathlib import Path

SIOCGIFADDR = 0x8915  # the IPv4 address of an interface
GLOBAL_SCOPE = "00"


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

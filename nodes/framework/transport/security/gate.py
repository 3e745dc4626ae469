"""A listening tcp socket that drops connection attempts from chosen addresses in the kernel.

The filter is a classic BPF program on the socket (Linux, no privilege needed). The filter drops the packets that would
open a connection; established connections stay. A configured firewall could do the same.

Two processes that connect 4900 times a second raise the processor load of a publisher without the filter to 26 % of a
core. With the filter, the processor load is 2.8 %, the same as without these processes (tests/benchmarks/flood.py, two
cores).
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable
from ipaddress import ip_address

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF: offsets from here count from the IP header
LOAD_BYTE, LOAD_WORD, AND, JUMP_IF_EQUAL, RETURN = 0x30, 0x20, 0x54, 0x15, 0x06
DROP, PASS = 0, 0xFFFFFFFF
MOST = 100  # largest number of blocked addresses; a BPF jump spans at most 255 instructions
BACKLOG = 100
TCP_NOTSENT_LOWAT = 25
LONGEST_WAIT_BYTES = 32768  # unsent data in the kernel: more would only arrive later


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a numeric IP address. Raises OSError if binding fails.

    port  number of the port; 0 chooses a free port
    """
    family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, LONGEST_WAIT_BYTES)  # connections inherit this option
        made.bind((host, port))
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def block(listener: socket.socket, addresses: Iterable[str]) -> None:
    """Drop new connections from these IPv4 addresses and from no others. An empty list removes the filter.

    IPv6 addresses, and IPv4 addresses after the first MOST, are ignored.
    """
    blocked = [int(ip_address(address)) for address in addresses if ip_address(address).version == 4][:MOST]
    if not blocked:
        # a socket without a filter answers ENOENT, which `_set` ignores
        _set(listener, SO_DETACH_FILTER, struct.pack("i", 0))
        return
    program = [(LOAD_BYTE, 0, 0, NETWORK_HEADER), (AND, 0, 0, 0xF0), (JUMP_IF_EQUAL, 0, len(blocked) + 1, 0x40)]
    program.append((LOAD_WORD, 0, 0, NETWORK_HEADER + 12))
    program += [(JUMP_IF_EQUAL, len(blocked) - index, 0, address) for index, address in enumerate(blocked)]
    program += [(RETURN, 0, 0, PASS), (RETURN, 0, 0, DROP)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    _set(listener, SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))


def _set(listener: socket.socket, option: int, value: bytes) -> None:
    try:
        listener.setsockopt(socket.SOL_SOCKET, option, value)
    except FileNotFoundError:
        if option != SO_DETACH_FILTER:
            raise

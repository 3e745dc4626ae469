"""A listening tcp socket that can be closed to single addresses, in the kernel: a flood costs its host nothing more.

The filter is a classic BPF program on the socket (Linux, no privilege needed): it drops the packets that would open a
connection. Connections that are there stay as they are.
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
MOST = 100  # addresses; a jump reaches over 255 instructions
BACKLOG = 100
TCP_NOTSENT_LOWAT = 25
LONGEST_WAIT_BYTES = 32768  # what the kernel takes before it can send it: more would only get older there


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens on an address in numbers; port 0 is one that is free. OSError where it cannot."""
    family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, LONGEST_WAIT_BYTES)  # its connections inherit it
        made.bind((host, port))
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def shut_out(listener: socket.socket, addresses: Iterable[str]) -> None:
    """Let no connection from these IPv4 addresses begin, and every other one; () opens the gate to all."""
    shut = [int(ip_address(address)) for address in addresses if ip_address(address).version == 4][:MOST]
    if not shut:
        # "no such file" is what a socket without a filter says
        _set(listener, SO_DETACH_FILTER, struct.pack("i", 0))
        return
    program = [(LOAD_BYTE, 0, 0, NETWORK_HEADER), (AND, 0, 0, 0xF0), (JUMP_IF_EQUAL, 0, len(shut) + 1, 0x40)]
    program.append((LOAD_WORD, 0, 0, NETWORK_HEADER + 12))
    program += [(JUMP_IF_EQUAL, len(shut) - index, 0, address) for index, address in enumerate(shut)]
    program += [(RETURN, 0, 0, PASS), (RETURN, 0, 0, DROP)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    _set(listener, SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))


def _set(listener: socket.socket, option: int, value: bytes) -> None:
    try:
        listener.setsockopt(socket.SOL_SOCKET, option, value)
    except FileNotFoundError:
        if option != SO_DETACH_FILTER:
            raise

"""A link with a delay, for kernels whose tc has no netem: a tunnel between two hosts that holds each packet back.

    python relay.py ADDRESS PEER_ADDRESS UNDER PEER_UNDER DELAY_MS JITTER_MS SEED

Run on both hosts, with the two swapped. Makes the device `tun0` with ADDRESS; its packets go by UDP between the
addresses UNDER and PEER_UNDER of the real link, each after a delay of its own, uniform in DELAY_MS +- JITTER_MS, in
order. Prints "ready"; ends with a signal.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PORT = 17300
MTU = 1400


def tunnel(address: str, peer: str) -> int:
    """The descriptor of a new device tun0, which has this address."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
    for command in (f"address add {address} peer {peer} dev tun0", f"link set tun0 mtu {MTU} up"):
        subprocess.run(["ip", *command.split()], check=True)
    return descriptor


def main(address: str, peer: str, under: str, peer_under: str, *numbers: str) -> None:
    delay_s, jitter_s = (float(number) * 1e-3 for number in numbers[:2])
    dice = random.Random(int(numbers[2]))
    device = tunnel(address, peer)
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.setblocking(False)
    link.bind((under, PORT))
    held: deque[tuple[float, bytes]] = deque()
    print("ready", flush=True)
    while True:
        wait_s = max(held[0][0] - time.monotonic(), 0.0) if held else None
        awake, _, _ = select.select([device, link], [], [], wait_s)
        now = time.monotonic()
        if link in awake:
            with contextlib.suppress(OSError):  # the link is down: what it says of that is no packet
                os.write(device, link.recv(65536))
        if device in awake:
            due = now + delay_s + dice.uniform(-jitter_s, jitter_s)
            held.append((max(due, held[-1][0]) if held else due, os.read(device, 65536)))
        while held and held[0][0] <= now:
            with contextlib.suppress(OSError):  # lost, as on any link that is down
                link.sendto(held.popleft()[1], (peer_under, PORT))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Compilation of several modules by this process and a second one, side by side.

llvmlite compiles in one thread of a process at a time. The second process compiles a module as soon as it is written,
while this process writes the others; when all are written, both compile.
"""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import BinaryIO

from sim_core.kernels.machine_code.native import object_of

COMPILE = f"from {__name__} import serve; serve()"
LENGTH = 8  # bytes of the number before a text or an object file: its length

Item = tuple[int, str]  # a module's index and text


def objects_of(modules: Iterable[str]) -> list[bytes]:
    """Object files of modules of LLVM IR, in the order of the modules.

    No second process is started for a single module, or if this process may use one core only. The object files are the
    same in every case.
    """
    written = iter(modules)
    first, second = next(written), next(written, None)
    if second is None or not sys.executable or len(os.sched_getaffinity(0)) == 1:
        return [object_of(ir) for ir in itertools.chain((first,), () if second is None else (second,), written)]
    objects, waiting, failed = dict[int, bytes](), queue.SimpleQueue[Item | None](), list[Item]()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-P", "-c", COMPILE]
    process = subprocess.Popen(command, env=environment, **pipes)  # type: ignore[call-overload]
    helper = threading.Thread(
        target=_compile_there, args=(process.stdin, process.stdout, waiting, objects, failed), daemon=True
    )
    helper.start()
    count = 0
    try:
        for ir in itertools.chain((first, second), written):
            waiting.put((count, ir))
            count += 1
        waiting.put(None)  # the end, for whoever comes to it first, who leaves it for the other
        while (item := waiting.get()) is not None:
            objects[item[0]] = object_of(item[1])
        waiting.put(None)
        helper.join()
    finally:
        process.kill()
        waiting.put(None)
        helper.join()
        process.communicate()
    for index, ir in failed:
        objects[index] = object_of(ir)
    return [objects[index] for index in range(count)]


def _compile_there(
    sent: BinaryIO,
    received: BinaryIO,
    waiting: queue.SimpleQueue[Item | None],
    objects: dict[int, bytes],
    failed: list[Item],
) -> None:
    """Compile modules in another process, which runs `serve`, until None is next in the queue.

    sent, received  standard input and standard output of the other process
    objects         {index of a module: object file}, to which the object files are added
    failed          list to which a module is added that could not be compiled there; no further module is taken then
    """
    while (item := waiting.get()) is not None:
        try:
            _send(sent, item[1].encode())
            objects[item[0]] = _received(received)
        except (OSError, ValueError, EOFError):
            failed.append(item)
            return
    waiting.put(None)


def serve() -> None:
    """Compile the modules that arrive at the standard input, and write their object files to the standard output."""
    while True:
        try:
            ir = _received(sys.stdin.buffer)
        except EOFError:
            return
        _send(sys.stdout.buffer, object_of(ir.decode()))


def _send(stream: BinaryIO, data: bytes) -> None:
    stream.write(len(data).to_bytes(LENGTH, "big"))
    stream.write(data)
    stream.flush()


def _received(stream: BinaryIO) -> bytes:
    head = stream.read(LENGTH)
    data = stream.read(int.from_bytes(head, "big"))
    if len(head) < LENGTH or len(data) < int.from_bytes(head, "big"):
        raise EOFError("the other process ended")
    return data

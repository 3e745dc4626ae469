"""`armswing launch --watch`: has a node load its file again when the file was saved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodes.framework.messages.protocol import NOT_LOADED
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.plan.node_classes import locate
from nodes.framework.transport.service import ServiceError

SETTLED_S = 0.03  # a file that changed less than this ago is perhaps still being written
MISSING_S = 1.0  # a file that is absent for a shorter time is perhaps being replaced by an editor
RELOAD_S = 60.0  # longest time to load a file, in which imports and models may be compiled


class FileWatch:
    """Checks whether the files of a plan's nodes on one host were saved.

    call  function that calls a service of a node; it may raise ServiceError
    show  function called with (line, node) to show the line to the user
    host name of the host
    """

    def __init__(self, plan: Plan, call: Callable[..., Any], show: Callable[[str, str], None], host: str) -> None:
        self._call, self._show = call, show
        self._files: dict[Path, list[str]] = {}
        for node in plan.nodes_on(host):
            path, name = locate(node.run, plan.folder)
            if name:  # a program does not load a file anew
                self._files.setdefault(path, []).append(node.name)
        self._versions = {path: _version(path) for path in self._files}
        self._changed: dict[Path, tuple[tuple[int, int] | None, float]] = {}  # {file: (version, since when)}

    def poll(self) -> None:
        """Tell the nodes of each file that was saved to load the file again.

        Returns at once, before the nodes have loaded the file.
        """
        now = time.monotonic()
        for path, names in self._files.items():
            version = _version(path)
            if version == self._versions[path]:
                self._changed.pop(path, None)
                continue
            if path not in self._changed or self._changed[path][0] != version:
                self._changed[path] = (version, now)
            age = now - self._changed[path][1]
            if version is None:
                if age >= MISSING_S:
                    self._versions[path] = version
                    self._show(f"{path} is missing; the code that was loaded last stays in charge", ", ".join(names))
            elif max(age, time.time() - 1e-9 * version[0]) >= SETTLED_S:
                self._versions[path] = version
                for name in names:
                    threading.Thread(target=self._reload, args=(name, path), daemon=True).start()

    def _reload(self, name: str, path: Path) -> None:
        began = time.monotonic()
        try:
            note = self._call(name, "reload", timeout_s=RELOAD_S)
        except ServiceError as error:
            if NOT_LOADED not in str(error):  # otherwise the node's log has it, with the traceback
                self._show(f"{path.name} {NOT_LOADED}: {error}", name)
        else:
            self._show(f"loaded {path.name} in {time.monotonic() - began:.2f} s{note}", name)


def _version(path: Path) -> tuple[int, int] | None:
    """(time of the last change in ns, size in bytes) of a file; None if the file does not exist.

    A file may be absent for a moment while an editor saves it.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size

"""`armswing launch --watch`: has a node load its file again when the file was saved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodes.messages.protocol import NOT_LOADED
from nodes.plan.launch_plan import Plan
from nodes.plan.loading import locate
from nodes.transport.service import ServiceError

SETTLED_S = 0.03  # a file that changed less than this ago is perhaps still being written
RELOAD_S = 60.0  # longest time to load a file, in which imports and models may be compiled


class FileWatch:
    """Checks whether the files of a plan's nodes were saved.

    ask  function that calls a service of a node; it may raise ServiceError
    say  function called with (line, node) to show the line to the user
    """

    def __init__(self, plan: Plan, ask: Callable[..., Any], say: Callable[[str, str], None]) -> None:
        self._ask, self._say = ask, say
        self._files: dict[Path, list[str]] = {}
        for node in plan.nodes_on(plan.sim.host):
            path, name = locate(node.run, plan.folder)
            if name:  # a program does not load a file anew
                self._files.setdefault(path, []).append(node.name)
        self._seen = {path: _version(path) for path in self._files}

    def look(self) -> None:
        """Tell the nodes of each file that was saved to load the file again.

        Returns at once, before the nodes have loaded the file.
        """
        for path, names in self._files.items():
            version = _version(path)
            if version is None or version == self._seen[path] or time.time() - 1e-9 * version[0] < SETTLED_S:
                continue
            self._seen[path] = version
            for name in names:
                threading.Thread(target=self._reload, args=(name, path), daemon=True).start()

    def _reload(self, name: str, path: Path) -> None:
        began = time.monotonic()
        try:
            note = self._ask(name, "reload", timeout_s=RELOAD_S)
        except ServiceError as error:
            if NOT_LOADED not in str(error):  # otherwise the node's log has it, with the traceback
                self._say(f"{path.name} {NOT_LOADED}: {error}", name)
        else:
            self._say(f"loaded {path.name} in {time.monotonic() - began:.2f} s{note}", name)


def _version(path: Path) -> tuple[int, int] | None:
    """(time of the last change in ns, size in bytes) of a file; None if the file does not exist.

    A file may be absent for a moment while an editor saves it.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size

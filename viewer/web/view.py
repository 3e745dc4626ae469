"""The browser view: serves a page on a live domain or a recording."""

from __future__ import annotations

import threading
from collections.abc import Callable

from viewer import palette
from viewer.panels import choose_fields
from viewer.request import Request
from viewer.scene.projection import check_plane
from viewer.web.live import WebLive
from viewer.web.recording import WebRecording
from viewer.web.server import WebServer


def serve(
    request: Request,
    host: str,
    port: int,
    colors: str | None,
    stop: threading.Event,
    opened: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    """Show a recording or a live domain in browsers until `stop` is set.

    host    name or address of this computer on which browsers connect
    port    number of the port; 0 chooses a free port
    colors  theme, "light" or "dark"; None for light
    opened  function that is called with the address to open
    report  function that is called with a line about each kind of connection that is refused

    Raises OSError if the address or its port cannot be used, and ValueError for a bad recording, field or plane.
    """
    palette.use(colors or palette.DEFAULT)
    check_plane(request.plane)
    if request.file is None:
        choose_fields(request.fields)
    label = "armswing" if request.file is None else request.file.rpartition("/")[2]
    with WebServer(host, port, label, report) as server:
        page = WebLive(server, request, stop) if request.file is None else WebRecording(server, request, stop)
        opened(server.address)
        page.run()

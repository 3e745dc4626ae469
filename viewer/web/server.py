"""The web server of the browser view: viser behind a front that checks every connection."""

from __future__ import annotations

import contextlib
import io
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

import numpy as np
import viser
from viser._messages import SetOrientationMessage, SetPositionMessage

from nodes.framework.bridges.front import EVERY_ADDRESS, HOST, Access, Front, listening_socket
from nodes.framework.transport.addresses import own_addresses
from viewer import palette
from viewer.data.series import Floats
from viewer.scene.space import HALF_FOV, Camera

NEAR, FAR = 0.01, 100.0  # nearest and farthest point that is drawn, in distances of the camera from its target


class Viser(viser.ViserServer):
    """A viser server on the loopback interface that never connects to another server."""

    def request_share_url(self, verbose: bool = True) -> str | None:
        """Return None: a page may ask viser to show the robot on a public server, which this method prevents."""
        return None


class WebServer:
    """A page for browsers, until `close` is called.

    viser    server of the page
    address  address to open, with its token

    host     name or address of this computer on which browsers connect
    port     number of the port; 0 chooses a free port
    label    title of the page's panel
    report   function that is called with a line about each kind of connection that is refused

    Raises OSError if the address or its port cannot be used.
    """

    def __init__(self, host: str, port: int, label: str, report: Callable[[str], None]) -> None:
        with _quiet():
            self.viser = Viser(HOST, 0, label, verbose=False)
        try:
            listener = listening_socket(self.viser.get_port())
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            token = secrets.token_urlsafe(16)
            self._front = Front(port, listener, Access(token=token, host=host, is_page=True), report)
        except OSError:
            self._stop()
            raise
        self.address = f"http://{printed_host(host)}:{self._front.port}/?token={token}"
        gui = self.viser.gui
        gui.configure_theme(
            show_logo=False, show_share_button=False, dark_mode=palette.theme == "dark", brand_color=(11, 98, 168)
        )
        gui.main_panel.dock_right()
        gui.main_panel.set_width(420)

    @property
    def is_watched(self) -> bool:
        """Whether any browser shows the page."""
        return bool(self.viser.get_clients())

    def look(self, camera: Camera) -> None:
        """Set the camera of the browsers that connect later, and of those that show the page now."""
        start = self.viser.initial_camera
        distance = float(np.linalg.norm(camera.position - camera.target))
        start.position, start.look_at, start.up = camera.position, camera.target, camera.up
        start.fov, start.near, start.far = 2.0 * HALF_FOV, NEAR * distance, FAR * distance
        for client in self.viser.get_clients().values():
            with client.atomic():
                each = client.camera
                each.up_direction = camera.up
                each.position, each.look_at = camera.position, camera.target
                each.fov, each.near, each.far = 2.0 * HALF_FOV, NEAR * distance, FAR * distance

    def follow(self, step: np.ndarray[Any, Any]) -> None:
        """Move the cameras by a vector (3,), m, and keep how each browser looks at the scene."""
        start = self.viser.initial_camera
        start.position, start.look_at = start.position + step, start.look_at + step
        for client in self.viser.get_clients().values():
            with client.atomic():
                client.camera.position = client.camera.position + step  # moves what it looks at, too

    def place(self, nodes: Iterable[tuple[Any, Floats, Floats]]) -> None:
        """Move nodes of the scene, each to a position and quaternion, together.

        The messages are those of viser's own setters, which take ten times as long: they compare each vector with the
        one before by `allclose`.
        """
        send = self.viser.scene._queue_scene_message
        with self.viser.atomic():
            for node, position, quaternion in nodes:
                x, y, z = position.tolist()
                w, a, b, c = quaternion.tolist()
                send(SetPositionMessage(node.name, (x, y, z)))
                send(SetOrientationMessage(node.name, (w, a, b, c)))

    def close(self) -> None:
        """End all connections."""
        self._front.stop()
        self._stop()

    def __enter__(self) -> WebServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _stop(self) -> None:
        with _quiet():
            self.viser.stop()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Context in which nothing is printed: viser prints an address that nobody can open."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def printed_host(host: str) -> str:
    """Host of the printed address. For every address, it is one of this computer, since the front refuses its name."""
    if host in EVERY_ADDRESS:
        own = [address for address in own_addresses() if (":" in address) == (":" in host)]
        host = own[0] if own else HOST
    return "localhost" if host == HOST else f"[{host}]" if ":" in host else host

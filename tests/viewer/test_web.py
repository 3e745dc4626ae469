"""The browser view: what a page shows and asks for, who may connect, and what is refused in one line."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("viser", reason="viser is not installed: pip install 'armswing[web]'")

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from nodes.cli.application import run as command_line
from nodes.framework.bridges.front import Access, listening_socket
from tests.viewer.browser import chromium
from viewer.data.signals import Signals
from viewer.recorded import read_signals
from viewer.request import Request
from viewer.web.plots import WebPlots
from viewer.web.scene import WebScene
from viewer.web.server import WebServer, printed_host
from viewer.web.steering import Steering
from viewer.web.view import serve

WITHOUT_QT = """
import sys
for name in ("PyQt5", "PyQt6", "pyqtgraph", "matplotlib", "casadi", "numba"):
    sys.modules[name] = None
import viewer.web.view, nodes.cli.commands.recordings.view
"""


@contextmanager
def served(request: Request, **options: Any) -> Iterator[str]:
    """Address of a page that is served until the end of the context."""
    stop, opened = threading.Event(), threading.Event()
    addresses: list[str] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            serve(request, "127.0.0.1", 0, None, stop, lambda each: (addresses.append(each), opened.set()), print)
        except BaseException as error:
            failures.append(error)
            opened.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert opened.wait(60.0)
        if failures:
            raise failures[0]
        yield addresses[0]
    finally:
        stop.set()
        thread.join(60.0)
    assert not failures


def test_a_recording_is_drawn_and_played_and_the_page_asks_no_other_server(spatial: Path) -> None:
    with served(Request(str(spatial))) as address, chromium("720,420") as browser:
        own = urlsplit(address).netloc
        browser.open(address)
        browser.until("document.body && document.body.innerText.includes('spatial.mcap: 300 states in 2.99 s')")
        assert browser.ask("document.querySelectorAll('.u-over').length") >= 4  # plots
        shown = "[...document.querySelectorAll('input')].map(e => parseFloat(e.value)).filter(Number.isFinite)[0]"
        assert browser.until(f"[{shown}].length && [{shown}]") == [0.0]
        browser.click("step ▶")
        browser.until(f"Math.abs({shown} - 0.01) < 1e-6")
        browser.click("▶ play")
        browser.until(f"{shown} > 0.5")
        picture = browser.picture()[:, :290]
        assert len(np.unique((255 * picture).astype(int).reshape(-1, 3), axis=0)) > 100  # shaded bodies
        assert browser.ask("location.search") == ""  # the token is in a cookie
        others = [each for each in browser.requests if urlsplit(each).scheme not in ("data", "blob")]
        assert {urlsplit(each).netloc for each in others} == {own}
        assert any(each.startswith("ws:") for each in others)
        assert browser.errors == []
        with socket.create_server(("127.0.0.1", 0)) as other:
            script = f"fetch('http://127.0.0.1:{other.getsockname()[1]}/').then(() => 'sent', error => 'kept')"
            assert browser.ask(script) == "kept"
            other.settimeout(0.0)
            with pytest.raises(BlockingIOError):
                other.accept()


def test_a_strange_page_and_a_connection_without_the_token_are_refused(spatial: Path) -> None:
    with served(Request(str(spatial))) as address:
        own, _, token = address.partition("/?token=")
        ws = own.replace("http", "ws")
        cookie = {"Cookie": f"armswing_{urlsplit(own).port}={token}"}
        for origin, fields in (("https://evil.example", cookie), ("null", cookie), (own, {})):
            with (
                pytest.raises(InvalidStatus) as failed,
                connect(ws, origin=origin, additional_headers=fields, subprotocols=["viser-v1"]),  # type: ignore[list-item, arg-type]
            ):
                pass
            assert failed.value.response.status_code == 403
        with connect(ws, origin=own, additional_headers=cookie):  # type: ignore[arg-type]
            pass


def test_the_server_of_the_page_is_reached_through_the_front_alone_and_never_shared() -> None:
    with WebServer("127.0.0.1", 0, "", print) as server:
        with pytest.raises(TimeoutError):
            socket.create_connection(("127.0.0.1", server.viser.get_port()), timeout=0.2)
        assert server.viser.request_share_url() is None
        with listening_socket(server.viser.get_port()) as listener:
            assert listener.getsockname()[0] == "127.0.0.1"


def test_a_page_stays_when_the_launch_ends_and_the_next_one_begins() -> None:
    with WebServer("127.0.0.1", 0, "", print) as server:
        steering = Steering(server.viser, 0, WebScene(server, "auto"), Signals)
        for is_live in (False, True, False):
            steering.show_state(is_live, is_stopped=is_live)
        steering.close()


def test_a_plot_of_any_signal_is_added_and_removed(spatial: Path) -> None:
    signals, _, _ = read_signals(str(spatial), (), None)
    with WebServer("127.0.0.1", 0, "", print) as server:
        plots = WebPlots(server.viser.gui, server.viser.gui.add_panel().add_tab("Plots"), (), is_live=False)
        plots.choose(signals)
        plots.show(signals, 1.0)
        before = len(plots._shown)
        assert "swing/state velocity" in plots._kind.options
        plots._kind.value = "swing/state velocity"
        assert plots._curve.options == ("all", "velocity.yaw", "velocity.pitch")
        for chosen, count in (("velocity.pitch", 1), ("all", 2), ("all", 2)):
            plots._curve.value = chosen
            plots._add_chosen()
            assert len(plots._shown) == before + count
        drawn = plots._shown[0][2].data
        times, values = signals.store.column("swing/state", "velocity.pitch")  # type: ignore[misc]
        assert np.array_equal(drawn[0], times)
        assert np.array_equal(drawn[1], values)
        plots._remove_added()
        assert len(plots._shown) == before


def test_nodes_are_placed_by_the_messages_of_visers_own_setters() -> None:
    position, quaternion = np.array([0.1, 0.2, 0.3]), np.array([0.5, -0.5, 0.5, 0.5])
    with WebServer("127.0.0.1", 0, "", print) as server:
        ours, theirs = (server.viser.scene.add_frame(name) for name in ("/ours", "/their"))
        theirs.position, theirs.wxyz = position, quaternion
        server.place([(ours, position, quaternion)])
        sent = server.viser._websock_server.get_message_buffer().message_from_id.values()
        poses = [each for each in sent if type(each).__name__ in ("SetPositionMessage", "SetOrientationMessage")]
        found = [
            [each.as_serializable_dict() | {"name": ""} for each in poses if vars(each)["name"] == name]
            for name in ("/ours", "/their")
        ]
        assert len(found[0]) == 2
        assert found[0] == found[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "10.0.0.7", "fd00::7", "bench"])
def test_a_request_for_the_printed_address_is_admitted(host: str) -> None:
    assert Access(token="t", host=host, is_page=True).is_known(f"{printed_host(host)}:8080")


def test_the_browser_view_needs_neither_qt_nor_a_model() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_QT], check=True, timeout=60, cwd=Path(__file__).parents[2])


def test_bad_requests_are_refused_in_one_line(spatial: Path, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    (tmp_path / "text.mcap").write_text("no recording")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words, says in (
            (["--web", "--port", port], rf"--host 127\.0\.0\.1 --port {port}: .*[Aa]ddress already in use.*"),
            (["--web", "--host", "192.0.2.1"], r"--host 192\.0\.2\.1 --port 8000: .*; choose another address or port"),
            (["--host", "0.0.0.0"], "--host is an option of --web; add --web"),
            (["--web", "--png", "x.png"], "--web shows one run in browsers, without --png; leave one of the two out"),
            (["--web", "--plane", "ab"], "plane 'ab' is unknown; choose one of auto, xy, xz, yz, space"),
        ):
            assert command_line(["view", str(spatial), *words]) == 2
            assert re.fullmatch(f"armswing: {says}\n", capsys.readouterr().err)
    assert command_line(["view", str(tmp_path / "text.mcap"), "--web", "--port", "0"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr("nodes.cli.commands.recordings.view.find_spec", lambda name: None)
    assert command_line(["view", str(spatial), "--web"]) == 2
    assert capsys.readouterr().err == "armswing: --web needs viser; install it with pip install 'armswing[web]'\n"

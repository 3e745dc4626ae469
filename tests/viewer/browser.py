"""A headless Chromium that is driven by its DevTools protocol.

    python -m tests.viewer.browser ADDRESS PICTURE.png

writes a picture of a page.
"""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import image
from websockets.sync.client import ClientConnection, connect

START_S, WAIT_S, END_S = 60.0, 60.0, 20.0
SETTLED_S = 3.0
PACKAGES = "apt-get install -y chromium"
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
    *("--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-port=0"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",  # the browser's own calls end here
)


class Browser:
    """A page of the browser.

    requests  addresses that the page and its workers have asked for, WebSockets among them
    errors    what the page has thrown
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._number = socket, 0
        self.requests: list[str] = []
        self.errors: list[str] = []
        for domain in ("Network", "Runtime", "Page"):
            self.call(f"{domain}.enable")
        self.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True)  # to its workers

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol."""
        number = self._number = self._number + 1
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            message = json.loads(self._socket.recv(timeout=WAIT_S))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)
        raise AssertionError(f"{method} is not answered")

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def ask(self, script: str) -> Any:
        """Value of an expression in JavaScript."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """Value of an expression, once it is true."""
        return waited(lambda: self.ask(script), script)

    def click(self, text: str) -> None:
        """Click on the button with this text."""
        button = f"[...document.querySelectorAll('button')].find(e => e.innerText.trim() === {json.dumps(text)})"
        self.until(f"!!{button} && !{button}.disabled")
        self.ask(f"{button}.click()")

    def press(self, text: str) -> None:
        """Press the mouse on the element with this text."""
        leaf = f"[...document.querySelectorAll('*')].findLast(e => e.innerText?.trim() === {json.dumps(text)})"
        x, y = self.until(
            f"(box => box && [box.x + box.width / 2, box.y + box.height / 2])({leaf}?.getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self) -> np.ndarray[Any, Any]:
        """(height, width, 3) of the page as it is drawn, 0 .. 1."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        return np.asarray(image.imread(io.BytesIO(data))[..., :3])

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        method = message.get("method")
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(parameters["url"])
        elif method == "Target.attachedToTarget":
            for order in ("Network.enable", "Runtime.runIfWaitingForDebugger"):
                self._number += 1
                text = {"id": self._number, "method": order, "sessionId": parameters["sessionId"]}
                self._socket.send(json.dumps(text))
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"]))


def waited(condition: Callable[[], Any], text: str) -> Any:
    """Value of a function, once it is true."""
    deadline = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {text}"
        time.sleep(0.05)
    return found


@contextmanager
def chromium(size: str = "1280,800") -> Iterator[Browser]:
    """Context of a browser with an empty page."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip(f"no browser: {PACKAGES}")
    folder = Path(tempfile.mkdtemp(prefix="chromium"))
    options = [*OPTIONS, f"--user-data-dir={folder}", f"--window-size={size}", "about:blank"]
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen([program, *options], stderr=errors, stdout=errors)
    try:
        listens = waited(lambda: re.search(r"ws://(127\.0\.0\.1:\d+)/", (folder / "errors").read_text()), "DevTools")
        with urllib.request.urlopen(f"http://{listens[1]}/json", timeout=START_S) as answer:
            page = next(each for each in json.load(answer) if each["type"] == "page")
        with connect(page["webSocketDebuggerUrl"], max_size=None, open_timeout=START_S) as socket:
            yield Browser(socket)
    finally:
        process.terminate()
        process.wait(timeout=END_S)
        shutil.rmtree(folder, ignore_errors=True)


def save_picture(address: str, path: str) -> None:
    """Write a picture of a page with plots, once it looks the same for SETTLED_S."""
    with chromium("1440,900") as browser:
        browser.open(address)
        browser.until("document.querySelectorAll('canvas').length > 2")
        close = "document.querySelector('.mantine-Notification-closeButton')"  # of a note on drawing in software
        before, since = browser.picture(), time.monotonic()
        while time.monotonic() - since < SETTLED_S:
            browser.ask(f"{close}?.click()")
            picture = browser.picture()
            if float(np.abs(picture - before).mean()) > 1e-3:
                before, since = picture, time.monotonic()
        image.imsave(path, before)


if __name__ == "__main__":
    save_picture(*sys.argv[1:])

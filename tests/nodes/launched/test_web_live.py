"""The browser view of a live launch: buttons and parameters of the page reach the simulation and its nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("viser", reason="viser is not installed: pip install 'armswing[web]'")

from nodes.framework.client import Client
from tests.viewer.browser import Browser, chromium, waited
from viewer.data.signals import Signals
from viewer.request import Request
from viewer.web.joints import Joints
from viewer.web.server import WebServer
from viewer.web.view import serve


@contextmanager
def served(domain: int) -> Iterator[str]:
    """Address of the page of a live domain."""
    stop, opened, found = threading.Event(), threading.Event(), list[str]()
    work = [Request(domain=domain), "127.0.0.1", 0, None, stop, lambda each: (found.append(each), opened.set()), print]
    thread = threading.Thread(target=serve, args=work)
    thread.start()
    try:
        assert opened.wait(60.0)
        yield found[0]
    finally:
        stop.set()
        thread.join(60.0)


def says(browser: Browser, text: str) -> None:
    browser.until(f"document.body && document.body.innerText.includes({text!r})")


def test_sliders_command_the_joints_until_they_are_given_back(live: Any) -> None:
    with WebServer("127.0.0.1", 0, "", print) as server, Client(0) as launch:
        launch.call("sim", "resume")
        joints, signals = Joints(server.viser.gui, server.viser.gui.add_panel().add_tab("Joints"), 0), Signals()
        for message in launch.stream("rotary_pendulum/description", "rotary_pendulum/state", timeout_s=2.0):
            signals.add([message])
            if signals.states and signals.description is not None:
                break
        joints.show(signals)
        assert list(joints._rows) == ["arm"]
        commanded, slider = joints._rows["arm"]
        joints._moved(SimpleNamespace(client=None, target=slider), commanded)  # moved by the server itself
        assert not joints._pending
        slider.value = 0.01 * commanded.high
        joints._moved(SimpleNamespace(client=1, target=slider), commanded)
        waited(lambda: "arm" in launch.sim_status()["by_hand"], "the user's command")
        joints.read()
        waited(lambda: "you command arm" in joints._commander.content, "who commands")
        joints._give_back()
        waited(lambda: not launch.sim_status()["by_hand"], "given back")
        joints.close()


def test_the_page_steers_the_simulation_and_sets_parameters(live: Any) -> None:
    with served(0) as address, chromium("900,700") as browser, Client(0) as launch:
        browser.open(address)
        says(browser, "domain 0: sim running")
        browser.click("❚❚ pause")
        waited(lambda: launch.sim_status()["state"] == "paused", "paused")
        says(browser, "sim paused")
        tick = launch.sim_status()["tick"]
        browser.click("step")
        waited(lambda: launch.sim_status()["tick"] == tick + 1, "one step")
        browser.click("↺ reset")
        waited(lambda: launch.sim_status()["tick"] == 0, "reset")
        browser.click("▶ resume")
        waited(lambda: launch.sim_status()["state"] == "running", "running")
        browser.press("Parameters")
        says(browser, "Set damper")
        field = "[...document.querySelectorAll('input')].find(e => e.value === '0.001')"
        write = "Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set"
        browser.until(f"!!{field}")
        browser.ask(f"void (window.field = {field})")
        for text, expected in (("0.002", 0.002), ("many", 0.002)):
            browser.ask(f"{write}.call(field, '{text}'); field.dispatchEvent(new Event('input', {{bubbles: true}}))")
            waited(lambda text=text: browser.ask("field.value") == text, text)
            browser.click("Set damper")
            waited(lambda e=expected: launch.call("damper", "get_parameters")["damping"] == e, "the parameter")
        says(browser, "'many' cannot be read as a value")
        assert browser.errors == []

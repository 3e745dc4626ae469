"""Waits, on a host other than the server's, until the server's registry accepts a connection.

The registry is probed at growing intervals, and a line says what prevents the connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import FrameType

from nodes.framework.launching.hosts.remote_nodes import host_config_of
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.transport.host_config import HostConfig, registry_ports, write_host_config
from nodes.framework.transport.security import keys
from nodes.framework.transport.security.probe import Answer, probe

PATIENCE_S = 3.0  # waiting time for a launch before the first report
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0
TICK_S = 0.05
SHOWN_DIGITS = 12  # digits of a key that are shown, enough to compare two
CERTAIN = ("wrong_key", "not_allowed")  # results that do not resolve by themselves


class Waiting:
    """Probes the server's registry until a handshake succeeds; call `run` once.

    host_config  configuration of this host at the latest attempt; its endpoints contain the keys
    """

    def __init__(self, plan: Plan, host: str, host_config: HostConfig, print_line: Callable[[str], None]) -> None:
        self.host_config = host_config
        self.signal = 0
        self._plan = plan
        self._host = host
        self._print_line = print_line
        self._printed = ""
        self._began = time.monotonic()

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Signal handler: stop waiting."""
        self.signal = self.signal or number

    def run(self) -> bool:
        """Wait for the registry. Returns False if a signal came first."""
        pause_s = FIRST_PAUSE_S
        while not self.signal:
            answer = self._attempt()
            if answer is not None and answer.result == "open":
                return True
            if answer is None or answer.result in ("refused", "unreachable"):
                pause_s = FIRST_PAUSE_S  # an attempt without a connection costs the server nothing
            until = time.monotonic() + pause_s
            while not self.signal and time.monotonic() < until:
                time.sleep(TICK_S)
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)
        return False

    def _attempt(self) -> Answer | None:
        """Result of one attempt to connect to the server's registry; None if a key for the connection is missing.

        The result is reported to the user if it differs from the last reported one.
        """
        try:
            host_config = host_config_of(self._plan, self._host)
            if host_config != self.host_config:
                self.host_config = host_config
                write_host_config(self._plan.domain, host_config)
            answer = probe(host_config.news)
        except keys.KeysError as error:
            self._print_once("keys", f"waits: {error}")
            return None
        late = time.monotonic() - self._began > PATIENCE_S
        if answer.result != "open" and (late or answer.result in CERTAIN):
            self._print_once(answer.result, self._line(answer))
        return answer

    def _print_once(self, kind: str, line: str) -> None:
        if kind != self._printed:
            self._printed = kind
            self._print_line(line)

    def _line(self, answer: Answer) -> str:
        """Line for the user about what prevents the connection, with the remedy."""
        server = self._plan.sim.host
        at = f"host {server!r} at {self._plan.hosts[server]}"
        if answer.result == "unreachable":
            return (
                f"waits for {at}, which cannot be reached: {answer.detail}; check that it is on, and its address"
                f" ('--set hosts.{server}=ADDRESS' changes it)"
            )
        port = registry_ports(self._plan.domain)[1]
        if answer.result == "refused":
            domain = self._plan.domain
            return f"waits for {at}: the computer replies, but no launch runs; start it there, in domain {domain}"
        if answer.result == "silent":
            return f"waits for {at}: the program on port {port} there is no launch of armswing"
        if answer.result == "wrong_key":
            held = self.host_config.news.partition("#")[2][:SHOWN_DIGITS]
            return (
                f"waits for {at}: the launch there has another key than {held}..., the one allowed on this computer as"
                f" {server!r}; 'armswing keys list' there prints its key; on this computer, 'armswing keys revoke"
                f" {server}' and 'armswing keys allow {server} KEY' allow it"
            )
        own = keys.own_key().public
        return (
            f"waits for {at}: it does not allow this computer's key, {own[:SHOWN_DIGITS]}...; there,"
            f" 'armswing keys allow {self._host} {own}' allows it (after 'armswing keys revoke {self._host}', where"
            " another key has that name)"
        )

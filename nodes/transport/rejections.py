"""What was refused: counted, dropped, and said once in a while."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("armswing.wire")

QUIET_S = 5.0
LONGEST_QUIET_S = 320.0  # of peers that go on and on is said after 5, 10, 20 ... s


class RejectionLog:
    """Counts refused frames and warns at most once per QUIET_S and topic, naming topic and reason.

    told       how the warning is worded: owner, count, topic, reason
    longest_s  of a topic that goes on for one reason the warnings come twice as far apart each time, up to so many s
    """

    def __init__(self, owner: str, told: str = "%s: dropped %d on topic %s: %s", longest_s: float = QUIET_S) -> None:
        self.owner = owner
        self._told = told
        self._longest_s = longest_s
        self.count = 0
        self.last = ""
        self.last_at = 0.0  # time.monotonic()
        self._said: dict[str, tuple[float, float, str]] = {}  # {topic: when, the pause after it, the reason}
        self._since: dict[str, int] = {}

    def refuse(self, topic: str, reason: str) -> None:
        """Count one; `topic` and `reason` may come from anyone, so they are shown escaped and short."""
        self.count += 1
        topic = repr(topic[:80])
        self._since[topic] = self._since.get(topic, 0) + 1
        self.last = f"{topic}: {reason[:200]!s}"
        self.last_at = now = time.monotonic()
        said, pause_s, before = self._said.get(topic, (now, 0.0, reason))
        if reason != before:
            pause_s = QUIET_S
        if now - said < pause_s:
            return
        if len(self._said) > 256:  # topics made up by a stranger must not fill the memory
            self._said.clear()
            self._since = {topic: self._since[topic]}
        goes_on = pause_s > 0.0 and now - said < 2.0 * pause_s
        pause_s = min(2.0 * pause_s, self._longest_s) if goes_on else QUIET_S
        self._said[topic] = now, pause_s, reason
        log.warning(self._told, self.owner, self._since.pop(topic), topic, reason[:200])


def last_of(*refusals: RejectionLog) -> str:
    """Topic and reason of what was refused last, "" when nothing was."""
    return max(refusals, key=lambda each: each.last_at).last

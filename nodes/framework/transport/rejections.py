"""Log that counts rejected frames, calls and connections, and limits the rate of its warnings."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("armswing.wire")

QUIET_S = 5.0
LONGEST_QUIET_S = 320.0  # repeated rejections are logged after 5, 10, 20 ... s


class RejectionLog:
    """Counts rejections by topic or peer, and logs them as warnings with count and reason.

    For one topic or peer and one reason, the pause between two warnings is at least QUIET_S seconds. While rejections
    continue, the pause doubles up to `longest_s`.

    template   format string of the warning, for four values: owner, count, topic or peer, reason
    longest_s  longest pause (s) between two warnings with the same topic or peer and the same reason
    """

    def __init__(
        self, owner: str, template: str = "%s: dropped %d on topic %s: %s", longest_s: float = QUIET_S
    ) -> None:
        self.owner = owner
        self._template = template
        self._longest_s = longest_s
        self.count = 0
        self.last = ""
        self.last_at = 0.0  # time.monotonic()
        self._warned: dict[str, tuple[float, float, str]] = {}  # {topic: (time of warning, pause after it, reason)}
        self._since: dict[str, int] = {}

    def refuse(self, topic: str, reason: str) -> None:
        """Count one rejection, and log it if the pause after the previous warning is over.

        The topic and parts of the reason may come from any sender. Both are therefore shortened, and escape sequences
        replace characters that are not printable, such as line ends.
        """
        self.count += 1
        topic, reason = repr(topic[:80]), escaped(reason[:200])
        self._since[topic] = self._since.get(topic, 0) + 1
        self.last = f"{topic}: {reason}"
        self.last_at = now = time.monotonic()
        warned, pause_s, before = self._warned.get(topic, (now, 0.0, reason))
        if reason != before:
            pause_s = QUIET_S
        if now - warned < pause_s:
            return
        if len(self._warned) > 256:  # invented topic names must not fill the memory
            self._warned.clear()
            self._since = {topic: self._since[topic]}
        goes_on = pause_s > 0.0 and now - warned < 2.0 * pause_s
        pause_s = min(2.0 * pause_s, self._longest_s) if goes_on else QUIET_S
        self._warned[topic] = now, pause_s, reason
        log.warning(self._template, self.owner, self._since.pop(topic), topic, reason)


def escaped(text: str) -> str:
    """The text with an escape sequence, such as \\n, in place of each character that is not printable."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def last_of(*refusals: RejectionLog) -> str:
    """Topic and reason of the latest rejection in all of these logs together; "" if nothing was rejected."""
    return max(refusals, key=lambda each: each.last_at).last

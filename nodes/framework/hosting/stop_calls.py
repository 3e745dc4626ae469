"""Order of the calls that stop a robot and the calls that release it, which the network may deliver late."""

from __future__ import annotations

from nodes.framework.transport.service import Call

AFTER = "after"  # argument of the service `release`


class StopCalls:
    """Counts a process's `estop` calls, and refuses a `release` that was sent before the latest of them.

    A call that was sent again, or whose caller gave up, may arrive after later calls. The caller of `release` therefore
    first reads `count` from the status, as "emergency_stops", and sends it as the argument `after`. A `release` without
    this argument is not checked.

    count  number of `estop` calls
    """

    def __init__(self) -> None:
        self.count = 0

    def check(self, call: Call) -> None:
        """Count an `estop` call, and remove `after` from the arguments of a `release`.

        Raises ValueError with a one-line message for a `release` that was sent before the latest `estop` call.
        """
        if call.call == "estop":
            self.count += 1
        elif call.call == "release" and call.args.pop(AFTER, self.count) != self.count:
            raise ValueError("release: another emergency stop was called meanwhile; to end it, release the robot again")

"""A node that ends its process in one of several ways, for tests of sweeps."""

import os
import signal
import time
from typing import Annotated

import msgspec

from nodes.framework.messages import JointCommand, RobotState, Verdict
from nodes.node import Context, Node
from sim_core.tables import Range


class MisbehavingParams(msgspec.Struct, forbid_unknown_fields=True):
    """Parameters."""

    how: str = "well"
    gain: Annotated[float, Range(0.0, 1e30, "N m")] = 0.0
    noisy: bool = False
    pause_s: Annotated[float, Range(0.0, 10.0, "s")] = 0.0
    from_gain: Annotated[float, Range(0.0, 1e30, "N m")] = 0.0


class Misbehaving(Node):
    """Commands a torque, and misbehaves at 20 ms where `gain` is `from_gain` at least."""

    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}
    Params = MisbehavingParams

    def on_start(self, context: Context) -> None:
        self.context = context
        self.figures_found = {"draw": 0.0}
        if context.params.noisy:
            self.figures_found["draw"] = float(context.random.normal())

    @property
    def figures(self) -> dict[str, float]:
        return self.figures_found

    @property
    def verdict(self) -> Verdict | None:
        return Verdict("not certain", "it is asked to doubt") if self.context.params.how.startswith("doubt") else None

    def on_message(self, name: str, message: RobotState):
        params = self.context.params
        if message.timestamp > 0.0199 and params.gain >= params.from_gain:
            if params.how == "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            if params.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if params.how == "hang":
                while True:
                    time.sleep(0.05)
            if params.how == "raise":
                raise ValueError("it is asked to")
            if params.how == "exit":
                os._exit(7)
        if message.timestamp == 0.0 and params.pause_s:
            time.sleep(params.pause_s)
        torque = params.gain if params.how == "diverge" else 0.0
        name = ["nothing"] if params.how == "doubt in vain" else message.name[:1]
        yield "command", JointCommand(mode="effort", name=name, value=[torque], state_seq=message.seq)

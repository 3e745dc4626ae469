"""Driver of a robot that exchanges commands and joint states as JSON, one UDP datagram each: a start for your own.

`armswing launch hil_two_computers driver=my_driver.py:Driver` runs it instead of the emulated robot.
"""

import contextlib
import json
import socket

import msgspec

from armswing import Node, messages


class Driver(Node):
    subscribes = {"command": messages.JointCommand}
    publishes = {"measured_state": messages.RobotState, "applied_command": messages.JointCommand}
    rate_hz = 200.0  # polling rate of the robot
    has_own_clock = True  # on_tick gets the time of this computer's clock, which also stamps the messages

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        host: str = "127.0.0.1"  # address of the motor controllers
        port: int = 5005

    def on_start(self, context):
        self.clock = context.clock
        self.robot = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.robot.setblocking(False)
        self.robot.connect((context.params.host, context.params.port))
        self.waiting = []

    def on_message(self, name, command):
        self.waiting.append(command)

    def on_tick(self, now):
        for command in self.waiting:  # the robot applies it from now on
            self.send({"mode": command.mode, "name": command.name, "value": command.value})
            yield "applied_command", msgspec.structs.replace(command, timestamp=now, clock=self.clock)
        self.waiting = []
        self.send({"mode": "ask"})
        while joints := self.answer():  # {"name": [...], "position": [...], "velocity": [...], "effort": [...]}
            yield "measured_state", messages.RobotState(timestamp=now, clock=self.clock, **joints)

    def on_stop(self):
        self.robot.close()

    def send(self, message):
        with contextlib.suppress(OSError):  # robot not reachable yet, or buffer full: the next tick tries again
            self.robot.send(json.dumps(message).encode())

    def answer(self):
        try:
            return json.loads(self.robot.recv(65536))
        except OSError:
            return None

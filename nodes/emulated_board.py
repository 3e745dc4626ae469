"""Emulates CHARMIE's low-level board on a pseudo-terminal, so that the real board's driver runs without the robot."""

from __future__ import annotations

import math
import os
import tty
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from nodes.framework.messages import Message, RobotState
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.hil.emulation.board import Board, BoardParams, require_drivable
from nodes.hil.emulation.serial_port import require_realtime, usual_port
from nodes.node import Context, Node, Outgoing
from robots.charmie.parameters import read_parameters

MOST_BYTES = 4096


class EmulatedBoardParams(BoardParams, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Parameters of the emulated board.

    port  path of the symbolic link to the pseudo-terminal; "" puts the link in the folder of the launch's domain, where
          the driver looks for it
    file  parameter file like robots/charmie/charmie.toml; "" means the file of the plan's robot
    """

    port: str = ""
    file: str = ""


class EmulatedBoard(Node):
    """Emulated board: reads the driver's serial frames from a pseudo-terminal and writes the board's frames to it."""

    subscribes = {"state": RobotState}
    Params = EmulatedBoardParams
    rate_hz = 200.0

    @classmethod
    def check(cls, params: EmulatedBoardParams, plan: Plan) -> None:
        require_realtime(plan.sim)
        read_parameters(_file(params, plan.sim))
        require_drivable(plan.sim, params)

    def on_start(self, context: Context) -> Outgoing:
        params = context.params
        self._context, self._dropped = context, 0
        self._time, self._origin = 0.0, math.nan
        self._board = _board(params, context.sim, context.random)
        self._master, self._slave = os.openpty()  # the slave stays open too, so that drivers may open and close it
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self._link = Path(params.port) if params.port else usual_port(context.plan)
        if self._link.is_symlink():
            self._link.unlink()
        try:
            self._link.symlink_to(os.ttyname(self._slave))
        except OSError as error:
            raise ValueError(
                f"port = {str(self._link)!r}: the symbolic link cannot be made: {error.strerror}"
            ) from None
        context.info(f"the emulated board is at {self._link}")
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, RobotState):
            if math.isnan(self._origin):
                self._origin = message.timestamp
            self._time = message.timestamp - self._origin
        return None

    def on_reset(self, time: float) -> Outgoing:
        """Restart the emulated board, as if it were switched off and on."""
        self._time, self._origin = 0.0, math.nan
        self._board = _board(self._context.params, self._context.sim, self._context.random)
        return None

    def on_tick(self, now: float) -> Outgoing:
        t = self._time
        with suppress(BlockingIOError):
            self._board.receive(os.read(self._master, MOST_BYTES), t)
        if data := self._board.transmit(t):
            try:
                sent = os.write(self._master, data)
            except BlockingIOError:
                sent = 0
            self._dropped += len(data) - sent  # no driver reads, and the buffer is full
        return None

    def on_stop(self) -> Outgoing:
        if self._link.is_symlink():
            self._link.unlink()
        os.close(self._master)
        os.close(self._slave)
        return None

    @property
    def counters(self) -> Mapping[str, int]:
        """Numbers of serial frames sent, commands accepted, commands refused, watchdog stops, and dropped bytes.

        Dropped bytes are bytes of the emulated board that no driver read.
        """
        board = self._board
        return {
            "frames": board.frames,
            "commands": board.reader.frames,
            "commands_refused": board.reader.bad,
            "stops": board.stops,
            "bytes_dropped": self._dropped,
        }


def _board(params: EmulatedBoardParams, sim: SimPlan, random: np.random.Generator) -> Board:
    return Board(sim, read_parameters(_file(params, sim)), params, random)


def _file(params: EmulatedBoardParams, sim: SimPlan) -> str:
    return params.file or str(sim.parameters.get("file", ""))

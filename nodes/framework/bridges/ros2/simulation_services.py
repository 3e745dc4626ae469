"""The services of simulation_interfaces: state, steps and entities of the live simulation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from nodes.framework.bridges.ros2.entities import Entities, EntityNotFound, NotSettable
from nodes.framework.bridges.ros2.robot_topics import RobotTopics
from nodes.framework.bridges.ros2.session import RosNode
from nodes.framework.client import Client, NotLiveError, UnknownNameError
from nodes.framework.ros2.interface import RosMessage, RosService
from nodes.framework.ros2.interfaces.simulation_interfaces import (
    GetEntities,
    GetEntityState,
    GetSimulationState,
    GetSimulatorFeatures,
    ResetSimulation,
    Result,
    SetEntityState,
    SetSimulationState,
    SimulationState,
    SimulatorFeatures,
    StepSimulation,
)
from nodes.framework.transport.registry import RegistryError
from nodes.framework.transport.service import ServiceError
from nodes.framework.transport.sockets import AddressError

OK, UNSUPPORTED = Result.RESULT_OK, Result.RESULT_FEATURE_UNSUPPORTED
NOT_FOUND, WRONG_STATE, FAILED = (
    Result.RESULT_NOT_FOUND,
    Result.RESULT_INCORRECT_STATE,
    Result.RESULT_OPERATION_FAILED,
)
UNREACHABLE = (ServiceError, RegistryError, NotLiveError, UnknownNameError, AddressError, ConnectionError, ValueError)
NO_LAUNCH = "no launch is live; start one with 'armswing launch FILE'"
POLL_S = 0.01
STUCK_S = 2.0  # a paused simulation that takes no requested step for this long will not take one
LARGEST_STEPS = 2**53
FEATURES = [
    SimulatorFeatures.ENTITY_STATE_GETTING,
    SimulatorFeatures.ENTITY_STATE_SETTING,
    SimulatorFeatures.SIMULATION_RESET,
    SimulatorFeatures.SIMULATION_STATE_GETTING,
    SimulatorFeatures.SIMULATION_STATE_SETTING,
    SimulatorFeatures.SIMULATION_STATE_PAUSE,
    SimulatorFeatures.STEP_SIMULATION_SINGLE,
    SimulatorFeatures.STEP_SIMULATION_MULTIPLE,
]
MISSING = (
    "armswing. Entities are the robots and their bodies. GetEntities filters by name only. GetEntityState: poses are "
    "those of the latest /tf; the twist is the mean over the two latest poses, NaN before there are two; the "
    "acceleration is always NaN. SetEntityState sets the base of a robot without a fixed base. ResetSimulation sets "
    "time and state back together; one of the two alone is missing. SetSimulationState: QUITTING and the states of "
    "worlds are missing. Missing too: spawning, deleting, named poses, bounds, tags, categories, entity info, worlds, "
    "the action SimulateSteps."
)


class SimulationServices:
    """Answers the requests to the simulation, as services of the bridge's node.

    client  client of the live launch; None before the first launch
    """

    def __init__(self, robots: Mapping[str, RobotTopics]) -> None:
        self.client: Client | None = None
        self.entities = Entities(robots)
        self._begins_paused = False  # whether PAUSED was asked for before the first time step

    def declare(self, node: RosNode) -> None:
        """Declare the services of a node."""
        services: dict[str, tuple[type[RosService], Callable[[Any], RosMessage]]] = {
            "get_simulator_features": (GetSimulatorFeatures, self._features),
            "get_simulation_state": (GetSimulationState, self._get_state),
            "set_simulation_state": (SetSimulationState, self._set_state),
            "reset_simulation": (ResetSimulation, self._reset),
            "step_simulation": (StepSimulation, self._step),
            "get_entities": (GetEntities, self._get_entities),
            "get_entity_state": (GetEntityState, self._get_entity),
            "set_entity_state": (SetEntityState, self._set_entity),
        }
        for name, (kind, answer) in services.items():
            node.serve(f"{node.name}/{name}", kind, _answering(kind, answer))

    def _features(self, request: GetSimulatorFeatures.Request) -> GetSimulatorFeatures.Response:
        return GetSimulatorFeatures.Response(SimulatorFeatures(list(FEATURES), [], MISSING))

    # -- state

    def _state(self, status: Mapping[str, Any]) -> int:
        if status["state"] in ("running", "safe"):
            return SimulationState.STATE_PLAYING
        is_start = status["tick"] == 0 and not self._begins_paused
        return SimulationState.STATE_STOPPED if is_start else SimulationState.STATE_PAUSED

    def _get_state(self, request: GetSimulationState.Request) -> GetSimulationState.Response:
        state = self._state(self._status())
        return GetSimulationState.Response(SimulationState(state), Result(OK))

    def _set_state(self, request: SetSimulationState.Request) -> SetSimulationState.Response:
        kind, wanted = SetSimulationState.Response, request.state.state
        if wanted not in (
            SimulationState.STATE_STOPPED,
            SimulationState.STATE_PLAYING,
            SimulationState.STATE_PAUSED,
        ):
            line = f"state {wanted} is not supported; give 0 (STOPPED), 1 (PLAYING) or 2 (PAUSED)"
            if wanted == SimulationState.STATE_QUITTING:
                line = "a launch is ended where it was started, with Ctrl-C"
            return kind(Result(UNSUPPORTED, line))
        if self._state(self._status()) == wanted:
            return kind(Result(kind.ALREADY_IN_TARGET_STATE, "the simulation is in this state already"))
        launch = self._launch()
        try:
            if wanted == SimulationState.STATE_PLAYING:
                launch.call("sim", "resume")
            else:
                launch.call("sim", "pause")
            if wanted == SimulationState.STATE_STOPPED:
                launch.call("sim", "reset")
            self._begins_paused = wanted == SimulationState.STATE_PAUSED
        except ServiceError as error:
            return kind(Result(kind.STATE_TRANSITION_ERROR, str(error)))
        return kind(Result(OK))

    def _reset(self, request: ResetSimulation.Request) -> ResetSimulation.Response:
        both = ResetSimulation.Request.SCOPE_TIME | ResetSimulation.Request.SCOPE_STATE
        if request.scope and request.scope & both != both:
            line = f"scope {request.scope}: time and state are reset together; use scope {both} or 0"
            return ResetSimulation.Response(Result(UNSUPPORTED, line))
        self._launch().call("sim", "reset")
        return ResetSimulation.Response(Result(OK))

    def _step(self, request: StepSimulation.Request) -> StepSimulation.Response:
        steps = request.steps
        if not 0 < steps < LARGEST_STEPS:
            return StepSimulation.Response(Result(FAILED, f"steps is {steps}; give 1 to {LARGEST_STEPS}"))
        launch, status = self._launch(), self._status()
        if self._state(status) == SimulationState.STATE_PLAYING:
            line = "the simulation is not paused; call set_simulation_state with 2 (PAUSED) first"
            return StepSimulation.Response(Result(FAILED, line))
        begin = status["tick"]
        launch.call("sim", "step", n=steps)
        tick, moved = begin, time.monotonic()
        while tick < begin + steps:
            now = self._status()["tick"]
            if now != tick:
                tick, moved = now, time.monotonic()
            elif time.monotonic() - moved > STUCK_S or now < begin:
                line = f"{tick - begin} of {steps} steps were taken; then another call paused or reset the simulation"
                return StepSimulation.Response(Result(FAILED, line))
            elif tick < begin + steps:
                time.sleep(POLL_S)
        return StepSimulation.Response(Result(OK))

    # -- entities

    def _get_entities(self, request: GetEntities.Request) -> GetEntities.Response:
        if line := self.entities.unsupported(request.filters):
            return GetEntities.Response(Result(UNSUPPORTED, line))
        return GetEntities.Response(Result(OK), self.entities.matching(request.filters.filter))

    def _get_entity(self, request: GetEntityState.Request) -> GetEntityState.Response:
        try:
            return GetEntityState.Response(Result(OK), self.entities.state(request.entity))
        except EntityNotFound as error:
            return GetEntityState.Response(Result(NOT_FOUND, str(error)))

    def _set_entity(self, request: SetEntityState.Request) -> SetEntityState.Response:
        kind = SetEntityState.Response
        try:
            self.entities.set_state(self._launch(), request.entity, request.state)
        except EntityNotFound as error:
            return kind(Result(NOT_FOUND, str(error)))
        except NotSettable as error:
            return kind(Result(FAILED, str(error)))
        except ValueError as error:
            return kind(Result(kind.INVALID_POSE, str(error)))
        return kind(Result(OK))

    def _launch(self) -> Client:
        if self.client is None or not self.client.is_live:
            raise ConnectionError(NO_LAUNCH)
        return self.client

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = self._launch().call("sim", "status")
        return status


def _answering(kind: type[RosService], answer: Callable[[Any], Any]) -> Callable[[Any], RosMessage]:
    """The function `answer`, with a result for a call that the launch refuses or does not answer."""

    def run(request: Any) -> RosMessage:
        try:
            response: RosMessage = answer(request)
        except UNREACHABLE as error:
            response = kind.Response()
            response.result = Result(FAILED, str(error))  # type: ignore[attr-defined]
        return response

    return run

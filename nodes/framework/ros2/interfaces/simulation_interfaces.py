"""Messages and services of the ROS package simulation_interfaces: state, time and entities of a simulation.

These are its versions 1.x, which Jazzy and Kilted have. From 2.1 on, the request of SetEntityState has more fields.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from nodes.framework.ros2.interface import RosMessage, RosService, UInt8, UInt16, UInt64
from nodes.framework.ros2.interfaces.geometry_msgs import Accel, Pose, Twist, Vector3
from nodes.framework.ros2.interfaces.std_msgs import Header


class Result(RosMessage):
    """Whether a request was carried out, and why not."""

    RESULT_FEATURE_UNSUPPORTED: ClassVar[UInt8] = 0
    RESULT_OK: ClassVar[UInt8] = 1
    RESULT_NOT_FOUND: ClassVar[UInt8] = 2
    RESULT_INCORRECT_STATE: ClassVar[UInt8] = 3
    RESULT_OPERATION_FAILED: ClassVar[UInt8] = 4

    result: UInt8 = 0
    error_message: str = ""


class SimulationState(RosMessage):
    """State of the simulation."""

    STATE_STOPPED: ClassVar[UInt8] = 0
    STATE_PLAYING: ClassVar[UInt8] = 1
    STATE_PAUSED: ClassVar[UInt8] = 2
    STATE_QUITTING: ClassVar[UInt8] = 3
    STATE_NO_WORLD: ClassVar[UInt8] = 4
    STATE_LOADING_WORLD: ClassVar[UInt8] = 5

    state: UInt8 = 0


class SimulatorFeatures(RosMessage):
    """What a simulator supports."""

    SPAWNING: ClassVar[UInt8] = 0
    DELETING: ClassVar[UInt8] = 1
    NAMED_POSES: ClassVar[UInt8] = 2
    POSE_BOUNDS: ClassVar[UInt8] = 3
    ENTITY_TAGS: ClassVar[UInt8] = 4
    ENTITY_BOUNDS: ClassVar[UInt8] = 5
    ENTITY_BOUNDS_BOX: ClassVar[UInt8] = 6
    ENTITY_BOUNDS_CONVEX: ClassVar[UInt8] = 7
    ENTITY_CATEGORIES: ClassVar[UInt8] = 8
    SPAWNING_RESOURCE_STRING: ClassVar[UInt8] = 9
    ENTITY_STATE_GETTING: ClassVar[UInt8] = 10
    ENTITY_STATE_SETTING: ClassVar[UInt8] = 11
    ENTITY_INFO_GETTING: ClassVar[UInt8] = 12
    ENTITY_INFO_SETTING: ClassVar[UInt8] = 13
    SPAWNABLES: ClassVar[UInt8] = 14
    SIMULATION_RESET: ClassVar[UInt8] = 20
    SIMULATION_RESET_TIME: ClassVar[UInt8] = 21
    SIMULATION_RESET_STATE: ClassVar[UInt8] = 22
    SIMULATION_RESET_SPAWNED: ClassVar[UInt8] = 23
    SIMULATION_STATE_GETTING: ClassVar[UInt8] = 24
    SIMULATION_STATE_SETTING: ClassVar[UInt8] = 25
    SIMULATION_STATE_PAUSE: ClassVar[UInt8] = 26
    STEP_SIMULATION_SINGLE: ClassVar[UInt8] = 31
    STEP_SIMULATION_MULTIPLE: ClassVar[UInt8] = 32
    STEP_SIMULATION_ACTION: ClassVar[UInt8] = 33

    features: list[UInt16] = []
    spawn_formats: list[str] = []
    custom_info: str = ""


class EntityCategory(RosMessage):
    """Kind of an entity."""

    CATEGORY_OBJECT: ClassVar[UInt8] = 0
    CATEGORY_ROBOT: ClassVar[UInt8] = 1
    CATEGORY_HUMAN: ClassVar[UInt8] = 2
    CATEGORY_DYNAMIC_OBJECT: ClassVar[UInt8] = 4
    CATEGORY_STATIC_OBJECT: ClassVar[UInt8] = 5

    category: UInt8 = 0


class TagsFilter(RosMessage):
    """Tags of which entities have any or all."""

    FILTER_MODE_ANY: ClassVar[UInt8] = 0
    FILTER_MODE_ALL: ClassVar[UInt8] = 1

    tags: list[str] = []
    filter_mode: UInt8 = 0


class Bounds(RosMessage):
    """A region of space."""

    TYPE_EMPTY: ClassVar[UInt8] = 0
    TYPE_BOX: ClassVar[UInt8] = 1
    TYPE_CONVEX_HULL: ClassVar[UInt8] = 2
    TYPE_SPHERE: ClassVar[UInt8] = 3

    type: UInt8 = 0
    points: list[Vector3] = []


class EntityFilters(RosMessage):
    """A choice of entities: those that pass all filters; an empty filter lets all pass. `filter` is a regular
    expression (POSIX Extended) for names.
    """

    filter: str = ""
    categories: list[EntityCategory] = []
    tags: TagsFilter = field(default_factory=TagsFilter)
    bounds: Bounds = field(default_factory=Bounds)


class EntityState(RosMessage):
    """Motion of an entity in the frame of the header."""

    header: Header = field(default_factory=Header)
    pose: Pose = field(default_factory=Pose)
    twist: Twist = field(default_factory=Twist)
    acceleration: Accel = field(default_factory=Accel)


class GetSimulatorFeatures(RosService):
    """Returns what the simulator supports."""

    class Request(RosMessage):
        pass

    class Response(RosMessage):
        features: SimulatorFeatures = field(default_factory=SimulatorFeatures)


class GetSimulationState(RosService):
    """Returns whether the simulation plays."""

    class Request(RosMessage):
        pass

    class Response(RosMessage):
        state: SimulationState = field(default_factory=SimulationState)
        result: Result = field(default_factory=Result)


class SetSimulationState(RosService):
    """Starts, pauses, stops or ends the simulation."""

    class Request(RosMessage):
        state: SimulationState = field(default_factory=SimulationState)

    class Response(RosMessage):
        ALREADY_IN_TARGET_STATE: ClassVar[UInt8] = 101
        STATE_TRANSITION_ERROR: ClassVar[UInt8] = 102
        INCORRECT_TRANSITION: ClassVar[UInt8] = 103

        result: Result = field(default_factory=Result)


class ResetSimulation(RosService):
    """Sets the parts of the simulation that `scope`, a sum of constants, names to their start; 0 for all."""

    class Request(RosMessage):
        SCOPE_DEFAULT: ClassVar[UInt8] = 0
        SCOPE_TIME: ClassVar[UInt8] = 1
        SCOPE_STATE: ClassVar[UInt8] = 2
        SCOPE_SPAWNED: ClassVar[UInt8] = 4
        SCOPE_ALL: ClassVar[UInt8] = 255

        scope: UInt8 = 0

    class Response(RosMessage):
        result: Result = field(default_factory=Result)


class StepSimulation(RosService):
    """Takes steps of the paused simulation."""

    class Request(RosMessage):
        steps: UInt64 = 1

    class Response(RosMessage):
        result: Result = field(default_factory=Result)


class GetEntities(RosService):
    """Returns names of entities."""

    class Request(RosMessage):
        filters: EntityFilters = field(default_factory=EntityFilters)

    class Response(RosMessage):
        result: Result = field(default_factory=Result)
        entities: list[str] = []


class GetEntityState(RosService):
    """Returns the motion of an entity."""

    class Request(RosMessage):
        entity: str = ""

    class Response(RosMessage):
        result: Result = field(default_factory=Result)
        state: EntityState = field(default_factory=EntityState)


class SetEntityState(RosService):
    """Sets the motion of an entity."""

    class Request(RosMessage):
        entity: str = ""
        state: EntityState = field(default_factory=EntityState)

    class Response(RosMessage):
        INVALID_POSE: ClassVar[UInt8] = 101

        result: Result = field(default_factory=Result)

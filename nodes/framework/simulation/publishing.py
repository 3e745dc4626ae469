"""Messages that the simulation of one robot publishes: description, states, poses, lines, events and snapshots."""

from __future__ import annotations

from collections.abc import Iterable

from nodes.framework.hosting.outgoing import Out
from nodes.framework.messages import Event, Message, Polylines
from nodes.framework.messages.codec import WireError, encode
from nodes.framework.messages.stamp import MessageStamper
from nodes.framework.plan.launch_plan import SimPlan
from nodes.framework.simulation.description import describe
from nodes.framework.simulation.monitoring.monitors import RoundTrips
from nodes.framework.simulation.payload import poses_payload, state_payload
from nodes.framework.transport.rejections import RejectionLog
from sim_core.flexible.lines import BeamLines
from sim_core.kernels.bound import BoundKernel
from sim_core.simulation import Simulation

TOPICS = ("description", "state", "body_poses", "lines", "event", "snapshot")
DRAWN = 6  # decimals of the points of lines, m


class StatePublisher:
    """Publishes the messages of one robot's simulation.

    out          function called with (topic, encoded message) for each message
    description  the robot's description
    topics       {name: full name of the topic}
    stamper      object that sets seq and sent_ns of each message
    round_trips  times from each published state to the command that replies to it
    state_every  number of time steps between two states
    poses_every  number of time steps between two messages with the poses of the bodies

    update_joints  kernel that is called for each state, after the joint positions are read
    wall_clock     whether messages have the time at which they are sent
    """

    def __init__(
        self,
        simulation: Simulation,
        sim: SimPlan,
        update_joints: BoundKernel,
        refusals: RejectionLog,
        wall_clock: bool,
    ) -> None:
        self.out: Out = _nobody
        self.topics = {name: f"{sim.robot_name}/{name}" for name in TOPICS}
        self.stamper = MessageStamper(wall_clock)
        self.round_trips = RoundTrips()
        self.state_every = 1 if sim.rate_hz is None else max(round(1.0 / (sim.rate_hz * sim.step_s)), 1)
        self.poses_every = max(round(1.0 / (sim.poses_hz * sim.step_s)), 1)
        system, readings = simulation.system, simulation.readings
        self.description = describe(
            system.mechanism, sim.step_s, list(simulation.outputs()), system.code_hash, sim.robot_name
        )
        self._simulation, self._refusals = simulation, refusals
        self._beams = BeamLines(system.mechanism, system.coordinate_names)
        self._stamp = Message()
        self._state_topic, self._poses_topic = self.topics["state"], self.topics["body_poses"]
        self._state = state_payload(system.joint_names, system.output_names, readings.buffer, self._state_topic)
        self._poses = poses_payload(simulation.placed, self._poses_topic)
        self._write_state = BoundKernel.in_turn([readings.read, update_joints, self._state.write])
        self._write_poses = BoundKernel.in_turn([simulation.place, self._poses.write])

    def publish(self, name: str, message: Message) -> None:
        """Publish a message with the present simulation time on the topic `name`, one of TOPICS."""
        message.timestamp = self._simulation.time
        topic = self.topics[name]
        self.stamper.stamp(topic, message)
        try:
            self.out(topic, encode(message, topic))
        except WireError as error:
            self.stamper.take_back(topic)
            self._refusals.refuse(topic, error.reason)

    def events(self, events: Iterable[Event]) -> None:
        """Publish events with the present simulation time."""
        for event in events:
            self.publish("event", event)

    def notices(self) -> None:
        """Publish warnings about the run as events, for example a warning that the time step is too large."""
        self.events(Event(kind=notice.kind, detail=notice.line) for notice in self._simulation.take_notices())

    def state(self) -> None:
        """Publish the present state."""
        self._write_state()
        stamp, topic = self._stamp, self._state_topic
        stamp.timestamp = self._simulation.time
        seq = self.stamper.stamp(topic, stamp)
        payload = self._state.stamped(stamp)
        self.round_trips.sent(seq)
        self.out(topic, payload)

    def poses(self) -> None:
        """Publish the present poses of the bodies, and the lines of the beams."""
        self._write_poses()
        stamp, topic = self._stamp, self._poses_topic
        stamp.timestamp = self._simulation.time
        self.stamper.stamp(topic, stamp)
        self.out(topic, self._poses.stamped(stamp))
        if self._beams.names:
            points = self._beams.points(self._simulation.coordinates).round(DRAWN).ravel().tolist()
            self.publish("lines", Polylines(name=self._beams.names, count=self._beams.counts, points=points))


def _nobody(_topic: str, _payload: bytes) -> None:
    """Discard a message; `StatePublisher.out` is this function until the server sets another one."""

"""Systems that an environment steps inside this process: on vector lanes, or each as a Simulation."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from nodes.environments.task import COMMAND, STATE, Motion, Task
from nodes.environments.wire import Wire
from nodes.framework.simulation.lockstep import SERVER
from sim_core.arguments import as_array
from sim_core.batch import LaneStates
from sim_core.batch.delays import DelayLine
from sim_core.errors import InvalidRequest, SimulationError
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

NOISES = 256  # draws of noise of a system that are made together
Array = np.ndarray


class Systems(Protocol):
    """n systems that are stepped together.

    late  (n,) mask of the systems whose last step did not end in time
    """

    late: Array

    def motion(self) -> Motion:
        """The present states."""

    def reset(self, index: Array, q: Array, v: Array, tuned: dict[str, Array]) -> None:
        """Set systems to the states q, v (k, n_q) with the values (k,) of tunable parameters, at the time 0."""

    def step(self, inputs: Array | None, steps: int) -> None:
        """Take time steps with the inputs (n, n_u); None: the inputs stay."""


class Lanes:
    """Systems on vector lanes."""

    def __init__(self, task: Task, system: System, n: int, lanes: int, threads: int) -> None:
        kind: dict[str, Any] = {"modes": task.modes, "stabilizer": task.stabilizer, "threads": threads}
        self.states = LaneStates(system, n, step_s=task.step_s, lanes=lanes, **kind)
        self._places = {name: place for place, name in enumerate(system.parameter_names)}
        self._default = system.default_parameters()
        self.step = self.states.step
        self.late = np.zeros(n, dtype=bool)

    def motion(self) -> Motion:
        """The present states."""
        return Motion(*self.states.motion())

    def reset(self, index: Array, q: Array, v: Array, tuned: dict[str, Array]) -> None:
        """Set systems to the states q, v (k, n_q) with the values (k,) of tunable parameters, at the time 0."""
        p = np.tile(self._default, (len(index), 1)) if tuned else None
        for name, values in tuned.items():
            assert p is not None
            p[:, self._places[name]] = values
        self.states.reset(index, q=q, v=v, p=p)


class Simulations:
    """Systems that are each a Simulation, with the bytes of a launch in lockstep, and with guards and beams."""

    def __init__(self, task: Task, system: System, n: int) -> None:
        kind: dict[str, Any] = {"stepper": "rk4", "stabilizer": task.stabilizer}
        if task.modes:
            raise InvalidRequest("backend='simulation' has no servo modes; use backend='lanes'")
        self._simulations = [Simulation(system, step_s=task.step_s, **kind) for _ in range(n)]
        self._lost, self.late = np.zeros((2, n), dtype=bool)

    def motion(self) -> Motion:
        """The present states."""
        states = [simulation.state for simulation in self._simulations]
        q, v = (np.array([getattr(state, name) for state in states]).T for name in ("q", "v"))
        v[:, self._lost] = np.nan
        return Motion(q, v, np.array([simulation.time for simulation in self._simulations]))

    def reset(self, index: Array, q: Array, v: Array, tuned: dict[str, Array]) -> None:
        """Set systems to the states q, v (k, n_q) with the values (k,) of tunable parameters, at the time 0."""
        for place, system in enumerate(index):
            simulation = self._simulations[system]
            simulation.reset(q[place], v[place])
            simulation.set_effort(np.zeros(simulation.system.n_u))
            if tuned:
                simulation.set_parameters({name: float(values[place]) for name, values in tuned.items()})
        self._lost[index] = False

    def step(self, inputs: Array | None, steps: int) -> None:
        """Take time steps with the inputs (n, n_u); None: the inputs stay."""
        for place, simulation in enumerate(self._simulations):
            if self._lost[place]:
                continue
            if inputs is not None:
                simulation.set_effort(inputs[place])
            try:
                simulation.step(steps)
            except SimulationError:
                self._lost[place] = True


def systems_of(task: Task, system: System, n: int, backend: str, **more: Any) -> Systems:
    """The systems of a backend: "lanes" with lanes and threads, "simulation", or "wire" with procedure and domain."""
    if backend == "lanes":
        return Lanes(task, system, n, more["lanes"], more["threads"])
    if backend == "simulation":
        return Simulations(task, system, n)
    if n != 1:
        raise InvalidRequest(f"num_envs is {n}; with backend='wire' it must be 1")
    return Wire(task, system.mechanism, more["procedure"], more["domain"])


class World:
    """Systems with their random starts and parameters, delays and noise.

    The random numbers of a system depend on its own seed only. The delays are here and not in `LaneStates`, because the
    same lines delay systems that are Simulations, which gives the bytes of a launch with these links. Lanes would gain
    nothing: a state is sent at each time step, so that each is a call of the compiled loop in any case.
    """

    def __init__(self, task: Task, n: int, backend: str, **more: Any) -> None:
        self.task, self.n = task, n
        self.mechanism = task.mechanism
        self.system = assemble(self.mechanism)
        self.systems = systems_of(task, self.system, n, backend, **more)
        names = list(self.system.coordinate_names)
        links = task.links_of(names)
        times = {"sent_s": task.step_s, "read_s": task.steps * task.step_s}

        def line(name: str, size: int, **more: float) -> DelayLine:
            link = links[name]
            delays = {"delay_s": 1e-3 * link.delay_ms, "jitter_s": 1e-3 * link.jitter_ms, "loss": link.loss}
            return DelayLine(size, n, **{**delays, **times, **more})

        self._sensed = {name: line(name, 2) for name in links if name in names}
        self._state = line(STATE, 2 * len(names)) if STATE in links else None
        self._command = line(COMMAND, self.system.n_u) if COMMAND in links else None
        self._rows = {name: [names.index(name), len(names) + names.index(name)] for name in self._sensed}
        self._has_links = bool(links)
        self._deviations = task.noise_of(names)
        self._noise, self._noise_at = np.zeros((n, NOISES, 2 * len(names))), np.full(n, NOISES)
        self._random = [np.random.default_rng(0)] * n
        self._held = np.zeros((2 * len(names), n))  # measured states
        self._inputs = np.zeros((n, self.system.n_u))
        self._start = self._default_start()

    def _default_start(self) -> tuple[Array, Array]:
        mechanism = self.mechanism
        pairs = (("q", mechanism.initial_q), ("v", mechanism.initial_v))
        q, v = (self.system.with_states(name, np.array(values, dtype=float)) for name, values in pairs)
        return q, v

    def seed(self, system: int, seed: int) -> None:
        """Restart all random numbers of a system from a seed."""
        self._random[system] = np.random.default_rng(seed)
        self._noise_at[system] = NOISES
        node = zlib.crc32(self.task.node.encode())
        server = zlib.crc32(SERVER.encode())
        for name, line in self._lines():
            source = {COMMAND: (node, server), STATE: (server, node)}.get(name, (zlib.crc32(name.encode()), node))
            line.seed(system, (seed, *source))

    def _lines(self) -> list[tuple[str, DelayLine]]:
        found: list[tuple[str, DelayLine]] = list(self._sensed.items())
        found += [(STATE, self._state)] if self._state is not None else []
        return found + ([(COMMAND, self._command)] if self._command is not None else [])

    def reset(self, index: Array) -> None:
        """Start new episodes of the systems with these indices."""
        if not len(index):
            return
        n_q = self.system.n_q
        starts = np.zeros((2, len(index), n_q))
        tuned = {name: np.zeros(len(index)) for name in self.task.ranges}
        for place, system in enumerate(index):
            random = self._random[system]
            starts[:, place] = self._start if self.task.start is None else self._started(random)
            for name, (low, high) in self.task.ranges.items():
                tuned[name][place] = random.uniform(low, high)
        self.systems.reset(index, starts[0], starts[1], tuned)
        self._inputs[index] = 0.0
        if self._has_links:
            for _, line in self._lines():
                line.forget(index)
            motion = self.systems.motion()
            self._held[:, index] = np.concatenate([motion.q, motion.v])[:, index]
            mask = np.zeros(self.n, dtype=bool)
            mask[index] = True
            self._send(motion, mask)
            self._receive(motion)

    def _started(self, random: np.random.Generator) -> tuple[Array, Array]:
        assert self.task.start is not None
        given = self.task.start(random)
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise InvalidRequest(f"start returned {given!r}; it must be a pair q, v")
        owner = f"the task of {self.task.robot!r}"
        pairs = (("q", given[0]), ("v", given[1]))
        q, v = (self.system.with_states(name, as_array(owner, f"the start's {name}", each)) for name, each in pairs)
        for name, values in (("q", q), ("v", v)):
            if values.shape != (self.system.n_q,):
                names = ", ".join(self.system.coordinate_names)
                raise InvalidRequest(
                    f"the start's {name} has shape {values.shape}; it must be {(self.system.n_q,)}, for {names}"
                )
        return q, v

    def step(self, inputs: Array) -> Motion:
        """Apply the inputs (n, n_u) for the time of an action; returns the states afterwards."""
        if not self._has_links:
            self.systems.step(inputs, self.task.steps)
            return self.systems.motion()
        motion = self.systems.motion()
        if self._command is None:
            heard = self._heard()
            self._inputs = np.where(heard[:, None], inputs, self._inputs)
        else:
            self._command.send(motion.time, inputs.T, self._heard())
        for _ in range(self.task.steps):
            if self._command is not None and self._command.receive(motion.time).any():
                self._inputs = np.ascontiguousarray(self._command.value.T)
            self.systems.step(self._inputs, 1)
            motion = self.systems.motion()
            self._send(motion)
        self._receive(motion)
        return motion

    def _heard(self) -> Array:
        """Mask (n,) of the systems whose state has arrived at least once."""
        return np.ones(self.n, dtype=bool) if self._state is None else self._state.arrived

    def _send(self, motion: Motion, mask: Array | None = None) -> None:
        if self._state is not None:
            self._state.send(motion.time, np.concatenate([motion.q, motion.v]), mask)
        for name, line in self._sensed.items():
            rows = self._rows[name]
            line.send(motion.time, np.stack([motion.q[rows[0]], motion.v[rows[0]]]), mask)

    def _receive(self, motion: Motion) -> None:
        if self._state is None:
            self._held[:] = np.concatenate([motion.q, motion.v])
        elif (new := self._state.receive(motion.time)).any():
            np.copyto(self._held, self._state.value, where=new)
        for name, line in self._sensed.items():
            line.receive(motion.time)
            rows = self._rows[name]
            self._held[rows] = np.where(line.arrived, line.value, self._held[rows])

    def measured(self, motion: Motion) -> Motion:
        """The motion as it is measured: late, and with noise."""
        q, v = motion.q, motion.v
        if self._has_links:
            q, v = self._held[: len(q)], self._held[len(q) :]
        if self._deviations is not None:
            for system in np.flatnonzero(self._noise_at >= NOISES):
                self._noise[system] = self._random[system].standard_normal(self._noise.shape[1:])
                self._noise_at[system] = 0
            noise = self._noise[np.arange(self.n), self._noise_at].T
            self._noise_at += 1
            q, v = q + self._deviations[0] * noise[: len(q)], v + self._deviations[1] * noise[len(q) :]
        return Motion(q, v, motion.time)

    def seed_all(self, seed: int | Sequence[int | None]) -> None:
        """Seed all systems: system i from seed + i, or from entry i of a sequence; None leaves a system as it is."""
        each = list(range(seed, seed + self.n)) if isinstance(seed, int) else list(seed)
        if len(each) != self.n:
            raise InvalidRequest(f"there are {len(each)} seeds; there must be {self.n}, one per environment")
        for system, own in enumerate(each):
            if own is not None:
                self.seed(system, int(own))

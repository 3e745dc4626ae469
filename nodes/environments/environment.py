"""Gymnasium environments of a Task: several that are stepped together, and one alone."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from nodes.environments.rendering import Picture
from nodes.environments.task import Motion, Task
from nodes.environments.wire import Procedure
from nodes.environments.worlds import World
from sim_core.arguments import as_array, as_whole
from sim_core.errors import InvalidRequest

BACKENDS = ("lanes", "simulation", "wire")
Array = np.ndarray


class VectorEnvironment(VectorEnv[Any, Any, Any]):
    """n environments of one task, stepped together. Observations and actions are float64.

    task            what the environments do
    num_envs        number of environments
    autoreset_mode  AutoresetMode.NEXT_STEP, SAME_STEP or DISABLED. With DISABLED, `reset` with the option `reset_mask`
                    starts new episodes
    backend         "lanes": on vector lanes; "simulation": each environment is a Simulation, with the bytes of a launch
                    in lockstep, and for robots with guards or beams; "wire": the robot of the live launch, see `Wire`
    render_mode     None, or "rgb_array": `render` returns one picture per environment
    lanes, threads  as of `LaneStates`
    procedure       with backend="wire", function of a `client.Client` that brings the robot to the start of an
                    episode. Without it, a reset is refused; no robot moves by itself. Episodes end as truncated, with
                    infos["late"], when a state arrives too late; the actuators then go into their safe mode
    domain          with backend="wire", domain of the launch
    overrides       other values for fields of the task, such as duration_s=5.0

    Environment i draws all its random numbers from the seed `seed + i`, where `seed` is the argument of `reset`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(
        self,
        task: Task,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        backend: str = "lanes",
        render_mode: str | None = None,
        lanes: int = 16,
        threads: int = 1,
        procedure: Procedure | None = None,
        domain: int | None = None,
        **overrides: Any,
    ) -> None:
        self.task = task = task.changed(overrides)
        if backend not in BACKENDS:
            raise InvalidRequest(f"backend is {backend!r}; it must be one of {', '.join(BACKENDS)}")
        if (num_envs := as_whole("an environment", "num_envs", num_envs)) < 1:
            raise InvalidRequest(f"num_envs is {num_envs}; it must be 1 or more")
        if render_mode not in (None, "rgb_array"):
            raise InvalidRequest(f"render_mode is {render_mode!r}; it must be None or 'rgb_array'")
        self.num_envs, self.render_mode = num_envs, render_mode
        self._mode = AutoresetMode(autoreset_mode)
        fps = round(1.0 / (task.steps * task.step_s))
        self.metadata = {**type(self).metadata, "render_fps": fps, "autoreset_mode": self._mode}
        more = {"lanes": lanes, "threads": threads, "procedure": procedure, "domain": domain}
        self.world = World(task, num_envs, backend, **more)
        self._largest = task.largest_of(self.world.mechanism)
        self._most = task.actions_per_episode
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, self._largest.shape, np.float64)
        self.single_observation_space = self._observation_space()
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._actions = np.zeros(num_envs, dtype=np.int64)  # in this episode
        self._done = np.zeros(num_envs, dtype=bool)
        self._is_started = False
        self._picture: Picture | None = None

    def _observation_space(self) -> gymnasium.spaces.Box:
        n_q, n_u = self.world.system.n_q, self.world.system.n_u
        n = n_q + n_u + 1  # unlike every other axis
        motion = Motion(np.zeros((n_q, n)), np.zeros((n_q, n)), np.zeros(n))
        with np.errstate(all="ignore"):
            one = self._numbers("observe", self.task.observe(motion), n)
            self._numbers("reward", self.task.reward(motion, np.zeros((n_u, n))), n)
            fails = self.task.fails(motion)
        self._numbers("fails", fails, n)
        if (kind := np.asarray(fails).dtype).kind != "b":
            raise InvalidRequest(f"fails returned {kind}; it must be booleans")
        limits = np.full(len(one), np.inf) if self.task.limits is None else self._array("limits", self.task.limits)
        if limits.shape != (len(one),):
            raise InvalidRequest(f"limits has shape {limits.shape}; observe returns {len(one)} values")
        if not (limits > 0.0).all():
            raise InvalidRequest(f"limits is {limits.tolist()}; each must be above 0")
        return gymnasium.spaces.Box(-limits, limits, dtype=np.float64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start new episodes; returns the observations (n, k) and an empty dict.

        seed     seed of the first environment, or one seed per environment; None goes on with the random numbers
        options  {"reset_mask": (n,) of bool}: only these environments
        """
        mask = self._reset_mask(options)
        if seed is None and not self._is_started:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        if seed is not None:
            self.world.seed_all(seed if np.ndim(seed) else int(seed))
        self._is_started = True
        self._begin(mask)
        return self._observed(self.world.systems.motion()), {}

    def _reset_mask(self, options: dict[str, Any] | None) -> Array:
        given = (options or {}).get("reset_mask")
        if given is None:
            return np.ones(self.num_envs, dtype=bool)
        mask = np.asarray(given)
        if mask.dtype != bool or mask.shape != (self.num_envs,) or not mask.any():
            raise InvalidRequest(
                f"reset_mask has shape {mask.shape} and type {mask.dtype}; it must be {self.num_envs} booleans, of "
                "which one or more are true"
            )
        return mask

    def _begin(self, mask: Array) -> None:
        self.world.reset(np.flatnonzero(mask))
        self._actions[mask] = 0
        self._done[mask] = False

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Apply actions (n, n_u); returns observations (n, k), rewards, terminated, truncated (n,), and infos.

        A system that diverges is terminated, with the reward 0, and is marked in infos["diverged"].
        """
        actions = self._checked(actions)
        ended = self._done.copy()
        if self._mode == AutoresetMode.DISABLED and ended.any():
            raise InvalidRequest(
                f"environment {int(np.argmax(ended))} has ended; with AutoresetMode.DISABLED, call reset(options="
                '{"reset_mask": ...}) first'
            )
        motion = self.world.step(actions * self._largest)
        self._actions += 1
        rewards = self._numbers("reward", self.task.reward(motion, actions.T), self.num_envs).copy()
        infos: dict[str, Any] = {}
        lost = ~np.isfinite(motion.q.sum(axis=0) + motion.v.sum(axis=0))
        if (bad := ~np.isfinite(rewards) & ~lost).any():
            i = int(np.argmax(bad))
            raise InvalidRequest(f"reward returned {rewards[i]} for environment {i}; it must be finite")
        terminated = self._numbers("fails", self.task.fails(motion), self.num_envs).astype(bool) | lost
        late = self.world.systems.late
        truncated = ((self._actions >= self._most) | late) & ~terminated
        if lost.any():
            rewards = np.where(lost, 0.0, rewards)
            infos |= {"diverged": lost}
        if late.any():
            infos |= {"late": late.copy()}
        if self._mode == AutoresetMode.NEXT_STEP and ended.any():
            self._begin(ended)
            rewards = np.where(ended, 0.0, rewards)
            terminated, truncated = terminated & ~ended, truncated & ~ended
            motion = self.world.systems.motion()
        self._done = terminated | truncated
        if self._mode == AutoresetMode.SAME_STEP and self._done.any():
            done = self._done.copy()
            infos |= {"final_obs": self._observed(motion), "_final_obs": done, "final_info": {}, "_final_info": done}
            self._begin(done)
            motion = self.world.systems.motion()
        return self._observed(motion), rewards, terminated, truncated, infos

    def _array(self, name: str, given: Any) -> Array:
        if type(given) is np.ndarray and given.dtype.char in "d?":  # `as_array` would take a tenth of a step
            return given
        return as_array(f"the task of {self.task.robot!r}", name, given)

    def _numbers(self, name: str, returned: Any, n: int) -> Array:
        """What a function of the task returned for n systems: an array of float64 or bool."""
        values = self._array(f"the result of {name}", returned)
        wanted = (n,) if name != "observe" else (len(values) if values.ndim else 0, n)
        if values.shape != wanted:
            shape = f"(k, {n})" if name == "observe" else f"({n},)"
            raise InvalidRequest(
                f"{name} returned the shape {values.shape} for {n} systems; it must be {shape}, with the systems along "
                "the last axis, as in motion.q and the actions"
            )
        return values

    def _checked(self, actions: Any) -> Array:
        values = self._array("the array of actions", actions)
        shape = (self.num_envs, len(self._largest))
        if not self._is_started:
            raise InvalidRequest("step was called before reset; call reset first")
        if values.shape != shape:
            raise InvalidRequest(f"the actions have shape {values.shape}; for {self.task.robot!r} it must be {shape}")
        if not np.isfinite(values).all():
            place = np.argwhere(~np.isfinite(values))[0]
            raise InvalidRequest(
                f"action {int(place[1])} of environment {int(place[0])} is {values[tuple(place)]}; it must be finite"
            )
        clipped: Array = np.minimum(np.maximum(values, -1.0), 1.0)
        return clipped

    def _observed(self, motion: Motion) -> Array:
        found = self._numbers("observe", self.task.observe(self.world.measured(motion)), self.num_envs)
        return np.ascontiguousarray(found.T)

    def render(self) -> tuple[Array, ...] | None:
        """Pictures (height, width, 3) of all environments; None without a render mode."""
        if self.render_mode is None:
            return None
        if self._picture is None:
            self._picture = Picture(self.world.system)
        motion = self.world.systems.motion()
        return tuple(self._picture.draw(motion.q[:, i], motion.time[i]) for i in range(self.num_envs))


class Environment(gymnasium.Env[Any, Any]):
    """One environment of a task: a VectorEnvironment of one system. Observations and actions are float64.

    task  what the environment does; the other arguments are those of VectorEnvironment
    """

    metadata: dict[str, Any] = dict(VectorEnvironment.metadata)

    def __init__(self, task: Task, *, render_mode: str | None = None, lanes: int = 2, **more: Any) -> None:
        more |= {"render_mode": render_mode, "lanes": lanes}
        self._vector = VectorEnvironment(task, 1, autoreset_mode=AutoresetMode.DISABLED, **more)
        self.task, self.render_mode = self._vector.task, render_mode
        self.metadata = {**type(self).metadata, "render_fps": self._vector.metadata["render_fps"]}
        self.action_space = self._vector.single_action_space
        self.observation_space = self._vector.single_observation_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start a new episode; returns the observation (k,) and an empty dict."""
        super().reset(seed=seed)
        observations, infos = self._vector.reset(seed=seed, options=options)
        return observations[0], infos

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Apply an action (n_u,); returns the observation (k,), reward, terminated, truncated, and infos."""
        values, shape = as_array(f"the task of {self.task.robot!r}", "the action", action), self.action_space.shape
        if values.shape != shape:
            raise InvalidRequest(f"the action has the shape {values.shape}; for {self.task.robot!r} it must be {shape}")
        found, rewards, terminated, truncated, infos = self._vector.step(values[None])
        infos = {name: bool(value[0]) for name, value in infos.items()}
        return found[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), infos

    def render(self) -> Array | None:
        """Picture (height, width, 3) of the system; None without a render mode."""
        pictures = self._vector.render()
        return None if pictures is None else pictures[0]

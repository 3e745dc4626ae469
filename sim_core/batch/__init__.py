"""Batch evaluation: several copies of a system per call, one copy per vector lane."""

from sim_core.batch.evaluation import Batch, Rollout
from sim_core.batch.lane_states import LaneStates

__all__ = ["Batch", "LaneStates", "Rollout"]

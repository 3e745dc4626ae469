"""Batch evaluation: several copies of a system per call, one copy per vector lane."""

from sim_core.batch.evaluation import Batch, Rollout

__all__ = ["Batch", "Rollout"]

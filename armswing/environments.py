"""Gymnasium environments of robots; the import registers armswing/rotary_pendulum-v0. Needs the extra `gym`."""

from nodes.environments import *  # noqa: F403

"""Description of a mechanism: bodies, joints, constraints, springs, actuators, guards and outputs."""

from sim_core.mechanism import *  # noqa: F403

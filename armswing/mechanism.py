"""Description of a mechanism: bodies, joints, constraints, springs, actuators, guards and outputs."""

from sim_core.mechanism import *  # noqa: F403
from sim_core.mechanism.beams import Beam as Beam
from sim_core.mechanism.beams import ContactForceOutput as ContactForceOutput
from sim_core.mechanism.beams import DeflectionOutput as DeflectionOutput
from sim_core.mechanism.constraints import BeamContact as BeamContact
from sim_core.mechanism.guards import Aim as Aim
from sim_core.mechanism.guards import Beyond as Beyond
from sim_core.mechanism.guards import Commanded as Commanded
from sim_core.mechanism.guards import Pushed as Pushed
from sim_core.mechanism.guards import Sinking as Sinking
from sim_core.mechanism.guards import Window as Window
from sim_core.mechanism.outputs import ForceOutput as ForceOutput
from sim_core.mechanism.outputs import HoldingOutput as HoldingOutput
from sim_core.mechanism.outputs import VelocityOutput as VelocityOutput

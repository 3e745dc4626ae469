"""Simulation of one System: the simulation, its inputs, what can be read of it, and the checks of a run."""

from sim_core.simulation.simulation import Simulation as Simulation

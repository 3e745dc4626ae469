"""Processor in the loop: a controller on two processors in one lockstep run, its commands compared bit by bit."""

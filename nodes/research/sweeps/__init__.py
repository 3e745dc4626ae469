"""Sweeps: lockstep runs of a launch for many combinations of parameter values, with a table, a page and a journal."""

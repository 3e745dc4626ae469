"""Sweeps: one lockstep run in process per combination of parameter values, with a table, a page and a journal."""

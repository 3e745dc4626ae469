"""Sweeps: one lockstep run, in this process or a worker, per combination of parameter values; a table, a page and a
journal."""

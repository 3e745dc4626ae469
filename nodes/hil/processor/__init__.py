"""Processor in the loop: runs one controller on two processors in the same lockstep run, and compares their commands
bit by bit.
"""

"""Limits the commands on their way to the motors, and stops the motors where a limit cannot be kept.

limits.py     the envelope: limits of each joint, and linear inequalities that keep joint combinations out
setpoints.py  moves the setpoints of position and velocity servos, within the envelope, towards what was commanded
watching.py   the checks of the measured motion: whether it can still be stopped inside the envelope
logic.py      the guard itself: commands in, guarded commands and interventions out
node.py       the guard as a node between a controller and a robot
driver.py     the guard in the driver's own process
"""

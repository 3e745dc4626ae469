"""Limits the commands on their way to the motors, and stops the motors if a limit cannot be kept.

limits.py             the envelope: limits of each joint, and linear inequalities that exclude combinations of joint
                      positions
setpoints.py          setpoints of position and velocity servos, moved within the envelope towards the commanded values
stopping_distance.py  checks whether the measured motion can still be stopped inside the envelope
command_guard.py      the guard itself: a function from commands to guarded commands and interventions
node.py               the guard as a node between a controller and a robot
driver.py             the guard in the driver's own process
stop_log.py           record of what guards did during a run, from their events
"""

"""
Linear models
=============

`linearize` gives x' = A x + B u of any robot at any state, with exact derivatives. In robots with closed loops, x are
independent coordinates and their velocities: the loops stay closed.
"""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import solve_continuous_are

from armswing import Simulation, assemble, build, linearize, mechanism, operating_point

# %%
# A regulator in ten lines
# ------------------------
# The rotary pendulum stands upright. Its efforts are held over each step of 1 ms, as by a server.

system = assemble(build("rotary_pendulum", coordinates="joint"))
point = operating_point(system, {"pendulum": np.pi})
linear = linearize(system, (point.q, point.v), point.u)
Q, R = np.diag([10.0, 10.0, 0.1, 0.1]), np.array([[1e4]])
P = solve_continuous_are(linear.A, linear.B, Q, R)
K = np.linalg.solve(R, linear.B.T @ P)
sim = Simulation(system, step_s=1e-3)
sim.reset(q=[0.3, np.pi + 0.15])
rows = []
while sim.time < 3.0:
    deviation = np.concatenate([sim.state.q - point.q, sim.state.v])
    sim.set_effort(-K @ deviation)
    sim.step()
    rows.append([sim.time, *np.degrees(deviation[:2])])

times, arm, pendulum = np.array(rows).T
print(f"poles of the robot {np.round([p.value.real for p in linear.poles()], 2)} 1/s")
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
axis.plot(times, arm, label="arm")
axis.plot(times, pendulum, label="pendulum, from upright")
axis.set(xlabel="time in s", ylabel="angle in degrees")
axis.legend()
plt.show()

# %%
# The modes of CHARMIE
# --------------------
# The efforts of `operating_point` hold the robot. Modes with a frequency above 0 are those of gravity: a mode with the
# damping -1 falls over, which the servos have to prevent.

charmie = assemble(build("charmie"))
held = operating_point(charmie)
for pole in linearize(charmie, (held.q, held.v), held.u).poles()[-6:]:
    state, share = next(iter(pole.participation.items()))
    print(f"{pole.frequency:7.3f} rad/s, damping {pole.damping:5.2f}: {100 * share:.0f} % {state}")

# %%
# The frequency response of a four-bar
# ------------------------------------
# A motor drives the crank of a parallelogram that hangs at rest. In the loop, one coordinate is independent, and
# `operating_point` closes it.

four_bar = build("parallelogram_four_bar")
motor = mechanism.Actuator(name="motor", joint="crank")
crank = dataclasses.replace(four_bar.joints[0], damping=0.3)
bar = assemble(dataclasses.replace(four_bar, actuators=(motor,), joints=(crank, *four_bar.joints[1:])))
at = operating_point(bar, {"crank.theta": -1.2}, u=[0.0])
linear = linearize(bar, (at.q, at.v), at.u, outputs=["crank"])
frequencies = np.logspace(-0.5, 2.0, 400)
identity = np.eye(len(linear.states))
response = np.array([
    (linear.C @ np.linalg.solve(1j * w * identity - linear.A, linear.B) + linear.D).item() for w in frequencies
])  # fmt: skip
figure, (size, phase) = plt.subplots(2, 1, sharex=True, figsize=(7, 4), layout="constrained")
size.loglog(frequencies, abs(response))
size.set(ylabel="rad / N m")
phase.semilogx(frequencies, np.degrees(np.angle(response)))
phase.set(xlabel="rad/s", ylabel="phase in degrees")
plt.show()

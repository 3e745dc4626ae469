"""
A controller in one process, swept over its stiffness
=====================================================

``run`` runs a launch file in this process, without sockets, with the schedule of lockstep. Here the controller of
the tutorial turns the arm to 60 degrees with three values of its stiffness.
"""

import matplotlib.pyplot as plt
import numpy as np

from armswing import run

LAUNCH_FILE = "../../launch/examples/my_controller.toml"

figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
for stiffness in (0.005, 0.02, 0.05):
    overrides = [f"my_controller.stiffness={stiffness}", "my_controller.angle_deg=60"]
    state = run(LAUNCH_FILE, overrides=overrides, seconds=3.0)["rotary_pendulum/state"]
    times, angles = state["timestamp"], np.degrees(state["position"][:, 0])
    axis.plot(times, angles, label=f"{stiffness} N m/rad")
    print(f"stiffness {stiffness} N m/rad: {angles[-1]:.1f} degrees after {times[-1]:.1f} s")
axis.set(xlabel="time in s", ylabel="angle of the arm in degrees")
axis.legend()
plt.show()

"""
A controller in one process, swept over its stiffness
=====================================================

``compose`` runs a launch file in this process, without sockets, with the schedule of lockstep. Here the controller of
the tutorial turns the arm to 60 degrees with three values of its stiffness.
"""

import matplotlib.pyplot as plt
import numpy as np

from armswing import compose, load_plan
from armswing.messages import decode

LAUNCH_FILE = "../../launch/examples/my_controller.toml"


def run(stiffness):
    plan = load_plan(
        LAUNCH_FILE, ["sim.mode=lockstep", f"my_controller.stiffness={stiffness}", "my_controller.angle_deg=60"]
    )
    times, angles = [], []

    def carry(topic, payload):
        if topic == "rotary_pendulum/state":
            state = decode(topic, payload)
            times.append(state.timestamp)
            angles.append(np.degrees(state.position[state.name.index("arm")]))

    with compose(plan, carry) as composition:
        composition.run(3.0)
    return np.array(times), np.array(angles)


figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
for stiffness in (0.005, 0.02, 0.05):
    times, angles = run(stiffness)
    axis.plot(times, angles, label=f"{stiffness} N m/rad")
    print(f"stiffness {stiffness} N m/rad: {angles[-1]:.1f} degrees after {times[-1]:.1f} s")
axis.set(xlabel="time in s", ylabel="angle of the arm in degrees")
axis.legend()
plt.show()

"""
A robot's motion without any node
=================================

The rotary pendulum falls from 170 degrees, with no controller: `Simulation` integrates it in this process.
"""

import matplotlib.pyplot as plt
import numpy as np

from armswing import Simulation, assemble, build

sim = Simulation(assemble(build("rotary_pendulum")), step_s=1e-3)
times, angles, energies = [], [], []
while sim.time < 3.0:
    sim.advance(0.01)
    times.append(sim.time)
    angles.append(np.degrees(sim.joints()[0]))
    energies.append(sim.energy())

# %%
# Without damping the energy is constant, up to the error of the integration and of the constraints.

print(f"energy {energies[0]:.6f} J, change {np.ptp(energies):.1e} J, largest violation {sim.peak_violation()[0]:.1e} m")

figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
axis.plot(times, angles, label=["arm", "pendulum"])
axis.set(xlabel="time in s", ylabel="angle in degrees")
axis.legend()
plt.show()

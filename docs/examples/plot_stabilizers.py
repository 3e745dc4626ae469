"""
A linkage under several stabilizers
===================================

A four-bar linkage turns for ten seconds. Without stabilization its loop drifts open; the stabilizers hold it together
to different degrees, at different cost.
"""

import matplotlib.pyplot as plt

from armswing import Simulation, assemble, build

system = assemble(build("parallelogram_four_bar"))
figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name in ("none", "baumgarte", "projection", "sampled_fuzzy"):
    sim = Simulation(system, step_s=1e-3, stabilizer=name)
    times, violations = [], []
    while sim.time < 10.0:
        sim.advance(0.02)
        times.append(sim.time)
        violations.append(max(sim.violation()[0], 1e-17))
    print(f"{name:14} largest |Phi| {sim.peak_violation()[0]:.1e}, energy {sim.energy():.6f} J")
    axis.semilogy(times, violations, label=name)
axis.set(xlabel="time in s", ylabel="|Phi|, sum over the rows")
axis.legend(ncols=2)
plt.show()

# %%
# ``armswing.comparison.compare`` runs all stabilizers and gives a table of violations, energy and time.

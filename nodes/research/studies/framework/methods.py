"""Steppers and stabilizers that both papers on fuzzy stabilization compare, with their names on the studies' pages.

[NadaBayoumi2024; Man2025]
"""

from __future__ import annotations

import math

from nodes.research.studies.framework.runs import Method, Stepping
from sim_core.stabilization.membership import FuzzySets

FIXED, ONE_CALL = "fixed step", "one adaptive call"  # the two readings of a paper's step
# MATLAB's ode45 leaves relative tolerance 1e-3 and absolute tolerance 1e-6 unless told otherwise.
DEFAULT_TOLERANCES = (("rtol", 1e-3), ("atol", 1e-6))

RK4 = Stepping("RK4", "rk4")
DOPRI5 = Stepping("Dormand–Prince 5, fixed", "dopri5")
ODE45 = Stepping("Dormand–Prince 5(4), adaptive", "dopri5_dense", DEFAULT_TOLERANCES, adaptive=True)
TIGHT = Stepping(
    "Dormand–Prince 5(4), tolerances 1e-10", "dopri5_adaptive", (("rtol", 1e-10), ("atol", 1e-12)), adaptive=True
)
SEMI_IMPLICIT = Stepping("semi-implicit Euler", "semi_implicit")
ABM4 = Stepping("Adams–Bashforth–Moulton 4", "abm4")
TR_BDF2 = Stepping("TR-BDF2", "tr_bdf2")
RADAU5 = Stepping("Radau IIA 5, fixed", "radau5")
ADAMS = Stepping("Adams, variable order", "adams_variable", DEFAULT_TOLERANCES, adaptive=True, restarts=True)
RADAU = Stepping("Radau IIA 5, adaptive", "radau_variable", DEFAULT_TOLERANCES, adaptive=True, restarts=True)

SETS = {
    "I": FuzzySets("triangle"),
    "II": FuzzySets("trapezoid"),
    "III": FuzzySets("gaussian"),
}

NONE = Method("none", "none")
B1 = Method("Baumgarte (5, 5)", "baumgarte", (("alpha", 5.0), ("beta", 5.0)))
B2 = Method("Baumgarte (5, 12)", "baumgarte", (("alpha", 5.0), ("beta", 12.0)))
B20 = Method("Baumgarte (20, 20)", "baumgarte", (("alpha", 20.0), ("beta", 20.0)))
PID = Method("PID (gains follow δt)", "pid")
FLC1 = Method("fuzzy, set I (triangles)", "nada", (("sets", "I"),))
FLC2 = Method("fuzzy, set II (trapezoids)", "nada", (("sets", "II"),))
FLC3 = Method("fuzzy, set III (Gaussians)", "nada", (("sets", "III"),))
DIRECT = Method("direct correction, fed back", "direct_correction")
DIRECT_MASS = Method("direct correction, mass-weighted", "direct_correction", (("weight", "mass"),))
DIRECT_INSIDE = Method("direct correction inside the right-hand side", "direct_correction", (("inside_rhs", True),))
SAMPLED = Method("sampled fuzzy (armswing)", "sampled_fuzzy")
PROJECTION = Method("projection (armswing)", "projection")


def b3(dt: float) -> Method:
    """Baumgarte stabilization with the gains 1/dt and sqrt(2)/dt. [NadaBayoumi2024, sec. 2.2]

    dt  the paper's time step, s
    """
    return Method("Baumgarte (1/δt, √2/δt)", "baumgarte", (("alpha", 1.0 / dt), ("beta", math.sqrt(2.0) / dt)))


# Steppers of sim_core.
FIXED_STEPPINGS = (RK4, DOPRI5, SEMI_IMPLICIT, ABM4, TR_BDF2, RADAU5)
ADAPTIVE_STEPPINGS = (ODE45, ADAMS, RADAU)

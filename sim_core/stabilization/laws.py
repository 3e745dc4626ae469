"""Compiled stabilizer laws: functions that compute the stabilization U (n_rows,) in J a = gamma - U.

phi (n_holonomic,)  violations Phi of the holonomic rows, which come first
phidot (n_rows,)    rates Phidot of all rows; the only input of nonholonomic rows
gains               gains of the law
memory              numbers that a law keeps between steps; each call of a law with memory advances these numbers by the
                    time h
h                   step size, s, in the call at the start of a step; 0 in the calls at the stages of the step
"""

from __future__ import annotations

from sim_core.kernels.compiled import inner, native_function
from sim_core.stabilization.inference import fuzzy_output, fuzzy_output_of_rate, triangle_output

SIGNATURE = f"void({5 * 'CPointer(float64), '}float64, int64, int64)"


@native_function(SIGNATURE)
def baumgarte(phi, phidot, gains, memory, U, h, n_holonomic, n_rows):  # type: ignore[no-untyped-def]
    """Stabilization U = 2 alpha Phidot + beta^2 Phi, with `gains` = [alpha, beta].

    [Baumgarte1972] [NadaBayoumi2024, eq. 13]
    """
    alpha, beta = gains[0], gains[1]
    for row in range(n_rows):
        U[row] = 2.0 * alpha * phidot[row]
        if row < n_holonomic:
            U[row] += beta * beta * phi[row]


@native_function(SIGNATURE)
def pid(phi, phidot, gains, memory, U, h, n_holonomic, n_rows):  # type: ignore[no-untyped-def]
    """Stabilization U = Kp Phi + Ki I + Kd Phidot, with `gains` = [Kp, Ki, Kd]. [LinChen2011]

    I, kept in `memory`, is the sum of h Phi at the starts of all steps so far.
    """
    for row in range(n_rows):
        U[row] = gains[2] * phidot[row]
        if row < n_holonomic:
            memory[row] += h * phi[row]
            U[row] += gains[0] * phi[row] + gains[1] * memory[row]


@native_function(SIGNATURE)
def fuzzy(phi, phidot, gains, memory, U, h, n_holonomic, n_rows):  # type: ignore[no-untyped-def]
    """Stabilization U = Ku FLC(Kp Phi, Kd Phidot) with the fuzzy logic controller FLC of 25 rules (`fuzzy_output`).

    Nonholonomic rows use the five rules of the single input Kd Phidot. [NadaBayoumi2024, figs. 6, 28]

    gains  Kp, Kd, Ku, then kind, conjunction, width and neighbour as in `fuzzy_output`
    """
    kind, conjunction, width, neighbour = gains[3], gains[4], gains[5], gains[6]
    for row in range(n_holonomic):
        x, y = gains[0] * phi[row], gains[1] * phidot[row]
        U[row] = gains[2] * fuzzy_output(x, y, kind, conjunction, width, neighbour)
    for row in range(n_holonomic, n_rows):
        U[row] = gains[2] * fuzzy_output_of_rate(gains[1] * phidot[row], kind, width, neighbour)


@inner
def _scalings(gains, h):  # type: ignore[no-untyped-def]
    """Scalings (Kp, Kd, Ku) of the stabilizer law `sampled_fuzzy` for the step size h, s.

    gains  saturation eps, pole rho, hold coefficient c and slope g, as described for `sampled_fuzzy`
    """
    eps, rho = gains[0], gains[1]
    k1 = (1.0 - rho) * (1.0 - rho)
    k2 = 2.0 * (1.0 - rho) - gains[2] * k1
    return 1.0 / eps, k2 / k1 * h / eps, k1 * eps / (gains[3] * h * h)


@native_function(SIGNATURE)
def sampled_fuzzy(phi, phidot, gains, memory, U, h, n_holonomic, n_rows):  # type: ignore[no-untyped-def]
    """Fuzzy stabilization U = Ku FLC(Kp Phi, Kd Phidot), computed once per time step and constant over this step.

    From step to step, a violation behaves like a sampled double integrator with the feedback U. Below the saturation
    eps, the scalings place both poles of this discrete-time system at rho. With the step size h they are

        Kp = 1 / eps,  Kd = (k2 / k1) h / eps,  Ku = k1 eps / (g h^2);  k1 = (1 - rho)^2,  k2 = 2 (1 - rho) - c k1

    gains  8 numbers: eps, the violation at which the control saturates; rho; c; g, the largest slope of the control
           surface; then kind, conjunction, width and neighbour as in `fuzzy_output`. c is the `hold_coefficient` of the
           stepper: a constant U changes the violation by -c h^2 U in a step
    """
    kp, kd, ku = _scalings(gains, h)
    closed_form = gains[4] == 0.0 and gains[5] == 0.0
    for row in range(n_rows):
        x = kp * phi[row] if row < n_holonomic else 0.0
        if closed_form:
            U[row] = ku * triangle_output(x, kd * phidot[row])
        else:
            U[row] = ku * fuzzy_output(x, kd * phidot[row], gains[4], gains[5], gains[6], gains[7])

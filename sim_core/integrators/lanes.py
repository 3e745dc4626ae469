"""Classical Runge-Kutta steps of many systems at once, with the same code for any number of systems."""

from __future__ import annotations

from sim_core.kernels.compiled import call_kernel, inner, loop_that_allocates


@loop_that_allocates
def advance_lanes(pointers, t, q, v, u, a, efforts, h, steps, every, record):  # type: ignore[no-untyped-def]
    """Advance q and v of a batch of systems in place by `steps` Runge-Kutta steps of size h, and record q and v.

    With y = (q, v), a step is y+ = y + h/6 (k1 + 2 k2 + 2 k3 + k4) from the derivatives k_i at the four stages.
    [HairerNorsettWanner1993, ch. II.1]

    pointers       addresses of the kernel (t, q, v, u, p) -> a, of its table of inputs, and of its table of outputs
    t, q, v, u, a  flat arrays; for each element, the numbers of all systems are adjacent, so that inner loops vectorize
    efforts        actuator inputs (1 or steps, size of u): one row for all steps, or one row per step
    every          number of steps between recorded states
    record         (2, k, size of q): recorded q, then recorded v; the first of the k states is that at the start
    """
    q0, v0, dq, dv = q.copy(), v.copy(), q.copy(), v.copy()
    for step in range(steps + 1):
        if step % every == 0:
            for i in range(q.size):
                record[0, step // every, i], record[1, step // every, i] = q[i], v[i]
        if step == steps:
            break
        for i in range(u.size):
            u[i] = efforts[min(step, efforts.shape[0] - 1), i]
        for i in range(q.size):
            q0[i], v0[i] = q[i], v[i]
        for stage in range(4):
            for i in range(t.size):
                t[i] = (step + 0.5 * ((stage + 1) // 2)) * h
            call_kernel(pointers[0], pointers[1], pointers[2])
            if stage == 0:
                advance_stage(q, v, a, q0, v0, dq, dv, 0.0, 1.0, 0.5 * h)
            elif stage == 1:
                advance_stage(q, v, a, q0, v0, dq, dv, 1.0, 2.0, 0.5 * h)
            elif stage == 2:
                advance_stage(q, v, a, q0, v0, dq, dv, 1.0, 2.0, h)
        for i in range(q.size):
            q[i] = q0[i] + h / 6.0 * (dq[i] + v[i])
            v[i] = v0[i] + h / 6.0 * (dv[i] + a[i])


@inner
def advance_stage(q, v, a, q0, v0, dq, dv, keep, weight, ahead):  # type: ignore[no-untyped-def]
    """Add a Runge-Kutta stage to the weighted sums dq, dv of the step, and set q, v to those of the next stage.

    The new sums are keep * dq + weight * v and keep * dv + weight * a.

    q0, v0  state at the start of the step
    ahead   time from the start of the step to the next stage, s
    """
    for i in range(q.size):
        dq[i] = keep * dq[i] + weight * v[i]
        q[i] = q0[i] + ahead * v[i]
    for i in range(v.size):
        dv[i] = keep * dv[i] + weight * a[i]
        v[i] = v0[i] + ahead * a[i]

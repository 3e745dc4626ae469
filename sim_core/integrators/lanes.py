"""The classical Runge-Kutta step for many systems at once: the same loops whatever their number."""

from __future__ import annotations

from sim_core.kernels.compiled import call_kernel, inner, loop


@loop
def advance_lanes(pointers, t, q, v, u, a, efforts, h, steps, every, record):  # type: ignore[no-untyped-def]
    """q, v on by `steps` of h; `record` (2, k, size) takes them at the start and after every `every` steps.

    pointers  kernel (t, q, v, u, p) -> a, and its two pointer tables
    arrays    flat, the systems of an element side by side: inner loops become vectors whatever the lanes
    efforts   (1 or steps, size of u): held all along or one row per step
    k_i of the four stages, y+ = y + h/6 (k1 + 2 k2 + 2 k3 + k4). [HairerNorsettWanner1993, ch. II.1]
    """
    q0, v0, dq, dv = q.copy(), v.copy(), q.copy(), v.copy()
    for step in range(steps + 1):
        if step % every == 0:
            record[0, step // every, :] = q
            record[1, step // every, :] = v
        if step == steps:
            break
        u[:] = efforts[min(step, efforts.shape[0] - 1)]
        q0[:] = q
        v0[:] = v
        for stage in range(4):
            t[:] = (step + 0.5 * ((stage + 1) // 2)) * h
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
    """Add a stage to the sums dq, dv and go to the place of the next one."""
    for i in range(q.size):
        dq[i] = keep * dq[i] + weight * v[i]
        q[i] = q0[i] + ahead * v[i]
    for i in range(v.size):
        dv[i] = keep * dv[i] + weight * a[i]
        v[i] = v0[i] + ahead * a[i]

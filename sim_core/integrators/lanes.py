"""The classical Runge-Kutta step for many systems at once: every array has one system per column."""

from __future__ import annotations

from sim_core.kernels.compiled import call_kernel, loop


@loop
def advance_lanes(pointers, t, q, v, u, a, efforts, h, steps, every, record):  # type: ignore[no-untyped-def]
    """q, v on by `steps` of h; `record` (2, k, n, lanes) takes them at the start and after every `every` steps.

    pointers  kernel (t, q, v, u, p) -> a, and its two pointer tables
    efforts   (n_u, 1 or steps, lanes): held all along or one per step
    k_i of the four stages, y+ = y + h/6 (k1 + 2 k2 + 2 k3 + k4). [HairerNorsettWanner1993, ch. II.1]
    """
    n, lanes = q.shape
    q0, v0, dq, dv = q.copy(), v.copy(), q.copy(), v.copy()
    for step in range(steps + 1):
        if step % every == 0:
            for i in range(n):
                for k in range(lanes):
                    record[0, step // every, i, k] = q0[i, k]
                    record[1, step // every, i, k] = v0[i, k]
        if step == steps:
            break
        row = min(step, efforts.shape[1] - 1)
        for i in range(u.shape[0]):
            for k in range(lanes):
                u[i, k] = efforts[i, row, k]
        for stage in range(4):
            for k in range(lanes):
                t[0, k] = (step + (0.5 * ((stage + 1) // 2))) * h
            call_kernel(pointers[0], pointers[1], pointers[2])
            weight = 1.0 if stage == 0 or stage == 3 else 2.0
            ahead = h if stage == 2 else 0.5 * h
            for i in range(n):
                for k in range(lanes):
                    keep = 0.0 if stage == 0 else 1.0
                    dq[i, k] = keep * dq[i, k] + weight * v[i, k]
                    dv[i, k] = keep * dv[i, k] + weight * a[i, k]
                    if stage < 3:
                        q[i, k] = q0[i, k] + ahead * v[i, k]
                        v[i, k] = v0[i, k] + ahead * a[i, k]
                    else:
                        q0[i, k] += h / 6.0 * dq[i, k]
                        v0[i, k] += h / 6.0 * dv[i, k]
                        q[i, k] = q0[i, k]
                        v[i, k] = v0[i, k]

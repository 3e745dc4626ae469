"""Checks of a log's efforts with the robot's model: degrees, exchanged efforts and joints, constants, signs, zeros and
delays.

The model's inertias are only roughly known. The checks therefore use, where they can, the regressor with parameters of
each joint's own, and friction, and judge by ratios between joints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from nodes.hil.logs.findings import Floats, LogFinding, LogSamples, seconds
from sim_core.identification.base_parameters import BaseParameters, base_parameters
from sim_core.identification.intervals import factor_with_sd
from sim_core.identification.regressor import Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.identification.selection import TO_CHECK, mistaken_size
from sim_core.identification.signals import Recorded, low_pass, motion_of, sampled
from sim_core.mechanism.description import Mechanism

CUTOFF_HZ = 5.0
ROWS_HZ = 25.0
MOST_ROWS = 4000
EDGE_S = 0.3  # left out at the ends of each part, where the filter has no signal on both sides
SLOW = 0.5  # efforts of inertia over those of gravity, below which a motion is slow
SEES = 0.3  # standard deviation of the model's effort over that of the effort, from which on it must show in the effort
BLIND = 0.25  # factor of gravity below which an effort does not see it
UNIT = 0.2  # efforts over gravity, below which their unit is wrong
FACTOR = 1.3  # between a joint's factor of gravity and the median, from which on it is named
CERTAIN_FACTOR = 4.0  # the same, from which on it is certain
EXPLAINED = 0.7  # share of the variance that the model with friction explains, for findings from it
BETTER, HINTED = 0.6, 0.85  # ratio of the errors, for an exchange, and for one that is a hint
BLOCKS, T = 10, 3.0  # parts of a log, in which errors are compared, and the t-value of their mean logarithm
REVERSED, CONFIRMED = 0.5, 0.9  # the same, for a joint with the opposite sign, by one of two models and by the other
EXACT = 1e-4  # share of the variance that filter and rounding leave
FEWER_ROWS = 1000  # for which every joint is reversed, or every pair is exchanged
TURN = 57.29577951308232  # degrees per radian
MOST_RANGE = 8.0 * np.pi  # rad, from which on the range of a joint may be in degrees
LAGS_S = np.arange(-0.08, 0.1301, 0.01)  # longer ones are ambiguous in a motion with a period
LATE_S = 0.015
SHARPER = 0.98  # error with a shift over the error without, for a late effort
ZERO, MOST_ZERO = 0.1, 1.0  # rad or m; a larger one is another fault
STEP = 1e-4  # rad or m, for derivatives with respect to positions
ZERO_GAIN = 0.1  # least relative gain of the fit by a zero error
KNOWN_SD = 0.25  # largest standard deviation of a factor that is compared
LOST = 0.1  # share of the variance of a velocity that the filter takes away, from which on the model does not judge
UNLIKE = 0.1  # share of the variance that the model leaves, below which a joint's channels are its own


@dataclass(frozen=True)
class _Rows:
    """Motion and efforts of k joints at n instants of a filtered log, and the base regressor Y (n, k, b)."""

    Y: Floats
    effort: Floats
    velocity: Floats
    acceleration: Floats
    q: Floats


@dataclass(frozen=True)
class _Reversed:
    """A joint that may have the opposite sign.

    ratio     variance of all efforts that is not explained along the reversed motion, over that along the given one
    error     what the model leaves along the reversed motion
    faults    number of channels with a wrong sign
    is_whole  whether the joint's efforts have the opposite sign, too
    rows      along the reversed motion
    """

    joint: int
    ratio: float
    error: float
    faults: int
    is_whole: bool
    rows: _Rows


class ModelChecks:
    """Checks of a log with a robot in joint coordinates, a tree of joints.

    mechanism     the robot; joints that are not in the log are held at 0
    unit_unknown  joints whose efforts have an unknown unit
    """

    def __init__(self, mechanism: Mechanism, samples: LogSamples, unit_unknown: Collection[str] = ()) -> None:
        self.samples, self.unit_unknown = samples, unit_unknown
        self.names = tuple(joint.name for joint in mechanism.moving_joints if joint.name in samples.names)
        self._order = [samples.joint(name) for name in self.names]
        driven = {actuator.joint for actuator in mechanism.actuators}
        self.driven = np.array([name in driven for name in self.names])
        self.regressor = Regressor(rigid_tree(mechanism, self.names))
        self.base: BaseParameters = base_parameters(self.regressor)
        self.beta = self.base.B @ self.regressor.pi

    def findings(self) -> Iterator[LogFinding]:
        """The findings, in the order of the checks; a joint with a wrong order or sign is not checked further."""
        rows = self._rows(self.samples.position[:, self._order], self.samples.effort[:, self._order])
        if rows is None:
            return
        if fast := self._faster_than_the_filter():
            yield fast
            return
        known = [k for k in range(len(self.names)) if np.isfinite(rows.effort[:, k]).all() and rows.effort[:, k].any()]
        if unit := self._unit_of_positions(rows, known):
            yield unit
            return
        exchanged = list(self._exchanged(rows, known))
        yield from exchanged
        exchanged = [finding for finding in exchanged if finding.refuses]
        if not exchanged and (reversed_joints := list(self._reversed(rows, known))):
            yield from reversed_joints
            return  # whatever else is found along a wrong motion is a consequence
        taken = {name for finding in exchanged for name in finding.joint.split(", ")}
        joints = [k for k in known if self.names[k] not in taken and self.driven[k]]
        yield from self._late(joints)
        yield from self._factors(rows, joints)
        yield from self._zeros(rows, joints)

    def _rows(self, position: Floats, effort: Floats, cutoff_hz: float = CUTOFF_HZ) -> _Rows | None:
        cut = self._cut(position, effort, cutoff_hz)
        if cut is None or len(cut[0]) < 50:
            return None
        q, v, a, e = cut
        return _Rows(self.regressor(q, v, a)[:, :, self.base.columns], e, v, a, q)

    def _cut(self, position: Floats, effort: Floats, cutoff_hz: float) -> list[Floats] | None:
        """Filtered positions, velocities, accelerations and efforts (n, k) each, at ROWS_HZ and away from gaps."""
        columns = []
        for part in sampled(Recorded(self.samples.time, position, effort)):
            q, v, a = motion_of(part, cutoff_hz)
            filtered = np.stack([_filtered(column, cutoff_hz, part.rate_hz) for column in part.effort.T], axis=1)
            edge, step = int(EDGE_S * part.rate_hz), max(1, round(part.rate_hz / ROWS_HZ))
            columns.append([each[edge : len(q) - edge : step] for each in (q, v, a, filtered)])
        if not columns:
            return None
        joined = [np.concatenate(each) for each in zip(*columns, strict=True)]
        every = max(1, len(joined[0]) // MOST_ROWS)
        return [each[::every] for each in joined]

    def _faster_than_the_filter(self) -> LogFinding | None:
        """The joint whose motion the filter changes most; the model cannot judge efforts by a motion that it loses."""
        lost, kept = np.zeros(len(self.names)), np.zeros(len(self.names))
        for part in sampled(Recorded(self.samples.time, self.samples.position[:, self._order], self.samples.effort)):
            inside = slice(int(EDGE_S * part.rate_hz), len(part.time) - int(EDGE_S * part.rate_hz))
            slow, v = (motion_of(part, cutoff)[1][inside] for cutoff in (CUTOFF_HZ, 4.0 * CUTOFF_HZ))
            lost += np.sum((v - slow) ** 2, axis=0)
            kept += np.sum(v**2, axis=0)
        shares = lost / np.maximum(kept, 1e-300)
        worst = int(np.argmax(shares))
        if shares[worst] < LOST:
            return None
        text = (
            f"{self.names[worst]}: {100.0 * shares[worst]:.0f} % of its motion (variance of the velocity) is above "
            f"{CUTOFF_HZ:g} Hz; the model is too imprecise there, and the efforts are not checked with it"
        )
        return LogFinding(kind="fast motion", joint=self.names[worst], value=float(shares[worst]), text=text)

    def _unit_of_positions(self, rows: _Rows, known: list[int]) -> LogFinding | None:
        """Radians that were taken for degrees, or degrees for radians, if the model explains all efforts better so."""
        turning = np.array([not self.samples.slides[column] for column in self._order])
        if not turning.any():
            return None
        rows = _thinned(rows)
        before = {k: _left(self._with_model(rows, k), rows.effort[:, k]) for k in known}
        widest = float(np.ptp(rows.q[:, turning], axis=0).max())
        for factor, is_possible, what in (
            (TURN, widest * TURN < MOST_RANGE, "rad and were taken for deg"),
            (1.0 / TURN, widest > MOST_RANGE, "deg and were taken for rad"),
        ):
            if not is_possible:
                continue
            scaled = self._along(rows, np.where(turning, factor, 1.0))
            after = {k: _left(self._with_model(scaled, k), rows.effort[:, k]) for k in known}
            judged = [k for k in known if min(before[k], after[k]) < 1.0 - EXPLAINED]
            ratio = sum(after[k] for k in judged) / max(sum(before[k] for k in judged), EXACT)
            if judged and max(after[k] for k in judged) < 1.0 - EXPLAINED and ratio < REVERSED:
                joints = ", ".join(name for name, turns in zip(self.names, turning, strict=True) if turns)
                text = (
                    f"{joints}: the positions are in {what}: with {factor:.3g} times these, gravity, inertia and "
                    f"friction leave {100.0 * ratio:.2g} % of what they leave now of the efforts"
                )
                return LogFinding(kind="unit of position", joint=joints, value=ratio, text=text, refuses=True)
        return None

    def _own(self, rows: _Rows, joint: int) -> Floats:
        """Basis (n, m) of one joint's effort with parameters of its own, and friction."""
        Y = rows.Y[:, joint]
        used = np.abs(Y).max(axis=0) > 1e-9 * max(float(np.abs(Y).max()), 1e-300)
        return _basis(np.concatenate([Y[:, used], _friction(rows, joint)], axis=1))

    def _exchanged(self, rows: _Rows, known: list[int]) -> Iterator[LogFinding]:
        """The pair of joints whose efforts, or all of whose channels, fit better when they are exchanged.

        The model with friction judges first; then, for a model that is far off, parameters of each joint's own judge
        the efforts. A gain of all joints by exchanged channels that is smaller, and beyond chance, is a hint.
        """
        columns = {k: self._with_model(rows, k) for k in known}
        straight = {k: _left(columns[k], rows.effort[:, k]) for k in known}
        pairs = [(i, j) for i in known for j in known if i < j]
        best: tuple[float, str, int, int] | None = None
        for i, j in pairs:
            if min(straight[i], straight[j]) < UNLIKE:
                continue
            efforts = _left(columns[i], rows.effort[:, j]), _left(columns[j], rows.effort[:, i])
            ratio = sum(efforts) / (straight[i] + straight[j])
            if max(efforts) < 1.0 - EXPLAINED and ratio < BETTER and (best is None or ratio < best[0]):
                best = ratio, "efforts", i, j
        hint: tuple[float, str, int, int] | None = None
        thinned = _thinned(rows)
        before = {k: self._left_in_blocks(thinned, k) for k in known}
        for i, j in pairs:
            other = self._along_exchanged(thinned, i, j)
            if other is None:
                continue
            after = {k: self._left_in_blocks(other, k) for k in known}
            judged = [k for k in known if min(before[k].sum(), after[k].sum()) < 1.0 - EXPLAINED]
            if max(after[i].sum(), after[j].sum()) > 1.0 - EXPLAINED:
                continue
            now, then = (np.sum([each[k] for k in judged], axis=0) for each in (before, after))
            share = float(then.sum() / now.sum())
            if not _is_lower(then, now):
                continue
            ratio = float((after[i] + after[j]).sum()) / (straight[i] + straight[j])
            if share < BETTER and (best is None or ratio < best[0]):
                best = ratio, "joints", i, j
            elif share < HINTED and (hint is None or ratio < hint[0]):
                hint = ratio, "joints", i, j
        if best is None:
            own = {k: self._own(rows, k) for k in known}
            error = {(i, j): _left(own[i], rows.effort[:, j]) for i in known for j in known}
            for i, j in pairs:
                ratio = (error[i, j] + error[j, i]) / (error[i, i] + error[j, j])
                worst = max(error[i, j], error[j, i])
                if worst < 1.0 - EXPLAINED and ratio < BETTER and (best is None or ratio < best[0]):
                    best = ratio, "efforts", i, j
        found = best or hint
        if found is None:
            return
        ratio, what, i, j = found
        both, kind = f"{self.names[i]}, {self.names[j]}", f"exchanged {what}"
        channels = "efforts" if what == "efforts" else "channels"
        are = "are" if best else "may be"
        text = f"{both}: the {channels} of these joints {are} exchanged: they fit better the other way round"
        yield LogFinding(kind=kind, joint=both, value=ratio, text=text, refuses=best is not None)

    def _along_exchanged(self, rows: _Rows, i: int, j: int) -> _Rows | None:
        """The rows if two joints change all their channels; None if the positions would be beyond the limits."""
        order = list(range(len(self.names)))
        order[i], order[j] = j, i
        if not self._within_limits(order):
            return None
        q, v, a, effort = (each[:, order] for each in (rows.q, rows.velocity, rows.acceleration, rows.effort))
        return _Rows(self.regressor(q, v, a)[:, :, self.base.columns], effort, v, a, q)

    def _left_in_blocks(self, rows: _Rows, joint: int) -> Floats:
        """Shares (BLOCKS,) of the variance of a joint's effort that the model with friction leaves in parts."""
        basis, effort = self._with_model(rows, joint), rows.effort[:, joint]
        squares = (effort - basis @ (basis.T @ effort)) ** 2
        spread = float(np.sum((effort - effort.mean()) ** 2))
        return np.array([part.sum() for part in np.array_split(squares, BLOCKS)]) / max(spread, 1e-300)

    def _reversed(self, rows: _Rows, known: list[int]) -> Iterator[LogFinding]:
        """Joints along whose reversed motion the efforts of all joints fit better by far.

        The model, scaled, and parameters of each joint's own judge, both with friction; they fit either sign of its
        efforts. One of them has to be clear, and the other to confirm it. The model then tells which efforts have the
        wrong sign. An arm and its mirror image are told apart by the number of wrong signs, then by the model.
        """
        rows = _thinned(rows)
        turned = set[int]()
        while found := list(self._better_reversed(rows, known, turned)):
            best, *others = sorted(found, key=lambda each: (each.faults, each.error))
            others = [each for each in others if each.faults == best.faults and each.error < best.error / REVERSED]
            rows = best.rows
            turned.add(best.joint)
            name = self.names[best.joint]
            channels = "positions and efforts" if best.is_whole else "positions"
            text = (
                f"{name}: its {channels} have the opposite sign: along the reversed motion, "
                f"gravity, inertia and friction leave {100.0 * best.ratio:.2g} % of what they leave now of all efforts"
            )
            if others:
                text += (
                    f", or those of {' or '.join(self.names[each.joint] for each in others)}, which fit nearly as well"
                )
            kind = "sign of joint" if best.is_whole else "sign of position"
            yield LogFinding(kind=kind, joint=name, value=best.ratio, text=text, refuses=True)

    def _better_reversed(self, rows: _Rows, known: list[int], turned: Collection[int]) -> Iterator[_Reversed]:
        """Yield the joints along whose reversed motion all efforts fit better by far; not those of `turned`."""
        bases = self._with_model, self._own
        now = [{j: _left(basis(rows, j), rows.effort[:, j]) for j in known} for basis in bases]
        for k in sorted(set(range(len(self.names))) - set(turned)):
            other, ratios, errors = self._along_reversed(rows, k), list[float](), list[float]()
            for basis, before in zip(bases, now, strict=True):
                after = {j: _left(basis(other, j), other.effort[:, j]) for j in known}
                judged = [j for j in known if min(before[j], after[j]) < 1.0 - EXPLAINED]
                if not judged or max(after[j] for j in judged) > 1.0 - EXPLAINED:
                    ratios.append(1.0)
                    break
                errors.append(sum(after[j] for j in judged))
                ratios.append((errors[-1] + EXACT) / (sum(before[j] for j in judged) + EXACT))
            if min(ratios) < REVERSED and max(ratios) < CONFIRMED:
                negative = [j for j in known if self._is_negative(other, j)]
                yield _Reversed(k, min(ratios), errors[0], 1 + len(negative), k in negative, other)

    def _is_negative(self, rows: _Rows, joint: int) -> bool:
        """Whether a joint's efforts surely have the opposite sign of the model's."""
        model = np.column_stack([rows.Y[:, joint] @ self.beta, _friction(rows, joint)[:, :3]])
        factor, sd = factor_with_sd(model, rows.effort[:, joint])
        return factor + 2.0 * sd < 0.0

    def _along_reversed(self, rows: _Rows, joint: int) -> _Rows:
        """The rows along the motion with the opposite sign of one joint; efforts are unchanged."""
        signs = np.ones(len(self.names))
        signs[joint] = -1.0
        return self._along(rows, signs)

    def _along(self, rows: _Rows, factors: Floats) -> _Rows:
        """The rows along the motion times the factors (k,) of the joints; efforts are unchanged."""
        q, v, a = (factors * each for each in (rows.q, rows.velocity, rows.acceleration))
        return replace(rows, Y=self.regressor(q, v, a)[:, :, self.base.columns], q=q, velocity=v, acceleration=a)

    def _with_model(self, rows: _Rows, joint: int) -> Floats:
        """Basis (n, m) of the model's effort in one joint, and friction."""
        return _basis(np.column_stack([rows.Y[:, joint] @ self.beta, _friction(rows, joint)]))

    def _within_limits(self, order: list[int]) -> bool:
        """Whether positions stay within the limits if joint k has the channels of joint order[k]."""
        s = self.samples
        q = s.position[:, [self._order[k] for k in order]]
        lower, upper = s.lower[self._order], s.upper[self._order]
        slack = 0.1 * np.maximum(upper - lower, 0.0)
        return bool((np.nanmin(q, axis=0) > lower - slack).all() and (np.nanmax(q, axis=0) < upper + slack).all())

    def _errors(self, rows: _Rows) -> dict[int, float]:
        """{joint: share of the variance of its effort that the model, scaled, with friction leaves}."""
        known = [k for k in range(len(self.names)) if np.isfinite(rows.effort[:, k]).all()]
        return dict.fromkeys(range(len(self.names)), 1.0) | {
            k: _left(self._with_model(rows, k), rows.effort[:, k]) for k in known
        }

    def _late(self, joints: list[int]) -> Iterator[LogFinding]:
        """Efforts that fit the motion best when they are shifted in time."""
        position, effort = self.samples.position[:, self._order], self.samples.effort[:, self._order]
        rows = self._rows(position, effort, 2.0 * CUTOFF_HZ)
        assert rows is not None
        shifted = []
        for lag in LAGS_S:
            moved = np.stack([np.interp(self.samples.time + lag, self.samples.time, column) for column in effort.T], 1)
            cut = self._cut(position, moved, 2.0 * CUTOFF_HZ)
            assert cut is not None
            shifted.append(cut[3])
        for k in joints:
            own = self._own(rows, k)
            errors = np.array([_left(own, each[:, k]) for each in shifted])
            best = int(np.argmin(errors))
            without = float(np.interp(0.0, LAGS_S, errors))
            if errors[best] > min(1.0 - EXPLAINED, SHARPER * without) or not 0 < best < len(LAGS_S) - 1:
                continue
            bend = errors[best - 1] - 2.0 * errors[best] + errors[best + 1]
            top = 0.5 * (errors[best - 1] - errors[best + 1]) / bend if bend > 0.0 else 0.0
            lag = float(LAGS_S[best] + top * (LAGS_S[1] - LAGS_S[0]))
            if abs(lag) > LATE_S:
                way = "later" if lag > 0.0 else "earlier"
                shift = f"{seconds(abs(lag))} {way} than the motion"
                text = f"{self.names[k]}: the effort is {shift}; `delay` in --params fits it"
                yield LogFinding(kind="late effort", joint=self.names[k], value=lag, text=text)

    def _factors(self, rows: _Rows, joints: list[int]) -> Iterator[LogFinding]:
        """Efforts with another sign or size than the model's gravity, in comparison with the other joints."""
        rest = np.zeros_like(rows.q)
        weight = self.regressor(rows.q, rest, rest)[:, :, self.base.columns] @ self.beta
        models = rows.Y @ self.beta
        errors = self._errors(rows)
        factors: dict[int, tuple[float, float]] = {}
        largest = float(models.std(axis=0).max())
        for k in joints:
            gravity, model, effort, name = weight[:, k], models[:, k], rows.effort[:, k], self.names[k]
            size = float(np.sqrt(np.mean(gravity**2)))
            # in a swing, inertia cancels gravity, and the efforts may be small
            is_slow = float(np.sqrt(np.mean((model - gravity) ** 2))) < SLOW * size
            has_unit = name not in self.unit_unknown
            if has_unit and is_slow and np.sqrt(np.mean(effort**2)) < UNIT * size:
                share = float(np.sqrt(np.mean(effort**2))) / size
                text = (
                    f"{name}: the efforts are {share:.2g} times what the model's weight alone needs; check their unit"
                )
                yield LogFinding(kind="unit of effort", joint=name, value=share, text=text, refuses=share < UNIT / 2.0)
                continue
            mistaken = mistaken_size(model, _friction(rows, k)[:, [0, 1, 3]], effort, largest) if has_unit else None
            if mistaken is not None:
                text = f"{name}: the efforts are {mistaken:.3g} times the model's; {TO_CHECK}"
                yield LogFinding(kind="size of effort", joint=name, value=mistaken, text=text, refuses=True)
                continue
            if model.std() < SEES * effort.std():
                continue  # such as the constant of a vertical joint
            factor, sd = factor_with_sd(np.column_stack([model, _friction(rows, k)[:, :3]]), effort)
            if has_unit and is_slow and abs(factor) + 2.0 * sd < BLIND:
                text = f"{name}: the efforts contain {factor:.2g} times the model's gravity: they do not see it"
                yield LogFinding(kind="gravity not seen", joint=name, value=factor, text=text, refuses=True)
            elif errors[k] > 1.0 - EXPLAINED:
                continue
            elif (size := _reversed_factor(gravity, model - gravity, _friction(rows, k), effort)) > BLIND:
                text = f"{name}: the efforts have the opposite sign of the model's, {size:.2g} times as large"
                yield LogFinding(kind="sign of effort", joint=name, value=-size, text=text, refuses=True)
            elif has_unit and sd < KNOWN_SD and factor > 0.0:
                factors[k] = factor, sd
        # of two joints nobody knows which one is wrong
        usual = float(np.median([factor for factor, _ in factors.values()])) if len(factors) > 2 else 1.0
        for k, (factor, sd) in factors.items():
            ratio = factor / usual if usual > 0.0 else 1.0
            if max(ratio, 1.0 / max(ratio, 1e-9)) > FACTOR and abs(factor - usual) > 2.0 * sd:
                beside = f"those of other joints {usual:.3g} times" if len(factors) > 2 else "expected 1 time"
                text = (
                    f"{self.names[k]}: the efforts are {factor:.3g} times the model's, {beside}; check "
                    "gear and motor constant"
                )
                certain = len(factors) > 2 and max(ratio, 1.0 / ratio) > CERTAIN_FACTOR
                yield LogFinding(kind="size of effort", joint=self.names[k], value=ratio, text=text, refuses=certain)

    def _zeros(self, rows: _Rows, joints: list[int]) -> Iterator[LogFinding]:
        """Positions whose zero differs from the model's, by the efforts of all joints that the model explains."""
        errors = self._errors(rows)
        judged = [k for k in joints if errors[k] < 1.0 - EXPLAINED]
        if not judged:
            return
        models = rows.Y @ self.beta
        best: tuple[float, float, int] | None = None
        for k in range(len(self.names)):
            q = rows.q.copy()
            q[:, k] += STEP
            moved = self.regressor(q, rows.velocity, rows.acceleration)[:, :, self.base.columns] @ self.beta
            gain, zero = self._zero(rows, judged, models, (moved - models) / STEP)
            if best is None or gain > best[0]:
                best = gain, zero, k
        if best is not None and best[0] > ZERO_GAIN and ZERO < abs(best[1]) < MOST_ZERO:
            name, unit = self.names[best[2]], "m" if self.samples.slides[self._order[best[2]]] else "rad"
            text = f"{name}: the efforts fit a zero that is {best[1]:+.2g} {unit} off"
            yield LogFinding(kind="zero", joint=name, value=best[1], text=text)

    @staticmethod
    def _zero(rows: _Rows, judged: list[int], models: Floats, slope: Floats) -> tuple[float, float]:
        """(relative gain of the fit, zero error) of one joint, with friction, and scales of the efforts.

        slope  (n, k) derivatives of the model's efforts `models` with respect to the joint's position
        """
        n, width = len(models), 5 * len(judged)
        columns, target = np.zeros((n * len(judged), width + 1)), np.zeros(n * len(judged))
        for place, k in enumerate(judged):
            at = slice(place * n, (place + 1) * n)
            size = float(rows.effort[:, k].std())
            columns[at, 5 * place] = models[:, k] / size
            columns[at, 5 * place + 1 : 5 * place + 5] = _friction(rows, k) / size
            columns[at, width] = -slope[:, k] / size
            target[at] = rows.effort[:, k] / size
        if not columns[:, width].any():
            return 0.0, 0.0
        without, whole = (np.linalg.lstsq(part, target, rcond=None)[0] for part in (columns[:, :width], columns))
        before, after = target - columns[:, :width] @ without, target - columns @ whole
        return 1.0 - float(after @ after / (before @ before)), float(whole[width])


def _thinned(rows: _Rows) -> _Rows:
    """At most twice FEWER_ROWS of the rows, at even distances."""
    every = max(1, len(rows.Y) // FEWER_ROWS)
    return _Rows(*(each[::every] for each in (rows.Y, rows.effort, rows.velocity, rows.acceleration, rows.q)))


def _friction(rows: _Rows, joint: int) -> Floats:
    """Columns (n, 4): viscous and Coulomb friction, offset, rotor inertia."""
    v, a = rows.velocity[:, joint], rows.acceleration[:, joint]
    scale = max(float(np.sqrt(np.mean(v * v))), 1e-9)
    return np.stack([v, np.tanh(v / (0.05 * scale)), np.ones_like(v), a], axis=1)


def _basis(columns: Floats) -> Floats:
    """Orthonormal basis (n, r) of the columns (n, m)."""
    sizes = np.linalg.norm(columns, axis=0)
    U, singular, _ = np.linalg.svd(columns[:, sizes > 0.0] / sizes[sizes > 0.0], full_matrices=False)
    return np.asarray(U[:, singular > 1e-6 * singular[0]])


def _left(basis: Floats, target: Floats) -> float:
    """Share of the variance of the target that a least-squares fit by the columns of a basis leaves."""
    left = target - basis @ (basis.T @ target)
    spread = target - target.mean()
    return float((left @ left) / max(float(spread @ spread), 1e-300))


def _reversed_factor(gravity: Floats, inertia: Floats, friction: Floats, effort: Floats) -> float:
    """Factor of the model in reversed efforts (n,), if they are those of a body by far rather than the efforts; else 0.

    A body has factors of gravity and inertia, friction, and a rotor inertia of at least 0. In a swing near resonance,
    inertia nearly cancels gravity, and a model with too large an inertia has the opposite sign of the right efforts.
    The factor is that of gravity or of inertia, of the smaller one where both show.
    """
    columns = np.column_stack([gravity, inertia, friction[:, [0, 1, 3]]])
    (_, given), (factors, turned) = (_fit_of_body(columns, sign * effort) for sign in (1.0, -1.0))
    sizes = columns[:, :2].std(axis=0)
    return float(factors[:2][sizes > SEES * sizes.max()].min()) if turned < REVERSED * given else 0.0


def _fit_of_body(columns: Floats, target: Floats) -> tuple[Floats, float]:
    """(coefficients (m,), share of the variance that is left) of a fit by an offset and coefficients of at least 0."""
    from scipy.optimize import nnls  # slow to load, seldom needed

    centered, spread = columns - columns.mean(axis=0), target - target.mean()
    sizes = np.maximum(np.linalg.norm(centered, axis=0), 1e-300)
    coefficients, left = nnls(centered / sizes, spread)
    return np.asarray(coefficients / sizes), float(left**2 / max(float(spread @ spread), 1e-300))


def _is_lower(after: Floats, before: Floats) -> bool:
    """Whether errors (n,) of parts of a log are lower beyond chance."""
    change = np.log(np.maximum(after, 1e-300)) - np.log(np.maximum(before, 1e-300))
    return bool(change.mean() < -T * change.std(ddof=1) / np.sqrt(len(change)))


def _filtered(values: Floats, cutoff_hz: float, rate_hz: float) -> Floats:
    """A low-passed column with NaN replaced by the values beside it; NaN without any value."""
    known = np.isfinite(values)
    if not known.any():
        return values
    places = np.arange(len(values))
    filled = np.interp(places, places[known], values[known])
    return np.asarray(low_pass(filled, cutoff_hz, rate_hz))

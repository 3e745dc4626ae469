"""Selection of the model errors that explain an effort residual, by linear least squares."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import msgspec
import numpy as np

from nodes.hil.alignment.streams import Floats
from nodes.hil.identification.backlash import CROSSINGS_S
from nodes.hil.identification.motion import rms

MATTERS = 0.02  # least fraction of the unexplained power that a further cause must explain
CLEAR = 30.0  # least doubled log likelihood ratio of a cause against none
APART = 10.0  # least doubled log likelihood ratio at which the motion distinguishes two causes
CERTAIN = 5.0  # least distance of a certain cause from zero, in standard deviations
ENOUGH = 0.005  # fraction of the residual's power below which no further cause is searched for
MOST_CAUSES = 8  # a real arm differs in friction and rotor inertia of every joint at once
SMALLEST_GAIN = 1e-3  # of a motor, relative to the model's, by which an effort residual is divided
LARGEST = 100.0  # relative size of a model error above which a motion does not show it
TRIED = {"backlash": len(CROSSINGS_S)}  # values of a nonlinear parameter among which a column was chosen by its fit
KINDS = {
    "mass": "mass of {of}",
    "gain": "gain of the actuator of {of}",
    "friction": "viscous friction of {of}",
    "dry_friction": "dry friction of {of}",
    "armature": "rotor inertia of {of}",
    "encoder_zero": "zero of the encoder of {of}",
    "backlash": "play in the gear of {of}",
}
UNITS = {  # of a turning and of a sliding joint; the other kinds are relative
    "friction": ("N m s/rad", "N s/m"),
    "dry_friction": ("N m", "N"),
    "armature": ("kg m2", "kg"),
    "encoder_zero": ("rad", "m"),
    "backlash": ("s", "s"),
}

Key = tuple[str, str]  # kind, body or joint


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """One model error that would explain a part of the effort residual, and its size.

    kind      "mass", "gain" (both relative), "friction" (N m s/rad), "dry_friction" (N m), "armature" (kg m2),
              "encoder_zero" (rad), or "backlash" (time in s for which the joint is free after each change of sign of
              its effort); for sliding joints N s/m, N, kg and m instead
    of        body or joint that has the error
    value     value of the real robot minus value of the model
    sigma     standard deviation of `value`, if 20 samples per second are independent
    share     RMS of the efforts that the error causes / RMS of the measured efforts, for the joint with the largest
              ratio
    explains  fraction of the residual's power, weighted by the noise of each joint, that this error alone explains
    alike     other errors that would explain the residual equally well, so that this motion does not distinguish them
    certain   whether `value` is more than CERTAIN standard deviations away from zero. If False, inexact time stamps
              alone may explain the value; errors that noise alone may explain are not reported at all
    alone     True if the error was found from the changes of sign of an effort; False if it was found from the power of
              the residual
    """

    kind: str
    of: str
    value: float
    sigma: float
    unit: str
    share: float
    explains: float
    alike: list[str] = []
    certain: bool = True
    alone: bool = False


class LeastShown(msgspec.Struct, frozen=True, kw_only=True):
    """Least size at which a model error would be found in this motion.

    kind, of  as in Hint
    size      relative deviation of a mass or gain; for friction, RMS of its efforts / RMS of the joint's measured
              efforts. None if the motion does not show the error
    """

    kind: str
    of: str
    size: float | None

    @property
    def text(self) -> str:
        """The model error and this size as text."""
        what = KINDS[self.kind].format(of=self.of)
        of = " of the efforts" if self.kind in UNITS else ""
        return what if self.size is None else f"{what} (shown from {float(f'{100.0 * self.size:.2g}'):g} %{of} on)"


class ModelErrorHypotheses(msgspec.Struct, frozen=True, kw_only=True):
    """Model errors that would explain the effort residual, the model's efforts minus the measured ones.

    residual   RMS of the residual / RMS of the measured efforts, for the joint with the largest ratio. Both RMS values
               are those of the signals low-passed at 10 Hz. For a joint without a motor, here and below, over the RMS
               of the larger of the model's terms that cancel there, gravity and inertia
    explained  fraction of the residual's power, weighted by the noise of each joint, that all `causes` together explain
    timing     power of the effort errors due to inexact time stamps, relative to the power of the residual. These
               errors were estimated from the measured velocities and are already removed from the residual. None for
               stamps in simulation time
    why_not    one line that says why no cause can be determined; "" if causes can be determined
    sampling   power of the effort errors due to the sampling alone, relative to the power of the residual. These errors
               are the effort residual of simulated states at the stamps of the measurement, and are already removed
               from the residual. None if there are no such states
    following  RMS of the part of the residual that follows the motion / RMS of the measured efforts, for the joint
               with the largest ratio; the rest is noise
    unexplained  the same of the residual that `causes` leave
    least      least sizes at which masses, gains and frictions would be found
    """

    causes: list[Hint] = []
    residual: float | None = None
    explained: float | None = None
    timing: float | None = None
    why_not: str = ""
    sampling: float | None = None
    following: float | None = None
    unexplained: float | None = None
    least: list[LeastShown] = []


class Search:
    """Forward selection of the causes of an effort residual: the cause that explains most is added first.

    What causes leave is judged in units of the measured effort: that of a joint with another gain is divided by 1 +
    gain. Otherwise gains of -1 would explain every residual, together with masses of 0.

    residual     (n, k) efforts to explain
    columns      {cause: (n, k) efforts per unit of the cause}
    weights      (k,) reciprocal noise of the efforts of each joint
    independent  number of the n k samples that count as independent
    possible     function (cause, value) that tells whether the cause can have this value; causes with impossible values
                 are excluded
    sliding      joints whose positions are in metres
    removed      effort errors (n, k) that were already removed from `residual` because they do not come from the robot,
                 one array for each source of errors; None for a source that does not apply. They make the causes less
                 certain
    """

    def __init__(
        self,
        residual: Floats,
        columns: dict[Key, Floats],
        weights: Floats,
        independent: float,
        possible: Callable[[Key, float], bool],
        sliding: Collection[str] = (),
        removed: Sequence[Floats | None] = (),
    ) -> None:
        self._possible, self._sliding = possible, sliding
        self._residual = (residual * weights).ravel()
        self._power = float(self._residual @ self._residual)
        self._removed = [None if each is None else (each * weights).ravel() for each in removed]
        self._plain, self._weights = columns, weights
        weighted = {key: (each * weights).ravel() for key, each in columns.items()}
        self._columns = {key: each for key, each in weighted.items() if float(each @ each) > 1e-24 * self._power}
        self._driven = {key: int(np.argmax(rms(each))) for key, each in columns.items() if key[0] == "gain"}
        self._independent = max(independent, 2.0)

    def causes(self, sizes: Floats) -> tuple[list[Hint], float]:
        """Return (selected causes, fraction of the residual's power that they explain together).

        sizes  (k,) RMS of the measured efforts of each joint
        """
        chosen: list[Key] = []
        alike: dict[Key, list[str]] = {}
        left = 1.0  # fraction of the power that is unexplained
        while len(chosen) < MOST_CAUSES and left > ENOUGH:
            tried = [[*chosen, key] for key in self._columns if key not in chosen]
            rest = {keys[-1]: self._unexplained(keys) for keys in tried if self._can_be(keys)}
            best = min(rest, key=lambda key: rest[key], default=None)
            if best is None or left - rest[best] < MATTERS * left:
                break
            if self._evidence(left, rest[best]) < CLEAR + 2.0 * math.log(TRIED.get(best[0], 1)):
                break
            near = [key for key in rest if key != best and self._evidence(rest[key], rest[best]) < APART]
            alike[best] = [KINDS[kind].format(of=of) for kind, of in near]
            chosen.append(best)
            left = rest[best]
        return self._fitted(chosen, alike, sizes) if chosen else [], 1.0 - left

    def least(self, sizes: Floats, left: float, quiet: float) -> list[LeastShown]:
        """Least sizes at which masses, gains and frictions would be found.

        sizes  (k,) RMS of the measured efforts of each joint
        left   fraction of the residual's power that the found causes leave
        quiet  fraction of `sizes` below which no residual is examined
        """
        floor = float(((quiet * sizes * self._weights) ** 2).sum()) * len(self._residual) / len(sizes)
        unknown = max(left * self._power, floor)
        share = max(MATTERS, 1.0 - math.exp(-CLEAR / self._independent))
        found = []
        for (kind, of), column in self._plain.items():
            if kind not in ("mass", "gain", "friction"):
                continue
            unit = 1.0 if kind not in UNITS else float((rms(column) / sizes).max())
            weighted = self._columns.get((kind, of))
            power = 0.0 if weighted is None else float(weighted @ weighted)
            size = unit * math.sqrt(share * unknown / power) if power > 0.0 else math.inf
            found.append(LeastShown(kind=kind, of=of, size=size if size < LARGEST else None))
        return found

    @property
    def shares(self) -> tuple[float | None, ...]:
        """Power of each array of `removed`, relative to the power of the residual; None where the array is None."""
        return tuple(None if each is None else self._share(each) for each in self._removed)

    def _share(self, removed: Floats) -> float | None:
        return float(removed @ removed) / self._power if self._power > 0.0 else None

    def _evidence(self, worse: float, better: float) -> float:
        """Twice the log likelihood ratio of two fits; positive if the fit `better` leaves less unexplained.

        worse, better  fractions of the residual's power that the two fits leave unexplained
        """
        return self._independent * math.log(max(worse, 1e-300) / max(better, 1e-300))

    def _fit(self, keys: list[Key]) -> tuple[Floats, Floats]:
        """Return (fitted values of the causes `keys`, residual that they leave unexplained)."""
        A = np.stack([self._columns[key] for key in keys], axis=1)
        sizes = np.sqrt((A * A).sum(axis=0))
        values, *_ = np.linalg.lstsq(A / sizes, self._residual, rcond=None)
        return values / sizes, self._residual - A @ (values / sizes)

    def _can_be(self, keys: list[Key]) -> bool:
        return all(self._possible(key, value) for key, value in zip(keys, self._fit(keys)[0].tolist(), strict=True))

    def _unexplained(self, keys: list[Key]) -> float:
        """Fraction of the residual's power that the causes `keys` leave unexplained."""
        values, left = self._fit(keys)
        squares = np.sum(left.reshape(-1, len(self._weights)) ** 2, axis=0)
        for key, value in zip(keys, values.tolist(), strict=True):
            if key in self._driven:
                squares[self._driven[key]] /= max((1.0 + value) ** 2, SMALLEST_GAIN**2)
        return float(squares.sum()) / self._power

    def _fitted(self, keys: list[Key], alike: dict[Key, list[str]], sizes: Floats) -> list[Hint]:
        """Hints for the causes `keys`, with least-squares estimates of their values.

        A cause is left out if noise may explain its value.

        alike  {cause: texts of other causes that would explain the residual equally well}
        sizes  (k,) RMS of the measured efforts of each joint
        """
        A = np.stack([self._columns[key] for key in keys], axis=1)
        values, sigmas = self._estimates(A, self._residual)
        totals = sigmas
        for removed in self._removed:
            if removed is not None:
                totals = np.hypot(totals, np.hypot(*self._estimates(A, removed)))
        return [
            Hint(
                kind=kind,
                of=of,
                value=float(value),
                sigma=float(total),
                unit=UNITS[kind][of in self._sliding] if kind in UNITS else "relative",
                share=float((abs(value) * rms(self._plain[kind, of]) / sizes).max()),
                explains=1.0 - self._unexplained([(kind, of)]),
                alike=alike[kind, of],
                certain=bool(abs(value) > CERTAIN * total),
            )
            for (kind, of), value, sigma, total in zip(keys, values, sigmas, totals, strict=True)
            if abs(value) > CERTAIN * sigma
        ]

    def _estimates(self, A: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Return (least-squares solution x of A x = b, standard deviations of x from the remaining residual)."""
        values, *_ = np.linalg.lstsq(A, b, rcond=None)
        left = b - A @ values
        spread = float(left @ left) / self._independent
        sigmas: Floats = np.sqrt(np.maximum(np.diag(np.linalg.pinv(A.T @ A)) * spread, 0.0))
        return np.asarray(values, dtype=float), sigmas

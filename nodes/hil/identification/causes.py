"""Causes that a residual of efforts may have, and the choice of those that explain it, by linear least squares."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from nodes.hil.alignment.streams import Floats
from nodes.hil.identification.motion import rms

MATTERS = 0.02  # share of the power still unexplained that a cause must explain to be named
CLEAR = 30.0  # twice the logarithm of the likelihood ratio from which a cause is better than none
APART = 10.0  # twice the logarithm of the likelihood ratio from which the motion tells two causes apart
CERTAIN = 5.0  # standard deviations that a cause must be away from none
ENOUGH = 0.02  # share of the residual's power that may stay unexplained before another cause is looked for
MOST_CAUSES = 3
KINDS = {
    "mass": ("relative", "mass of {of}"),
    "gain": ("relative", "gain of the actuator of {of}"),
    "friction": ("N m s/rad", "viscous friction of {of}"),
    "dry_friction": ("N m", "dry friction of {of}"),
    "encoder_zero": ("rad", "zero of the encoder of {of}"),
    "backlash": ("s", "play in the gear of {of}"),
}

Key = tuple[str, str]  # kind, body or joint


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """One cause and how much of it there is.

    kind      "mass", "gain" (relative), "friction" (N m s/rad), "dry_friction" (N m), "encoder_zero" (rad); per m for
              sliding joints; or "backlash" (s in which the joint is free after each change of sign of its effort)
    of        the body or joint
    value     of the real robot less the model's; `sigma` its standard deviation, 20 independent samples a second
    certain   it is CERTAIN times its sigma away from none; only the uncertainty of the stamps' time makes it less
    share     rms of the efforts that it makes up / rms of the measured efforts, in the joint where that is largest
    explains  share of the residual's power, each joint's against its noise, this cause alone
    alike     other causes that explain it as well: this motion does not tell them apart
    alone     it was found by itself, around the changes of sign of an effort, and not by the residual's power
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


class ModelErrorHypotheses(msgspec.Struct, frozen=True, kw_only=True):
    """What would explain the effort residual.

    residual   rms of the residual / rms of the measured efforts below 10 Hz, in the joint where that is largest
    explained  share of the residual's power that `causes` explain together, each joint's against its noise
    timing     power of what the time of the stamps put into the efforts, as measured rates tell, and was taken out of
               the residual, as a share of what is left of its power; None where stamps are simulation time itself
    why_not    one line where no hint can be had, else ""
    """

    causes: list[Hint] = []
    residual: float | None = None
    explained: float | None = None
    timing: float | None = None
    why_not: str = ""


class Search:
    """Forward selection of causes.

    residual     (n, k) what is to be explained
    columns      {cause: (n, k)}
    weights      (k,) one over the noise of each joint's efforts
    independent  how many of the n k samples count as independent
    possible     whether a cause can have this value; one that cannot is none
    timing       (n, k) what the time of the stamps may still have put into the residual
    """

    def __init__(
        self,
        residual: Floats,
        columns: dict[Key, Floats],
        weights: Floats,
        independent: float,
        possible: Callable[[Key, float], bool],
        timing: Floats | None = None,
    ) -> None:
        self._possible = possible
        self._residual = (residual * weights).ravel()
        self._power = float(self._residual @ self._residual)
        self._timing = None if timing is None else (timing * weights).ravel()
        self._plain = columns
        weighted = {key: (each * weights).ravel() for key, each in columns.items()}
        self._columns = {key: each for key, each in weighted.items() if float(each @ each) > 1e-24 * self._power}
        self._independent = max(independent, 2.0)

    def causes(self, sizes: Floats) -> tuple[list[Hint], float]:
        """The causes, and the share of the residual's power they explain together; `sizes` (k,) of the efforts."""
        chosen: list[Key] = []
        alike: dict[Key, list[str]] = {}
        left = 1.0  # share of the power
        while len(chosen) < MOST_CAUSES and left > ENOUGH:
            tried = [[*chosen, key] for key in self._columns if key not in chosen]
            rest = {keys[-1]: self._left(keys) for keys in tried if self._can_be(keys)}
            best = min(rest, key=lambda key: rest[key], default=None)
            if best is None or left - rest[best] < MATTERS * left or self._evidence(left, rest[best]) < CLEAR:
                break
            near = [key for key in rest if key != best and self._evidence(rest[key], rest[best]) < APART]
            alike[best] = [KINDS[kind][1].format(of=of) for kind, of in near]
            chosen.append(best)
            left = rest[best]
        return self._fitted(chosen, alike, sizes) if chosen else [], 1.0 - left

    @property
    def timing(self) -> float | None:
        """See Hints."""
        if self._timing is None or self._power == 0.0:
            return None
        return float(self._timing @ self._timing) / self._power

    def _evidence(self, worse: float, better: float) -> float:
        """Twice the logarithm of the likelihood ratio of two fits that leave these shares of the power."""
        return self._independent * math.log(max(worse, 1e-300) / max(better, 1e-300))

    def _fit(self, keys: list[Key]) -> tuple[Floats, Floats]:
        """Values of these causes, and what they leave of the residual."""
        A = np.stack([self._columns[key] for key in keys], axis=1)
        sizes = np.sqrt((A * A).sum(axis=0))
        values, *_ = np.linalg.lstsq(A / sizes, self._residual, rcond=None)
        return values / sizes, self._residual - A @ (values / sizes)

    def _can_be(self, keys: list[Key]) -> bool:
        return all(self._possible(key, value) for key, value in zip(keys, self._fit(keys)[0].tolist(), strict=True))

    def _left(self, keys: list[Key]) -> float:
        """Share of the power that these causes leave unexplained."""
        left = self._fit(keys)[1]
        return float(left @ left) / self._power

    def _fitted(self, keys: list[Key], alike: dict[Key, list[str]], sizes: Floats) -> list[Hint]:
        """What is not certain by the noise alone is left out."""
        A = np.stack([self._columns[key] for key in keys], axis=1)
        values, sigmas = self._estimates(A, self._residual)
        doubts = np.zeros(len(keys)) if self._timing is None else np.hypot(*self._estimates(A, self._timing))
        totals = np.hypot(sigmas, doubts)
        return [
            Hint(
                kind=kind,
                of=of,
                value=float(value),
                sigma=float(total),
                unit=KINDS[kind][0],
                share=float((abs(value) * rms(self._plain[kind, of]) / sizes).max()),
                explains=1.0 - self._left([(kind, of)]),
                alike=alike[kind, of],
                certain=bool(abs(value) > CERTAIN * total),
            )
            for (kind, of), value, sigma, total in zip(keys, values, sigmas, totals, strict=True)
            if abs(value) > CERTAIN * sigma
        ]

    def _estimates(self, A: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Least-squares x of A x = b, and its standard deviations by what is left."""
        values, *_ = np.linalg.lstsq(A, b, rcond=None)
        left = b - A @ values
        spread = float(left @ left) / self._independent
        sigmas: Floats = np.sqrt(np.maximum(np.diag(np.linalg.pinv(A.T @ A)) * spread, 0.0))
        return np.asarray(values, dtype=float), sigmas

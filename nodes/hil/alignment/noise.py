"""White noise of a channel."""

from __future__ import annotations

import math

import numpy as np

from nodes.hil.alignment.streams import Floats

ORDERS = (2, 3, 4)  # orders of the differences between successive samples


def white_noise(values: Floats) -> float:
    """Standard deviation of the white noise in samples (n,) of a smooth quantity, in the unit of the samples.

    The mean square of the r-th differences of white noise is (2r)! / (r!)^2 times its variance, for every r. Vibrations
    and jumps contribute less to some order than white noise does, so the least of the estimates is taken.
    """
    if len(values) <= max(ORDERS):
        return 0.0
    powers = [float(np.mean(np.diff(values, order) ** 2)) / math.comb(2 * order, order) for order in ORDERS]
    return math.sqrt(min(powers))

"""Layout of the arrays of a loop that integrates many systems at once."""

from __future__ import annotations

from dataclasses import dataclass

SYMBOL = "ranges"  # of the compiled loop
ANGLES = ((0, 1, 2), (1, 2), (2, 0), (0, 1))  # of x, y, z in a quaternion: for its angle, and for the tilts of the axes


@dataclass(frozen=True)
class Orientation:
    """Indices of the numbers of a spherical or free joint.

    rotation    index in q of the first of its three rotation coordinates
    quaternion  index in p of the first number of its quaternion
    """

    rotation: int
    quaternion: int


@dataclass(frozen=True)
class Layout:
    """Names of the rows of a block in their order, and how many rows have each name.

    A block is the array (groups, rows, lanes) of a loop that integrates many systems at once: entry [i, j, k] is number
    j of the system in lane k of group i. u and command are adjacent, and so are q, v and p unless `ranged`, because
    `state_loop` copies each of these as one part. The names are:

    taken            unless `ranged`, the number of steps that the system has taken: its time is taken * step_s
    q, v             current state; at the end of the run, the last state
    low, high        if `ranged`, as for `before` and `slope`: smallest and largest value in the run of each entry of q,
                     then of v, then of the quaternions of spherical and free joints. The rotation coordinates of these
                     joints, which are 0 at every step, are left out of q. If `relative`, the quaternions describe the
                     rotations from `reference`, and four further values per joint follow: the squared sines of half the
                     angle of the rotation, and of half the angles by which the rotation tilts the axes x, y, z
    before, slope    values at the previous step of the quantities of `low`, and time derivatives of these values
    p, gains         parameters, and gains of the stabilizer; `gains` has no rows without a stabilizer. Only the
                     quaternions in p change
    target           target of each servo at the previous step
    u, command       actuator inputs, and the constant command to each servo
    reference        if `relative`, a constant unit quaternion for each spherical and free joint
    """

    n_q: int
    n_u: int
    n_p: int
    n_gains: int = 0
    n_servos: int = 0
    orientations: tuple[Orientation, ...] = ()
    relative: bool = False
    ranged: bool = True

    @property
    def positions(self) -> list[int]:
        """Indices in q of the coordinates whose range is recorded."""
        turning = {joint.rotation + k for joint in self.orientations for k in range(3)}
        return [index for index in range(self.n_q) if index not in turning]

    @property
    def quaternions(self) -> list[int]:
        """Indices in p of the quaternions of spherical and free joints."""
        return [joint.quaternion + k for joint in self.orientations for k in range(4)]

    @property
    def sizes(self) -> dict[str, int]:
        """{name of rows, such as "q": number of rows with this name}, in the order of the rows."""
        n, ranged = self.n_q, len(self.positions) + self.n_q + len(self.quaternions)
        ranged += 4 * len(self.orientations) if self.relative else 0
        state = {"q": n, "v": n} if self.ranged else {"taken": 1, "q": n, "v": n}
        if self.ranged:
            state |= {"low": ranged, "high": ranged, "before": ranged, "slope": ranged}
        given = {"p": self.n_p, "gains": self.n_gains, "target": self.n_servos, "u": self.n_u, "command": self.n_servos}
        return state | given | ({"reference": len(self.quaternions)} if self.relative else {})

    @property
    def rows(self) -> int:
        """Number of rows of a block, which is how many numbers it contains per system."""
        return sum(self.sizes.values())

    def place(self, name: str) -> slice:
        """Slice of the rows with this name, such as "q" or "gains"."""
        begin = 0
        for other, size in self.sizes.items():
            if other == name:
                return slice(begin, begin + size)
            begin += size
        raise KeyError(name)

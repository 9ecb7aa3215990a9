"""How much work a search may do: decided by the minutes beforehand, so that the same call does the same work."""

from __future__ import annotations

import time

RATE = 50.0
"""Giga multiply-adds a second that two cores do at least (86 for a ViT-Ti and 110 for a ViT-B where it was measured). A
faster machine is done earlier; on a slower one the clock ends the search, which then says so."""


class OutOfTimeError(Exception):
    """The work or the time that was allowed is used up."""


class Allowance:
    """Counts work against minutes.

    Args:
        minutes: That the whole may take.
        late: Seconds of them that are over already.

    Example:
        >>> allowance = Allowance(minutes=1)
        >>> allowance.spend(100.0)
        >>> round(allowance.share, 3)
        0.033
    """

    def __init__(self, minutes: float, late: float = 0.0) -> None:
        self._seconds, self._started = minutes * 60, time.monotonic() - late
        self.total = self._seconds * RATE
        self.used = self.reserved = 0.0
        self.stopped_by_clock = False

    @property
    def share(self) -> float:
        """Part of the work that is done, of what is not reserved."""
        return self.used / max(self.total - self.reserved, 1e-9)

    @property
    def pace(self) -> float:
        """Work that the machine does in a second, as a share of what was expected of it; 1 where it kept up."""
        expected = (time.monotonic() - self._started) * RATE
        return min(1.0, self.used / expected) if self.stopped_by_clock else 1.0

    def reserve(self, gmacs: float) -> None:
        """Keep some work, and the time for it, for later."""
        self.reserved = gmacs

    def spend(self, gmacs: float, *, known: bool = False) -> None:
        """Take some work from what is left and not reserved.

        Args:
            gmacs: The work.
            known: Whether it was done by an earlier run: it counts, so that a run that goes on ends where it would have
                ended, but takes no time.

        Raises:
            OutOfTimeError: There is not that much left, or the time is over.
        """
        if not known and time.monotonic() > self._started + self._seconds * (1 - self.reserved / self.total):
            self.stopped_by_clock = True
            raise OutOfTimeError
        if self.used + gmacs > self.total - self.reserved:
            raise OutOfTimeError
        self.used += gmacs

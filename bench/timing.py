"""Alternating measurement, its spread, and the verdict. Torch-free."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "Comparison",
    "Verdict",
    "alternate",
    "judge",
    "one_sided_spread",
    "runs_in_a_row",
    "worst",
]

Timed = Callable[[], float]


class Verdict(str, Enum):
    """What a measurement says about a bar."""

    PASSED = "passed"
    MISSED = "missed"
    UNDECIDED = "undecided"
    NONE = ""  # no bar


@dataclass(frozen=True)
class Comparison:
    """Seconds of both sides, one number a repeat, in the order they were taken."""

    baseline: Sequence[float]
    ours: Sequence[float]

    @property
    def ratio(self) -> float:
        """The baseline's least time / our least time."""
        return min(self.baseline) / min(self.ours)

    @property
    def spread(self) -> float:
        """How far the ratio can be trusted, relative to it: the sum of both sides' spreads."""
        return one_sided_spread(self.baseline) + one_sided_spread(self.ours)


def one_sided_spread(times: Sequence[float]) -> float:
    """From the least time up to the lower quartile, relative: what the least one might have been.

    The upper half is left out: it tells of other programs on the machine.
    """
    ordered = sorted(times)
    return ordered[math.ceil((len(ordered) - 1) / 4)] / ordered[0] - 1


def judge(ratio: float, spread: float, bar: float | None) -> Verdict:
    """Undecided if the bar lies within the spread around the ratio."""
    if bar is None:
        return Verdict.NONE
    if ratio * (1 - spread) >= bar:
        return Verdict.PASSED
    return Verdict.MISSED if ratio * (1 + spread) < bar else Verdict.UNDECIDED


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict for several demands; those without a bar do not count."""
    order = [Verdict.MISSED, Verdict.UNDECIDED, Verdict.PASSED, Verdict.NONE]
    return min(verdicts, key=order.index, default=Verdict.NONE)


def alternate(sides: Sequence[Timed], repeats: int) -> list[list[float]]:
    """Every side once, then all of them again, so that a slow minute hits all alike."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, taken in zip(sides, times, strict=True):
            taken.append(side())
    return times


def runs_in_a_row(seconds: float, least: float) -> int:
    """How often to run for one reading, so that it takes at least so many seconds."""
    return max(1, min(200, math.ceil(least / max(seconds, 1e-9))))

"""Runs one case on both sides: same results first, then the times."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from bench.cases import Case
from bench.timing import Comparison, alternate, runs_in_a_row
from bench.worker import LocalWorker, Worker

__all__ = ["Measured", "RefusedError", "Sides", "compare", "largest_difference"]

# Largest difference relative to the largest value; both sides round, each in its own order.
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}


OURS = "headwise"  # the name of the only form of our side


class RefusedError(Exception):
    """A side cannot do the case."""


class Sides(NamedTuple):
    """Who computes; `own` is a second headwise, for rows that compare headwise with itself."""

    baseline: Worker
    ours: LocalWorker
    own: LocalWorker


@dataclass(frozen=True)
class Measured:
    """What came out of a case at a number of threads."""

    case: Case
    threads: int
    baseline_form: str
    difference: float
    times: Comparison
    visible_pairs: int  # of a query and a key, over batch and heads

    @property
    def agree(self) -> bool:
        """Whether both sides computed the same."""
        return self.difference <= TOLERANCE[self.case.dtype]

    @property
    def flops(self) -> int:
        """Useful operations: two products forward, five backward, over the visible pairs."""
        products = 7 if self.case.backward else 2
        return products * 2 * self.case.width * self.visible_pairs

    @property
    def bytes_read(self) -> int:
        """Size of keys and values, which decoding must read once."""
        case = self.case
        size = 4 if case.dtype == "float32" else 2
        return 2 * case.batch * case.groups * case.length * case.width * size


def largest_difference(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """Over all results: largest difference relative to the largest value."""
    if [len(x) for x in ours] != [len(x) for x in theirs]:
        return math.inf
    differences = [_relative(x, y) for x, y in zip(ours, theirs, strict=True)]
    return max(differences, default=math.inf)


def _relative(ours: list[float], theirs: list[float]) -> float:
    differences = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    if any(math.isnan(x) for x in differences):
        return math.inf
    difference = max(differences, default=0.0)
    return difference / max(map(abs, theirs)) if difference and any(theirs) else difference


def compare(case: Case, sides: Sides, threads: int, repeats: int, least_seconds: float) -> Measured:
    """Check that both sides compute the same, choose the baseline's best form, time both.

    Args:
        case: what to compute.
        sides: who computes.
        threads: of torch, on both sides.
        repeats: readings a side.
        least_seconds: a reading takes at least this long, by running several times.

    Raises:
        RefusedError: a side cannot do it; the text says which and why.
    """
    pair = _Pair(case, sides, threads)
    forms = pair.prepare(dropout=0.0)
    difference = pair.difference(forms)
    if case.dropout:
        pair.prepare(dropout=case.dropout)
    tries = alternate([partial(pair.baseline.time, form, 1) for form in forms], 2)
    best = [min(times) for times in tries]
    form, expected = forms[best.index(min(best))], min(best)
    ours_expected = min(pair.ours.time(OURS, 1) for _ in range(2))
    readings = alternate(
        [
            partial(pair.baseline.time, form, runs_in_a_row(expected, least_seconds)),
            partial(pair.ours.time, OURS, runs_in_a_row(ours_expected, least_seconds)),
        ],
        repeats,
    )
    return Measured(case, threads, form, difference, Comparison(*readings), pair.visible_pairs)


class _Pair:
    """Both sides of one case; what a side cannot do becomes RefusedError."""

    def __init__(self, case: Case, sides: Sides, threads: int) -> None:
        own = case.against.startswith("headwise")
        self.ours = sides.ours
        self.baseline: Worker = sides.own if own else sides.baseline
        self._name = "headwise" if own else "SDPA"
        self._case = case
        self._baseline_case = replace(case, dtype=case.against.split()[1]) if own else case
        self._own, self._threads = own, threads

    def prepare(self, dropout: float) -> list[str]:
        """Prepares both; the baseline's forms."""
        ours = self.ours.prepare(replace(self._case, dropout=dropout), self._threads)
        theirs = self.baseline.prepare(replace(self._baseline_case, dropout=dropout), self._threads)
        self.visible_pairs = ours.visible_pairs
        if not self._own and not _close(ours.fingerprint, theirs.fingerprint):
            raise RefusedError("the two sides drew different inputs from the same seed")
        return theirs.forms

    def difference(self, forms: list[str]) -> float:
        """Of headwise's results from those of every form of the baseline, the largest."""
        ours = _ask("headwise", partial(self.ours.digest, OURS))
        return max(
            largest_difference(ours, _ask(self._name, partial(self.baseline.digest, form)))
            for form in forms
        )


def _close(ours: list[float], theirs: list[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(ours, theirs, strict=True))


def _ask(name: str, digest: Callable[[], list[list[float]]]) -> list[list[float]]:
    try:
        return digest()
    except (RuntimeError, ValueError, TypeError) as error:
        text = str(error).strip() or type(error).__name__
        raise RefusedError(
            f"not supported by this build of {name}: {text.splitlines()[0]}"
        ) from error

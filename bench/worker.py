"""One side of a comparison: prepares a case, tells its results, times its forms."""

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch

from bench.cases import Case
from bench.inputs import Inputs, digest
from bench.work import Work

__all__ = ["CLOCKS", "LocalWorker", "Prepared", "Worker"]


class Prepared(NamedTuple):
    """What a side says after preparing: names of its forms, and what it will work on."""

    forms: list[str]
    fingerprint: list[float]
    visible_pairs: int


class Worker(Protocol):
    """A side, in this process or in another."""

    def prepare(self, case: Case, threads: int) -> Prepared:
        """Make the inputs and the forms; the previous case is forgotten."""

    def digest(self, form: str) -> list[list[float]]:
        """Run once and return samples of output and gradients."""

    def time(self, form: str, runs: int) -> float:
        """Seconds one run takes, mean of `runs` in a row."""


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class LocalWorker:
    """A side in this process."""

    def __init__(
        self, variants: Callable[[Case, Inputs], dict[str, Work]], clock: str = "wall"
    ) -> None:
        self._variants = variants
        self._now = CLOCKS[clock]
        self._works: dict[str, Work] = {}

    def prepare(self, case: Case, threads: int) -> Prepared:
        """Make the inputs and the forms; the previous case is forgotten."""
        self._works = {}
        torch.set_num_threads(threads)
        inputs = Inputs(case)
        self._works = self._variants(case, inputs)
        return Prepared(list(self._works), inputs.fingerprint(), inputs.visible_pairs())

    def digest(self, form: str) -> list[list[float]]:
        """Run once and return samples of output and gradients."""
        return digest(self._works[form].results())

    def time(self, form: str, runs: int) -> float:
        """Seconds one run takes, mean of `runs` in a row."""
        run = self._works[form].run
        begin = self._now()
        for _ in range(runs):
            run()
        return (self._now() - begin) / runs

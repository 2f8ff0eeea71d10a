"""`scripts/bench loss`: headwise.linear_cross_entropy beside torch's loss on whole scores."""

import argparse
import datetime
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import headwise
import torch
import torch.nn.functional as F
from torch import Tensor

from bench.machine import processor
from bench.memory import peak_of
from bench.timing import Comparison, Timed, alternate, judge
from bench.worker import CLOCKS

__all__ = ["CASES", "LossCase", "gradients_of", "run"]


@dataclass(frozen=True)
class LossCase:
    """hidden (rows, width), weight (classes, width), forward and backward."""

    name: str
    rows: int
    width: int
    classes: int
    smoothing: float
    dtype: str = "float32"
    products: bool = False  # ours rounds the factors of products to bfloat16, as a trainer may
    bar: float | None = None
    goal: float | None = None


CASES = [
    LossCase("3700 x 128 x 10000, smoothing", 3700, 128, 10000, 0.1, bar=2.8, goal=3.5),
    LossCase(
        "3700 x 128 x 10000, smoothing, products",
        3700,
        128,
        10000,
        0.1,
        products=True,
        bar=2.8,
        goal=3.5,
    ),
    LossCase("3700 x 128 x 10000", 3700, 128, 10000, 0.0),
    LossCase("3700 x 512 x 32000, smoothing", 3700, 512, 32000, 0.1),
    LossCase("900 x 256 x 4000, smoothing", 900, 256, 4000, 0.1),
    LossCase("3700 x 128 x 10000, smoothing, bf16", 3700, 128, 10000, 0.1, "bfloat16"),
]
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def gradients_of(loss: Loss, case: LossCase, seed: int = 1) -> Callable[[], list[Tensor]]:
    """A run: the loss, then the gradients of hidden and weight."""
    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, case.dtype)
    scale = case.width**-0.5
    hidden, weight = (
        torch.randn(n, case.width, generator=generator).to(dtype).requires_grad_()
        for n in (case.rows, case.classes)
    )
    with torch.no_grad():
        weight *= scale
    labels = torch.randint(case.classes, (case.rows,), generator=generator)

    def run() -> list[Tensor]:
        value = loss(hidden, weight, labels)
        return [value, *torch.autograd.grad(value, [hidden, weight])]

    return run


def ours(case: LossCase) -> Loss:
    """The call a user would write."""
    return lambda hidden, weight, labels: headwise.linear_cross_entropy(
        hidden,
        weight,
        labels,
        label_smoothing=case.smoothing,
        bfloat16_products=case.products,
    )


def eager(case: LossCase) -> Loss:
    """torch, all scores at once."""
    return lambda hidden, weight, labels: F.cross_entropy(
        F.linear(hidden, weight), labels, label_smoothing=case.smoothing
    )


def run(options: argparse.Namespace) -> int:
    """Returns the exit code: 1 if results differ, 2 for a case that is not there."""
    cases = [case for case in CASES if options.case in case.name]
    if not cases:
        print(f"scripts/bench: no case has {options.case!r} in its name", file=sys.stderr)
        return 2
    about = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "processor": processor(),
        "torch": str(torch.__version__),
        "baseline_instruction_set": torch.backends.cpu.get_cpu_capability(),
        "target": options.target,
        "allocator": options.allocator,
    }
    print("; ".join(f"{name} {value}" for name, value in about.items() if value))
    print(
        f"\n{'case':41}{'threads':>8}{'eager ms':>10}{'headwise ms':>13}{'ratio':>7}{'spread':>8}"
        f"{'bar':>5}{'goal':>5}  {'verdict':11}{'GFLOP/s':>8}{'eager MiB':>11}{'headwise MiB':>14}"
    )
    rows = [_row(case, threads, options) for case in cases for threads in options.threads]
    if options.json:
        options.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    return int(any(not row["agree"] for row in rows))


def _row(case: LossCase, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(threads)
    baseline, own = (gradients_of(loss(case), case) for loss in (eager, ours))
    difference = _difference(own(), baseline())
    exact = case.dtype == "float32" and not case.products
    agree = difference < (1e-4 if exact else 2e-2)
    memory = [peak_of(side, threads).c10 for side in (baseline, own)]
    torch.set_num_threads(threads)
    now = CLOCKS[options.clock]
    times = Comparison(*alternate([_timed(baseline, now), _timed(own, now)], options.repeats))
    verdict = judge(times.ratio, times.spread, case.bar if threads == 1 else None)
    speed = 6 * case.rows * case.width * case.classes / min(times.ours) / 1e9
    print(
        f"{case.name:41}{threads:8}{min(times.baseline) * 1e3:10.1f}{min(times.ours) * 1e3:13.1f}"
        f"{times.ratio:7.2f}{times.spread:8.1%}{case.bar or '-':>5}{case.goal or '-':>5}  "
        f"{verdict.value if agree else 'results differ':11}{speed:8.0f}"
        f"{memory[0] / 2**20:11.1f}{memory[1] / 2**20:14.1f}",
        flush=True,
    )
    return {
        **asdict(case),
        "threads": threads,
        "agree": agree,
        "difference": difference,
        "ratio": times.ratio,
        "spread": times.spread,
        "verdict": verdict.value,
        "gflop_per_s": speed,
        "peak_bytes": {"eager": memory[0], "headwise": memory[1]},
        "readings": {"eager": list(times.baseline), "headwise": list(times.ours)},
    }


def _timed(side: Callable[[], list[Tensor]], now: Callable[[], float]) -> Timed:
    def reading() -> float:
        begin = now()
        side()
        return now() - begin

    return reading


def _difference(results: list[Tensor], expected: list[Tensor]) -> float:
    """The largest over all results, relative to the largest number of each."""
    return max(
        ((a.double() - b.double()).abs().max() / b.double().abs().max()).item()
        for a, b in zip(results, expected, strict=True)
    )

"""`scripts/bench attention --memory`: a long sequence with dropout and a broadcast mask."""

from dataclasses import replace
from typing import Any

from bench import ours, sdpa
from bench.cases import Case
from bench.inputs import Inputs
from bench.machine import free_memory
from bench.memory import Peak, peak_of
from bench.timing import Verdict

__all__ = ["run"]

BAR = 64 << 20  # bytes
SHORTER = 8  # SDPA with dropout holds T x T: measured at T / 8, too
ROOM = 0.7  # share of the free memory a run may be expected to take


def run(length: int, threads: int) -> list[dict[str, Any]]:
    """Print the table; its rows as plain values."""
    case = Case("", 1, 8, length, 64, backward=True, mask="hide", dropout=0.1)
    shorter = replace(case, length=max(1, length // SHORTER))
    print(
        "\nPeak MiB beyond inputs, output and gradients: B1 H8 D64, forward and backward, bool\n"
        "mask (1, 1, T, T). c10: torch's allocator, at one thread. process: resident memory, at\n"
        f"{threads} thread{'s' if threads > 1 else ''}."
    )
    print(f"{'who':10}{'T':>8}{'dropout':>9}{'c10':>10}{'process':>10}  verdict")
    rows = [_row("headwise", x, threads) for x in (shorter, case)]
    small = _row("SDPA", shorter, threads)
    rows.append(small)
    needed = max(small["c10_bytes"], small["process_bytes"] or 0) * (length / shorter.length) ** 2
    if needed < ROOM * free_memory():
        rows.append(_row("SDPA", case, threads))
    else:
        print(
            f"{'SDPA':10}{length:>8}{0.1:>9} not run: growing with T x T it would take about "
            f"{needed / 2**30:.0f} GiB"
        )
    rows.append(_row("headwise", replace(case, dropout=0.0), threads))
    rows.append(_row("SDPA", replace(case, dropout=0.0), threads))
    return rows


def _row(who: str, case: Case, threads: int) -> dict[str, Any]:
    inputs = Inputs(case)
    if who == "SDPA":
        _, work = next(sdpa.forms(case, inputs))  # the mask as it came
    else:
        work = ours.variants(case, inputs)["headwise"]
    peak = peak_of(work.run, threads)
    verdict = _judge(peak) if who == "headwise" else Verdict.NONE
    process = "-" if peak.process is None else f"{peak.process / 2**20:.2f}"
    print(
        f"{who:10}{case.length:>8}{case.dropout:>9}{peak.c10 / 2**20:>10.2f}{process:>10}  "
        f"{verdict.value}",
        flush=True,
    )
    return {
        "who": who,
        "length": case.length,
        "dropout": case.dropout,
        "c10_bytes": peak.c10,
        "process_bytes": peak.process,
        "bar_bytes": BAR,
        "verdict": verdict.value,
    }


def _judge(peak: Peak) -> Verdict:
    """Both measures must stay within the bar."""
    return Verdict.PASSED if max(peak.c10, peak.process or 0) <= BAR else Verdict.MISSED

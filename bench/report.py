"""Rows of the table, as text and as plain values for JSON."""

from collections.abc import Iterator
from typing import Any

from bench.compare import Measured
from bench.timing import Verdict, judge, one_sided_spread, worst

__all__ = ["HEADER", "WRONG", "Report", "line"]

HEADER = (
    f"{'case':32}{'threads':>8}{'baseline ms':>13}{'headwise ms':>13}{'ratio':>8}{'spread':>8}"
    f"{'bar':>6}{'goal':>6}  {'verdict':15}headwise does; baseline's form"
)
WRONG = "results differ"
SCALING_BAR = 1.6  # two threads against one


class Report:
    """Judges rows: against the bars at one thread, against our own single thread at two."""

    def __init__(self, capability: str, bandwidth: dict[int, float]) -> None:
        """`capability`: of the baseline, torch's name; `bandwidth`: bytes a second by threads."""
        self._capability = capability
        self._bandwidth = bandwidth
        self._one_thread: dict[str, Measured] = {}

    def values(self, row: Measured) -> dict[str, Any]:
        """Everything known about a row."""
        case, times = row.case, row.times
        if row.threads == 1:
            self._one_thread[case.name] = row
        verdict = worst(self._verdicts(row))
        goal = judge(times.ratio, times.spread, case.demand.goal)
        return {
            "case": case.to_dict(),
            "threads": row.threads,
            "baseline_form": row.baseline_form,
            "baseline_ms": min(times.baseline) * 1e3,
            "headwise_ms": min(times.ours) * 1e3,
            "ratio": times.ratio,
            "spread": times.spread,
            "bar": case.demand.bar_for(self._capability),
            "goal": case.demand.goal,
            "verdict": verdict.value if row.agree else WRONG,
            "reaches_goal": row.agree and goal is Verdict.PASSED,
            "difference": row.difference,
            "scaling": self._scaling(row),
            **self._rates(row),
            "readings": {"baseline": list(times.baseline), "headwise": list(times.ours)},
        }

    def _verdicts(self, row: Measured) -> Iterator[Verdict]:
        own_spread = one_sided_spread(row.times.ours)
        if row.threads == 1:
            demand = row.case.demand
            yield judge(row.times.ratio, row.times.spread, demand.bar_for(self._capability))
            share = self._rates(row).get("bandwidth_share")
            if share is not None:
                yield judge(share, own_spread, demand.bandwidth_for(self._capability))
        scaling = self._scaling(row)
        if scaling is not None and row.threads == 2:
            spread = own_spread + one_sided_spread(self._one_thread[row.case.name].times.ours)
            yield judge(scaling, spread, SCALING_BAR)

    def _scaling(self, row: Measured) -> float | None:
        """How many times faster than our one thread."""
        if row.threads == 1 or row.case.name not in self._one_thread:
            return None
        return min(self._one_thread[row.case.name].times.ours) / min(row.times.ours)

    def _rates(self, row: Measured) -> dict[str, float]:
        seconds = min(row.times.ours)
        if row.case.form != "decode":
            return {"headwise_gflop_per_s": row.flops / seconds / 1e9}
        speed = row.bytes_read / seconds
        rates = {"headwise_gb_per_s": speed / 1e9}
        if row.threads in self._bandwidth:
            rates["bandwidth_share"] = speed / self._bandwidth[row.threads]
        return rates


def line(found: dict[str, Any]) -> str:
    """A row of the table, from `Report.values`."""
    verdict = found["verdict"]
    bars = (found["bar"], found["goal"]) if found["threads"] == 1 else (None, None)
    if bars[1] is not None and verdict == Verdict.PASSED.value and found["reaches_goal"]:
        verdict += ", goal"
    return (
        f"{found['case']['name']:32}{found['threads']:>8}{found['baseline_ms']:>13.3f}"
        f"{found['headwise_ms']:>13.3f}{found['ratio']:>8.2f}{found['spread']:>8.1%}"
        f"{_number(bars[0]):>6}{_number(bars[1]):>6}  {verdict:15}{_rate(found)}; "
        f"{found['baseline_form']}"
    )


def _rate(found: dict[str, Any]) -> str:
    if found["scaling"] is not None:
        return f"{found['scaling']:.2f} x one thread"
    if "headwise_gflop_per_s" in found:
        return f"{found['headwise_gflop_per_s']:.0f} GFLOP/s"
    text = f"{found['headwise_gb_per_s']:.1f} GB/s"
    share = found.get("bandwidth_share")
    return text if share is None else f"{text} = {share:.0%} of read bandwidth"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")

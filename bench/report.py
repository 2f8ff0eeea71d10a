"""Rows of the table, as text and as plain values for JSON."""

from typing import Any

from bench.compare import Measured
from bench.timing import Verdict, judge

__all__ = ["HEADER", "Context", "line", "values"]

HEADER = (
    f"{'case':32}{'threads':>8}{'baseline ms':>13}{'headwise ms':>13}{'ratio':>8}{'spread':>8}"
    f"{'bar':>6}{'goal':>6}  verdict"
)


class Context:
    """What a row is judged by."""

    def __init__(self, capability: str, bandwidth: dict[int, float]) -> None:
        self.capability = capability
        self.bandwidth = bandwidth


def _verdict(row: Measured, context: Context) -> str:
    if not row.agree:
        return "RESULTS DIFFER"
    if row.threads != 1:
        return ""  # bars bind on one thread
    return judge(
        row.times.ratio, row.times.spread, row.case.demand.bar_for(context.capability)
    ).value


def values(row: Measured, context: Context) -> dict[str, Any]:
    """Everything known about a row."""
    case, times = row.case, row.times
    found: dict[str, Any] = {
        "case": case.to_dict(),
        "threads": row.threads,
        "baseline_form": row.baseline_form,
        "baseline_ms": min(times.baseline) * 1e3,
        "headwise_ms": min(times.ours) * 1e3,
        "ratio": times.ratio,
        "spread": times.spread,
        "bar": case.demand.bar_for(context.capability),
        "goal": case.demand.goal,
        "verdict": _verdict(row, context),
        "difference": row.difference,
        "readings": {"baseline": list(times.baseline), "headwise": list(times.ours)},
    }
    goal = judge(times.ratio, times.spread, case.demand.goal)
    found["reaches_goal"] = row.agree and goal is Verdict.PASSED
    seconds = min(times.ours)
    if case.form == "decode":
        found["headwise_gb_per_s"] = row.bytes_read / seconds / 1e9
        if row.threads in context.bandwidth:
            found["bandwidth_share"] = row.bytes_read / seconds / context.bandwidth[row.threads]
    else:
        found["headwise_gflop_per_s"] = row.flops / seconds / 1e9
    return found


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def line(found: dict[str, Any]) -> str:
    """A row of the table."""
    rate = ""
    if "headwise_gb_per_s" in found:
        rate = f"{found['headwise_gb_per_s']:.1f} GB/s"
        if "bandwidth_share" in found:
            rate += f" = {found['bandwidth_share']:.0%} of read bandwidth"
    else:
        rate = f"{found['headwise_gflop_per_s']:.0f} GFLOP/s"
    verdict = found["verdict"] + (", goal" if found["reaches_goal"] and found["verdict"] else "")
    return (
        f"{found['case']['name']:32}{found['threads']:>8}{found['baseline_ms']:>13.3f}"
        f"{found['headwise_ms']:>13.3f}{found['ratio']:>8.2f}{found['spread']:>8.1%}"
        f"{_number(found['bar']):>6}{_number(found['goal']):>6}  {verdict:14} {rate}; "
        f"{found['baseline_form']}"
    )

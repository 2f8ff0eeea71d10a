"""`scripts/bench attention`: headwise beside torch's scaled_dot_product_attention."""

import argparse
import datetime
import json
from typing import Any

import torch

from bench import ours, sdpa
from bench.cases import Case, select
from bench.compare import Refused, Sides, compare
from bench.machine import kernel_build_times, processor, read_bandwidth
from bench.peer import RemoteWorker
from bench.report import HEADER, Context, line, values
from bench.worker import LocalWorker

__all__ = ["run"]

QUICK_REPEATS = 5
LEAST_SECONDS = 0.05  # of one reading
QUICK_SECONDS = 0.01


def run(options: argparse.Namespace) -> int:
    """Returns the exit code: 1 if results differ, 2 for a wrong call."""
    cases = select(options.case)
    if options.list or not cases:
        print("\n".join(case.name for case in (cases or select(""))))
        return 0 if cases else 2
    remote = RemoteWorker(options.peer) if options.peer else None
    own_capability = torch.backends.cpu.get_cpu_capability()
    about = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "processor": processor(),
        "threads": options.threads,
        "headwise_torch": str(torch.__version__),
        "baseline_torch": remote.torch_version if remote else str(torch.__version__),
        "baseline_instruction_set": remote.capability if remote else own_capability,
        "headwise": ours.explain(),
        "target": options.target,
        "quick": options.quick,
        "library_bytes": ours.library_sizes(),
        "kernel_build_seconds": kernel_build_times(),
    }
    about["read_bandwidth_gb_per_s"] = {
        threads: read_bandwidth(threads) / 1e9
        for threads in (options.threads if _any_decode(cases) else [])
    }
    _print_about(about)
    sides = Sides(
        remote or LocalWorker(sdpa.variants), LocalWorker(ours.variants), LocalWorker(ours.variants)
    )
    try:
        rows = _measure(cases, sides, options, about)
    finally:
        if remote:
            remote.close()
    if options.json:
        options.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    return int(any(row.get("verdict") == "RESULTS DIFFER" for row in rows))


def _any_decode(cases: list[Case]) -> bool:
    return any(case.form == "decode" for case in cases)


def _print_about(about: dict[str, Any]) -> None:
    print(f"{about['date']}  {about['processor']}")
    print(
        f"headwise (torch {about['headwise_torch']}): {about['headwise']}\n"
        f"baseline (torch {about['baseline_torch']}): {about['baseline_instruction_set']}"
    )
    for name, size in about["library_bytes"].items():
        print(f"  {name}: {size / 1024:.0f} KiB")
    if about["kernel_build_seconds"]:
        seconds = about["kernel_build_seconds"]
        print(f"  kernels: {len(seconds)} objects, {sum(seconds.values()):.0f} s to compile")
    for threads, speed in about["read_bandwidth_gb_per_s"].items():
        print(f"  read bandwidth, {threads} threads: {speed:.1f} GB/s")


def _measure(
    cases: list[Case], sides: Sides, options: argparse.Namespace, about: dict[str, Any]
) -> list[dict[str, Any]]:
    bandwidth = {n: x * 1e9 for n, x in about["read_bandwidth_gb_per_s"].items()}
    context = Context(about["baseline_instruction_set"], bandwidth)
    repeats = QUICK_REPEATS if options.quick else options.repeats
    least = QUICK_SECONDS if options.quick else LEAST_SECONDS
    rows = []
    print(HEADER)
    for case in cases:
        for threads in options.threads:
            try:
                row = values(compare(case, sides, threads, repeats, least), context)
                print(line(row), flush=True)
            except Refused as reason:
                row = {"case": case.to_dict(), "threads": threads, "refused": str(reason)}
                print(f"{case.name:32}{threads:>8}  {reason}", flush=True)
            rows.append(row)
    return rows

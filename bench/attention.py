"""`scripts/bench attention`: headwise beside torch's scaled_dot_product_attention."""

import argparse
import datetime
import json
import sys
from typing import Any

import torch

from bench import memory_table, ours, sdpa
from bench.cases import Case, select
from bench.compare import RefusedError, Sides, compare
from bench.machine import kernel_build_times, processor, read_bandwidth
from bench.peer import RemoteWorker
from bench.report import HEADER, WRONG, Report, line
from bench.worker import CLOCKS, LocalWorker

__all__ = ["run"]

QUICK_REPEATS = 5
LEAST_SECONDS = 0.05  # of one reading
QUICK_SECONDS = 0.01


def run(options: argparse.Namespace) -> int:
    """Returns the exit code: 1 if results differ, 2 for a case or peer that is not there."""
    cases = select(options.case)
    if options.list or not cases:
        print("\n".join(case.name for case in (cases or select(""))))
        if not cases:
            print(f"scripts/bench: no case has {options.case!r} in its name", file=sys.stderr)
        return 0 if cases else 2
    try:
        remote = RemoteWorker(options.peer, options.clock) if options.peer else None
    except (OSError, RuntimeError) as error:
        print(f"scripts/bench: --peer {options.peer}: {error}", file=sys.stderr)
        return 2
    try:
        about = _about(options, remote)
        _print_about(about)
        if options.memory:
            rows = memory_table.run(options.length, max(options.threads))
        else:
            rows = _measure(cases, remote, options, about)
    finally:
        if remote:
            remote.close()
    if options.json:
        options.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    return int(any(row.get("verdict") == WRONG for row in rows))


def _about(options: argparse.Namespace, remote: RemoteWorker | None) -> dict[str, Any]:
    version, capability = str(torch.__version__), torch.backends.cpu.get_cpu_capability()
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "processor": processor(),
        "threads": options.threads,
        "clock": options.clock,
        "quick": options.quick,
        "target": options.target,
        "headwise": ours.explain(),
        "headwise_torch": version,
        "baseline_torch": remote.torch_version if remote else version,
        "baseline_instruction_set": remote.capability if remote else capability,
        "library_bytes": ours.library_sizes(),
        "kernel_build_seconds": kernel_build_times(),
    }


def _print_about(about: dict[str, Any]) -> None:
    threads = ", ".join(str(x) for x in about["threads"])
    print(
        f"{about['date']}; {about['processor']}; threads {threads}; {about['clock']} clock"
        f"{'; quick' if about['quick'] else ''}\n"
        f"headwise on torch {about['headwise_torch']}: {about['headwise']}\n"
        f"baseline, SDPA of torch {about['baseline_torch']}: {about['baseline_instruction_set']}"
    )
    sizes = (f"{name} {size / 1024:.0f} KiB" for name, size in about["library_bytes"].items())
    print("libraries:", ", ".join(sizes))
    seconds = about["kernel_build_seconds"]
    if seconds:
        print(
            f"kernels: {len(seconds)} objects, {sum(seconds.values()):.0f} s to compile one by one"
        )
    print("Clock rates are left as they are: compare the two sides of one run, never two runs.")


def _measure(
    cases: list[Case],
    remote: RemoteWorker | None,
    options: argparse.Namespace,
    about: dict[str, Any],
) -> list[dict[str, Any]]:
    baseline = remote or LocalWorker(sdpa.variants, options.clock)
    sides = Sides(baseline, *(LocalWorker(ours.variants, options.clock) for _ in range(2)))
    bandwidth = _bandwidth(cases, options)
    about["read_bandwidth_bytes_per_s"] = bandwidth
    report = Report(about["baseline_instruction_set"], bandwidth)
    repeats = QUICK_REPEATS if options.quick else options.repeats
    least = QUICK_SECONDS if options.quick else LEAST_SECONDS
    print(f"\n{HEADER}")
    rows = []
    for case in cases:
        for threads in options.threads:
            try:
                row = report.values(compare(case, sides, threads, repeats, least))
                print(line(row), flush=True)
            except RefusedError as reason:
                row = {"case": case.to_dict(), "threads": threads, "refused": str(reason)}
                print(f"{case.name:32}{threads:>8}  {reason}", flush=True)
            rows.append(row)
    return rows


def _bandwidth(cases: list[Case], options: argparse.Namespace) -> dict[int, float]:
    """Bytes a second by threads, printed; measured only if a case needs it."""
    if not any(case.form == "decode" for case in cases):
        return {}
    found = {n: read_bandwidth(n, CLOCKS[options.clock]) for n in options.threads}
    speeds = (f"{x / 1e9:.1f} GB/s at {threads}" for threads, x in found.items())
    print("read bandwidth by threads:", ", ".join(speeds))
    return found

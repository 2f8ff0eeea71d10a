"""Peak memory beyond inputs, output and gradients, measured the same way on both sides.

Two measures. c10: every block torch's CPU allocator gave out and took back, as torch's profiler
records it, replayed; it sees the calling thread, so it is taken at one thread. Process: the peak of
resident memory, which also sees what does not come from torch's allocator, all threads' scratch
for one, but counts pages of 4 KiB and whatever else the process touches.
"""

import ctypes
import gc
import json
import tempfile
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

__all__ = ["Block", "Peak", "peak_of", "replay"]

Run = Callable[[], list[Tensor]]
_RESET_PEAK = "5"  # of /proc/self/clear_refs, see proc(5)


class Block(NamedTuple):
    """Bytes given out (> 0) or taken back (< 0) at an address."""

    address: int
    bytes: int


class Peak(NamedTuple):
    """Bytes beyond inputs and results; `process` is None where the system does not tell."""

    c10: int
    process: int | None


def replay(blocks: Iterable[Block], results: Collection[int]) -> int:
    """The most bytes ever out at once.

    Args:
        blocks: in the order they happened.
        results: addresses of blocks that do not count. An address may be given out several times:
            the last one is the result, as nothing after it can have its place.
    """
    ordered = list(blocks)
    last = {block.address: i for i, block in enumerate(ordered) if block.bytes > 0}
    left_out = {last[address] for address in results if address in last}
    out: dict[int, int] = {}
    peak = 0
    for i, block in enumerate(ordered):
        if block.bytes > 0 and i not in left_out:
            out[block.address] = block.bytes
            peak = max(peak, sum(out.values()))
        elif block.bytes < 0:
            out.pop(block.address, None)  # of an earlier time otherwise
    return peak


def peak_of(run: Run, threads: int) -> Peak:
    """One run a measure."""
    torch.set_num_threads(1)
    c10 = _c10_peak(run)
    torch.set_num_threads(threads)
    return Peak(c10, _process_peak(run))


def _c10_peak(run: Run) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as record:
        results = run()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        record.export_chrome_trace(str(file))
        trace = json.loads(file.read_text("utf-8"))
    events = [x for x in trace["traceEvents"] if x.get("name") == "[memory]"]
    events.sort(key=lambda x: (x["ts"], x["args"]["Ev Idx"]))
    blocks = [Block(x["args"]["Addr"], x["args"]["Bytes"]) for x in events]
    return replay(blocks, {x.untyped_storage().data_ptr() for x in results})


def _process_peak(run: Run) -> int | None:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return None
    before = _status_bytes("VmRSS")
    results = run()
    peak = _status_bytes("VmHWM")
    kept = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in results}
    return peak - before - sum(kept.values())


def _status_bytes(field: str) -> int:
    for text in Path("/proc/self/status").read_text("utf-8").splitlines():
        if text.startswith(field + ":"):
            return int(text.split()[1]) << 10
    raise RuntimeError(f"/proc/self/status has no {field}")

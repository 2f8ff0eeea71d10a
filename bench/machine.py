"""What the numbers were taken on: processor, read bandwidth, built files."""

import re
from collections.abc import Callable
from pathlib import Path

import torch

__all__ = ["free_memory", "kernel_build_times", "processor", "read_bandwidth"]

ROOT = Path(__file__).resolve().parents[1]


def processor() -> str:
    """The processor's name and how many logical cores the system shows."""
    text = Path("/proc/cpuinfo").read_text("utf-8")
    names = re.findall(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    return f"{names[0]}, {len(names)} cores" if names else "unknown"


def free_memory() -> int:
    """Bytes the system could give to a program now."""
    text = Path("/proc/meminfo").read_text("utf-8")
    found = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def read_bandwidth(threads: int, now: Callable[[], float], mebibytes: int = 512) -> float:
    """Bytes a second that can be read from memory: the best of three reductions of an array."""
    torch.set_num_threads(threads)
    x = torch.ones(mebibytes << 18)
    best = float("inf")
    for reduce in (torch.sum, torch.amax, lambda x: torch.dot(x, x)):
        for _ in range(5):
            begin = now()
            reduce(x)
            best = min(best, now() - begin)
    return x.numel() * x.element_size() / best


def kernel_build_times(build: Path = ROOT / "build" / "release") -> dict[str, float]:
    """Seconds each object of csrc/kernels took to compile when last built; empty when unknown."""
    log = build / ".ninja_log"
    if not log.exists():
        return {}
    seconds = {}
    for line in log.read_text("utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) >= 4 and "csrc/kernels" in fields[3] and fields[3].endswith(".o"):
            seconds[Path(fields[3]).name.removesuffix(".o")] = (
                int(fields[1]) - int(fields[0])
            ) / 1000
    return seconds

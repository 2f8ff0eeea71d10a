"""Sets both sides up alike, where asked: a tuned allocator, one instruction set.

Torch-free, for the variables must be set before torch loads.
"""

import os
import sys

__all__ = ["ALLOCATOR", "TARGETS", "restart_with"]

TARGETS = {
    "AVX2": {
        "HEADWISE_INSTRUCTION_SET": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
}


# glibc gives large blocks back to the system and takes them anew for every call, page fault by page
# fault; these variables stop it.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(2**28),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}


def restart_with(target: str | None, tuned_allocator: bool) -> None:
    """Start this program again with the variables of both choices, if not yet set."""
    wanted = {**(ALLOCATOR if tuned_allocator else {}), **(TARGETS[target] if target else {})}
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    arguments = [sys.executable, "-m", "bench", *sys.argv[1:]]
    os.execve(sys.executable, arguments, {**os.environ, **wanted})

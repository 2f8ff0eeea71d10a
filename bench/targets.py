"""Holds both sides to one instruction set.

Torch-free, for the variables must be set before torch loads.
"""

import os
import sys

__all__ = ["TARGETS", "restart_with"]

TARGETS = {
    "AVX2": {
        "HEADWISE_INSTRUCTION_SET": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
}


def restart_with(target: str) -> None:
    """Start this program again with the target's variables, unless they are set already."""
    wanted = TARGETS[target]
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    arguments = [sys.executable, "-m", "bench", *sys.argv[1:]]
    os.execve(sys.executable, arguments, {**os.environ, **wanted})

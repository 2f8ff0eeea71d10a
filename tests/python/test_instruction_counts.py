"""How many instructions the kernels take on small cases, counted by callgrind.

Unlike times these do not vary, so that a kernel that grew by a twentieth is seen on any machine. A
change that is worth its instructions brings new counts:

    HEADWISE_COUNT=1 pytest tests/python/test_instruction_counts.py -s
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

RELEASE = Path(__file__).resolve().parents[2] / "build" / "release"
PROBE = Path(os.environ.get("HEADWISE_BUILD", RELEASE)) / "tests" / "kernels" / "instruction_probe"
COMPILER = "12."  # whose code was counted
COUNTS = {
    "attention": 377522,
    "linear_bfloat16": 478897,
    "loss": 2851942,
    "loss_bfloat16": 3590086,
    "residual_norm": 150890,
}
TOLERANCE = 0.05


def probe(*command: str) -> str:
    assert PROBE.exists(), f"{PROBE} is absent; build it with: cmake --build --preset release"
    environment = {**os.environ, "HEADWISE_INSTRUCTION_SET": "AVX2"}
    done = subprocess.run(
        [*command[:-1], PROBE, *command[-1:]], env=environment, capture_output=True, check=True
    )
    return done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize("case", COUNTS)
def test_instructions_on_avx2(case, tmp_path):
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    compiler = probe().split()[0]
    if not compiler.startswith(COMPILER):
        pytest.skip(f"counted with g++ {COMPILER}x, built with {compiler}")
    said = probe(
        *("valgrind", "--tool=callgrind", f"--callgrind-out-file={tmp_path / 'out'}"),
        *("--collect-atstart=no", "--toggle-collect=headwise_counted", case),
    )
    counted = int(re.search(r"Collected : (\d+)", said)[1])
    if "HEADWISE_COUNT" in os.environ:
        print(f'    "{case}": {counted},')
        return
    assert counted <= COUNTS[case] * (1 + TOLERANCE)
    assert counted >= COUNTS[case] * (1 - TOLERANCE), "fewer: write the new count down"


def test_every_case_is_pinned():
    assert probe().split()[1:] == sorted(COUNTS)

"""Reads every #include and enforces the arrows: each room sees only what is simpler than itself."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)

TORCH = ("ATen/", "c10/", "torch/")
POSIX = ("fcntl.h", "malloc.h", "poll.h", "signal.h", "stdio.h", "sys/", "unistd.h")
ICU = ("unicode/",)
JSON = ("nlohmann/",)
SENTENCEPIECE = ("sentencepiece_",)
TEST_TOOLS = ("gtest/", "gmock/", "sanitizer/")


class Room(NamedTuple):
    """What a room may include: rooms, with all they stand on, and outside libraries."""

    rooms: tuple[str, ...]
    libraries: tuple[str, ...] = ()


# A file belongs to the longest of these paths its own path begins with.
ARROWS = {
    "csrc/kernels": Room((), ("hwy/", "cuda")),
    "csrc/ops": Room(("csrc/kernels",), TORCH),
    "csrc/nn": Room(("csrc/ops",), TORCH),
    "csrc/bindings": Room(("csrc/ops", "csrc/nn"), (*TORCH, "pybind11/", "Python.h")),
    "src/config": Room((), ("toml++/",)),
    "src/data": Room(("src/config",), (*SENTENCEPIECE, *ICU, "zlib.h", "openssl/")),
    "src/model": Room(("src/config", "csrc/nn", "csrc/ops"), TORCH),
    "src/io": Room(("src/config", "src/data"), (*JSON, *POSIX, "openssl/")),
    # The part of io that turns weights into a model; the rest of the folder sees no torch.
    "src/io/model_io": Room(("src/io", "src/model"), TORCH),
    "src/io/average": Room(("src/io/model_io",), TORCH),
    "src/decode": Room(()),
    "src/metrics": Room((), ICU),
    "src/evaluate": Room(("src/data", "src/model", "src/decode", "src/metrics"), TORCH),
    # The only room that sees spdlog: torch's include folder carries another fmt than spdlog's.
    "src/log": Room(("src/config",), ("spdlog/",)),
    "src/train": Room(
        (
            "src/config",
            "src/data",
            "src/model",
            "src/io/average",
            "src/evaluate",
            "src/cost",  # memory is forecast before the first step
            "src/log",
        ),
        (*TORCH, *JSON, *POSIX),
    ),
    "src/cost": Room(("src/config",), JSON),
    "src/analysis": Room(
        ("src/config", "src/data", "src/model", "src/io/average", "src/evaluate"), (*TORCH, *JSON)
    ),
    "src/experiments": Room(("src/train", "src/analysis"), (*TORCH, *JSON)),
    "src/cli": Room(
        ("src/analysis", "src/train", "src/experiments"),
        (*TORCH, *JSON, *POSIX, "CLI/"),
    ),
    # Kernel tests build in seconds and without torch.
    "tests/kernels": Room(("csrc/kernels",), ("hwy/", *TEST_TOOLS)),
    # A tool of the build: what nearly every file that sees torch includes.
    "cmake": Room((), TORCH),
}


def room_of(path: str) -> str | None:
    """The room a path of the project belongs to."""
    return max((room for room in ARROWS if path.startswith(room)), key=len, default=None)


def reachable(room: str) -> set[str]:
    """The room itself, the rooms its arrows name, and what those stand on."""
    found, pending = set(), [room]
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending += ARROWS[current].rooms
    return found


def is_standard(header: str) -> bool:
    """No header of the C++ standard library has a dot or a slash in its name."""
    return re.fullmatch(r"[a-z_0-9]+", header) is not None


def violations(path: str, text: str) -> list[str]:
    """What the includes of one file break, in words."""
    room = room_of(path)
    if room is None:
        return [f"{path} belongs to no room of ARROWS"]
    found = []
    for quoted, angled in INCLUDE.findall(text):
        if quoted:
            target = room_of(quoted)
            if target is None or target not in reachable(room):
                found.append(f"{path}: {room} must not include {quoted}")
        elif not is_standard(angled) and not angled.startswith(ARROWS[room].libraries):
            found.append(f"{path}: {room} must not include <{angled}>")
    return found


def sources() -> list[str]:
    suffixes = {".h", ".cpp", ".cu", ".cuh"}
    folders = ("csrc", "src", "tests/kernels", "cmake")
    files = (file for folder in folders for file in (ROOT / folder).rglob("*"))
    return sorted(str(file.relative_to(ROOT)) for file in files if file.suffix in suffixes)


def test_every_include_follows_the_arrows():
    paths = sources()
    assert len(paths) > 50
    broken = [line for path in paths for line in violations(path, (ROOT / path).read_text())]
    assert not broken, "\n".join(broken)


def test_the_arrows_have_no_cycle():
    for room in ARROWS:
        for below in ARROWS[room].rooms:
            assert room not in reachable(below), f"{room} and {below} reach each other"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("csrc/kernels/attention/mask.h", "#include <ATen/ATen.h>"),
        ("csrc/kernels/attention/mask.h", "#include <unistd.h>"),
        ("csrc/kernels/attention/mask.h", '#include "csrc/ops/attention.h"'),
        ("csrc/ops/attention.cpp", '#include "csrc/nn/options.h"'),
        ("csrc/nn/rotary.cpp", '#include "src/config/error.h"'),
        ("src/config/load.cpp", '#  include "src/data/batch.h"'),
        ("src/data/subword.cpp", "#include <torch/types.h>"),
        ("src/data/subword.cpp", "#include <toml++/toml.h>"),
        ("src/io/file.cpp", "#include <ATen/ATen.h>"),
        ("src/io/file.cpp", '#include "src/io/model_io.h"'),
        ("src/io/file.cpp", '#include "src/model/layers.h"'),
        ("src/decode/search.cpp", '#include "src/config/config.h"'),
        ("src/metrics/bleu.cpp", '#include "src/config/error.h"'),
        ("src/train/progress.cpp", "#include <spdlog/spdlog.h>"),
        ("src/evaluate/scorer.cpp", '#include "src/log/log.h"'),
        ("src/train/trainer.cpp", '#include "src/cli/command.h"'),
        ("src/train/trainer.cpp", '#include "src/analysis/roles.h"'),
        ("src/analysis/roles.cpp", '#include "src/train/trainer.h"'),
        ("src/data/batcher.cpp", '#include "batch.h"'),
        ("src/unheard_of/file.cpp", ""),
        ("tests/kernels/mask_test.cpp", "#include <ATen/ATen.h>"),
    ],
)
def test_a_forbidden_include_is_found(path, line):
    assert violations(path, f"// A file.\n{line}\n")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("csrc/kernels/attention/cpu/forward.cpp", "#include <hwy/highway.h>"),
        ("src/io/model_io.cpp", '#include "src/model/transformer.h"'),
        ("src/train/trainer.cpp", '#include "src/io/file.h"'),
        ("src/cli/main.cpp", '#include "src/metrics/corpus_scores.h"'),
        ("src/data/batcher.cpp", "#include <algorithm>"),
    ],
)
def test_an_allowed_include_is_not(path, line):
    assert not violations(path, f"{line}\n")

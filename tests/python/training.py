"""Runs of `headwise train` that take seconds, and what they leave on disk."""

import json
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from program import BINARY, ENVIRONMENT, Done, headwise
from safetensors.torch import load_file

# More than a hundred updates a second on one thread.
CONFIG = """
[data]
kind = "embedded"
embedded_pairs = 200
embedded_valid = 16
[subword]
vocabulary = 400
[model]
width = 16
feed_forward = 24
encoder_layers = 1
decoder_layers = 1
encoder_heads = 2
decoder_heads = 2
cross_heads = 2
[schedule]
learning_rate = 0.01
warmup = 20
[train]
batch_tokens = 100
threads = 1
log_every = 10
[validation]
every = 0
bleu = false
best_by = "loss"
[checkpoint]
every = 1000000
"""

# What differs between equal runs: time.
TIMING = {"seconds", "tokens_per_second", "validation_seconds"}
TIMING |= {f"{part}_seconds" for part in ("batches", "forward", "loss", "backward", "update")}


# Weights stand still, and the first moment is the gradient that was applied.
FROZEN = ["schedule.learning_rate=1e-30", "schedule.kind='constant'", "optimizer.beta1=0.0"]
FROZEN += ["model.dropout=0.0", "train.clip_norm=0.0"]


class Training:
    """One run: a folder, and the settings that differ from the configuration."""

    def __init__(self, folder: Path, settings: Iterable[str] = (), config: str = CONFIG):
        self.folder = folder
        self.settings = list(settings)
        self.config = folder.with_suffix(".toml")
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(config, encoding="utf-8")

    def arguments(self, *settings: str, resume: bool = False) -> list[str]:
        arguments = ["train", str(self.config), "--output", str(self.folder)]
        both = [*self.settings, *settings]
        return arguments + ["--resume"] * resume + (["--set", *both] if both else [])

    def run(self, *settings: str, resume: bool = False, code: int = 0) -> Done:
        """Trains to the end, which must come with the exit code `code`."""
        done = headwise(*self.arguments(*settings, resume=resume))
        assert done.code == code, (done.code, done.err)
        return done

    def start(self, *settings: str, resume: bool = False) -> subprocess.Popen:
        command = [BINARY, *self.arguments(*settings, resume=resume)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command,
            stdout=pipe,
            stderr=pipe,
            text=True,
            env=ENVIRONMENT,
            # Where the tests run in the background, SIGINT is ignored, and that is inherited.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def steps(self) -> list[int]:
        return sorted(int(path.name[5:]) for path in self.folder.glob("step-*"))

    def step(self, number: int | None = None) -> Path:
        """The folder of a checkpoint, by default of the newest."""
        return self.folder / f"step-{self.steps()[-1] if number is None else number}"

    def link(self, name: str) -> int:
        """The step that `best` or `last` points at."""
        return int((self.folder / name).readlink().name[5:])

    def state(self, number: int | None = None) -> dict:
        return json.loads((self.step(number) / "state.json").read_text("utf-8"))

    def tensors(self, number: int | None = None) -> dict:
        """Weights by name; first_moment.NAME, second_moment.NAME, with an average trained.NAME."""
        step = self.step(number)
        return load_file(step / "model.safetensors") | load_file(step / "train_state.safetensors")

    def diary(self, event: str) -> list[dict]:
        """The entries of one kind in metrics.jsonl, whole lines only."""
        file = self.folder / "metrics.jsonl"
        lines = file.read_text("utf-8").split("\n")[:-1] if file.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["event"] == event]


def wait_until(condition, process):
    """Polls until the condition holds; the process must live that long."""
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "the run does not get there"
        time.sleep(0.002)


def start_training(run, *settings, resume=False):
    """A run that has begun its updates, or is about to."""
    known = len(run.diary("memory_forecast"))
    process = run.start(*settings, resume=resume)
    wait_until(lambda: len(run.diary("memory_forecast")) > known, process)
    return process


def stop(process, *signals):
    """Sends signals at once; the exit code and standard error, which must come within seconds."""
    for number in signals:
        process.send_signal(number)
    _, err = process.communicate(timeout=20)
    return process.returncode, err


def without_timing(entry: dict) -> dict:
    return {
        key: without_timing(value) if isinstance(value, dict) else value
        for key, value in entry.items()
        if key not in TIMING
    }


def assert_same_result(actual: Training, expected: Training) -> None:
    """The newest checkpoints and everything noted on the way are equal, bit for bit."""
    assert actual.steps()[-1] == expected.steps()[-1]
    for name in ("model.safetensors", "train_state.safetensors", "source.spm"):
        assert (actual.step() / name).read_bytes() == (expected.step() / name).read_bytes(), name
    assert without_timing(actual.state()) == without_timing(expected.state())
    for event in ("train", "validation", "non_finite"):
        entries = [list(map(without_timing, run.diary(event))) for run in (actual, expected)]
        assert entries[0] == entries[1], event


def gradient(run: Training, step: int) -> torch.Tensor:
    """The gradient of an update of a frozen run, as one vector."""
    tensors = run.tensors(step)
    names = sorted(name for name in tensors if name.startswith("first_moment."))
    return torch.cat([tensors[name].flatten().double() for name in names])

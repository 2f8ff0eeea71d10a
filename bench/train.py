"""`scripts/bench train`: the trainer beside eager PyTorch training the same model."""

import argparse
import contextlib
import datetime
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import tomllib

from bench.forms import FORMS
from bench.machine import ROOT, processor
from bench.targets import ALLOCATOR, TARGETS
from bench.timing import Comparison, judge

__all__ = ["run"]

BAR = {"padded": (5.0, 7.0), "sorted": (2.5, 3.5), "tuned": (1.6, 2.2)}  # bar, goal
WARM_UP = 20  # updates that are not timed, both sides
PARTS = ("batches", "forward", "loss", "backward", "update")  # of one of our updates


@dataclass(frozen=True)
class Reading:
    """Some updates of one side."""

    seconds: float
    tokens: int
    peak_bytes: int
    parts: dict[str, float] = field(default_factory=dict)  # seconds, all threads together


class BenchError(Exception):
    """What stops the comparison, for a user to read."""


def run(options: argparse.Namespace) -> int:
    """Returns the exit code: 2 where the comparison cannot be made."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _run(options, Path(folder))
    except BenchError as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, folder: Path) -> int:
    headwise = _Headwise(options, folder)
    job = folder / "job.json"
    job.write_text(json.dumps(headwise.job()))
    about = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "processor": processor(),
        "config": str(options.config),
        "set": " ".join(options.set),
        "target": options.target,
        "updates": options.updates,
    }
    print("; ".join(f"{name} {value}" for name, value in about.items() if value))
    print("tokens are real source and target pieces; freed memory is kept on both sides")
    rows = []
    for threads in options.threads:
        with _peers(job, options, threads) as peers:
            rows += _compare(headwise, peers, options, threads)
    if options.json:
        options.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    return 0


class _Headwise:
    """Our side: `headwise train` itself, read from the metrics it writes."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options, self._folder = options, folder
        self._program = str(Path(sys.executable).parent / "headwise")
        self._settings = tomllib.loads(self._call("config", options.config, *self._set()))
        self._call("train", options.config, "--output", folder / "first", *self._set(max_steps=1))
        self._checkpoint = folder / "first" / "last"

    def job(self) -> dict[str, Any]:
        """What the peers need to train the same model on the same pieces."""
        import sentencepiece

        model = self._settings["model"]
        for key, needed in {"activation": "relu", "embeddings": "shared"}.items():
            if model[key] != needed:
                raise BenchError(
                    f"the peers know no model.{key} = {model[key]!r}; {needed!r} is needed"
                )
        pieces = sentencepiece.SentencePieceProcessor(
            model_file=str(self._checkpoint / "source.spm")
        )
        train = self._settings["train"]
        longest = self._settings["data"]["max_length"]
        pairs = [
            (a, b)
            for a, b in ((pieces.encode(x), pieces.encode(y)) for x, y in self._text())
            if 0 < len(a) <= longest and 0 < len(b) <= longest
        ]
        return {
            "model": model,
            "vocabulary": pieces.get_piece_size(),
            "begin": pieces.bos_id(),
            "end": pieces.eos_id(),
            "pairs": pairs,
            "smoothing": train["label_smoothing"],
            "batch_tokens": train["batch_tokens"] * train["accumulate"],
            "clip_norm": train["clip_norm"] or float("inf"),
            "ema": train["ema"],
            "learning_rate": self._settings["schedule"]["learning_rate"] / 10,
        }

    def read(self, threads: int) -> Reading:
        """Train anew; the first updates are not counted."""
        output = self._folder / "run"
        self._call("train", self._options.config, "--output", output, *self._run_keys(threads))
        events = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        train = [event for event in events if event["event"] == "train"]
        memory = {event["event"]: event for event in events}
        shutil.rmtree(output)
        first, last = train[0], train[-1]
        return Reading(
            last["seconds"] - first["seconds"],
            sum(last[key] - first[key] for key in ("source_tokens", "target_tokens")),
            memory["memory_peak"]["bytes"] - memory["memory_forecast"]["resident_bytes"],
            {part: sum(event[f"{part}_seconds"] for event in train[1:]) for part in PARTS},
        )

    def _run_keys(self, threads: int) -> list[str]:
        return self._set(
            f'subword.model="{self._checkpoint / "source.spm"}"',
            "subword.trust_model=true",
            max_steps=WARM_UP + self._options.updates,
            log_every=WARM_UP,
            threads=threads,
        )

    def _set(self, *more: str, **train: int) -> list[str]:
        fixed = ["validation.every=0", "checkpoint.every=1000000000", "train.max_epochs=0"]
        own = [f"train.{key}={value}" for key, value in train.items()]
        return ["--set", *self._options.set, *fixed, *more, *own]

    def _text(self) -> Iterator[tuple[str, str]]:
        data = self._settings["data"]
        if data["kind"] == "embedded":
            count, seed = str(data["embedded_pairs"]), str(data["embedded_seed"])
            lines = self._call("corpus", "--count", count, "--seed", seed).splitlines()
            yield from (tuple(line.split("\t")[:2]) for line in lines)
            return
        files = [Path(data["root"]) / data[f"train_{side}"] for side in ("source", "target")]
        texts = [
            (gzip.decompress(f.read_bytes()) if f.suffix == ".gz" else f.read_bytes()).decode()
            for f in files
        ]
        yield from zip(*(text.split("\n")[:-1] for text in texts), strict=True)

    def _call(self, *arguments: object) -> str:
        environment = {**os.environ, **ALLOCATOR, **TARGETS.get(self._options.target, {})}
        done = subprocess.run(
            [self._program, *map(str, arguments)], capture_output=True, text=True, env=environment
        )
        if done.returncode != 0:
            raise BenchError(done.stderr.strip().splitlines()[-1])
        return done.stdout


class _Peer:
    """A form of the eager trainer: one process, or one a thread where that is faster."""

    def __init__(self, job: Path, form: str, threads: int, options: argparse.Namespace) -> None:
        self.form = form
        # Two processes of one thread each, and no exchange of gradients to pay for: more than the
        # tuned trainer could have.
        processes, each = (threads, 1) if form == "tuned" else (1, threads)
        environment = {**os.environ, **ALLOCATOR, **TARGETS.get(options.target, {})}
        environment["PYTHONPATH"] = str(ROOT)
        command = [options.peer or sys.executable, "-m", "bench.train_peer", job, form, str(each)]
        self._processes = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
            for _ in range(processes)
        ]
        self.torch = self._ask(WARM_UP)[0]["torch"]

    def read(self, updates: int) -> Reading:
        answers = self._ask(updates)
        return Reading(
            max(answer["seconds"] for answer in answers),
            sum(answer["tokens"] for answer in answers),
            sum(answer["peak_bytes"] for answer in answers),
        )

    def _ask(self, updates: int) -> list[dict[str, Any]]:
        for process in self._processes:
            process.stdin.write(f"{updates}\n")
            process.stdin.flush()
        answers = [process.stdout.readline() for process in self._processes]
        if not all(answers):
            raise BenchError(f"the {self.form} peer has stopped; what it said stands above")
        return [json.loads(answer) for answer in answers]

    def close(self) -> None:
        for process in self._processes:
            process.stdin.close()
            process.wait()


@contextlib.contextmanager
def _peers(job: Path, options: argparse.Namespace, threads: int) -> Iterator[list[_Peer]]:
    peers: list[_Peer] = []
    try:
        for form in options.forms:
            peers.append(_Peer(job, form, threads, options))
        yield peers
    finally:
        for peer in peers:
            peer.close()


def _compare(
    headwise: _Headwise, peers: list[_Peer], options: argparse.Namespace, threads: int
) -> list[dict[str, Any]]:
    readings: dict[str, list[Reading]] = {name: [] for name in ["headwise", *options.forms]}
    for _ in range(options.repeats):
        readings["headwise"].append(headwise.read(threads))
        for peer in peers:
            readings[peer.form].append(peer.read(max(2, options.updates // 4)))
    print(
        f"\n{'side':50}{'threads':>8}{'tokens/s':>10}{'median':>9}{'peak MiB':>10}{'ratio':>7}"
        f"{'spread':>8}{'bar':>5}{'goal':>5}  {'verdict':11}{'memory':>7}"
    )
    own = readings["headwise"]
    rows = []
    for name, taken in readings.items():
        speeds = [r.tokens / r.seconds for r in taken]
        peak = max(r.peak_bytes for r in taken)
        row = {"side": name, "threads": threads, "readings": [asdict(r) for r in taken]}
        label = FORMS.get(name, "headwise train")
        text = f"{label:50}{threads:8}{max(speeds):10.0f}{median(speeds):9.0f}{peak / 2**20:10.0f}"
        if name != "headwise":
            bar, goal = BAR[name]
            times = Comparison(*([r.seconds / r.tokens for r in side] for side in (taken, own)))
            verdict = judge(times.ratio, times.spread, bar)
            memory = peak / max(r.peak_bytes for r in own)
            row |= {"ratio": times.ratio, "verdict": verdict.value, "memory_ratio": memory}
            row |= {"torch": peers[options.forms.index(name)].torch}
            text += (
                f"{times.ratio:7.2f}{times.spread:8.1%}{bar:5}{goal:5}  {verdict.value:11}"
                f"{memory:7.1f}"
            )
        print(text, flush=True)
        rows.append(row)
    print(f"where our time goes: {_breakdown(own)}", flush=True)
    return rows


def _breakdown(readings: list[Reading]) -> str:
    """Shares of the parts of an update in the fastest reading."""
    parts = min(readings, key=lambda r: r.seconds / r.tokens).parts
    total = sum(parts.values())
    return ", ".join(f"{part} {seconds / total:.0%}" for part, seconds in parts.items())

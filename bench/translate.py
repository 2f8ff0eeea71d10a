"""`scripts/bench translate`: `headwise translate` beside CTranslate2 on the same weights."""

import argparse
import datetime
import gzip
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.machine import processor
from bench.timing import Comparison, alternate, judge

__all__ = ["CASES", "run"]


@dataclass(frozen=True)
class TranslateCase:
    """`batch`: sentences, or source pieces where `by_tokens`, sorted by length on both sides."""

    name: str
    beam: int
    batch: int
    by_tokens: bool = False
    # Ours searches until nothing can improve, CTranslate2 with patience 2. Otherwise both stop when
    # as many hypotheses have finished as the beam is wide. Either way they find the same.
    to_the_end: bool = False
    compute: str = "float32"  # of CTranslate2; ours is float32
    lines: int = 0  # 0: all
    bar: float | None = None
    goal: float | None = None


CASES = [
    TranslateCase("beam 5, batches of 32", 5, 32, bar=1.0, goal=1.5),
    TranslateCase("greedy, one sentence at a time", 1, 1, lines=200, bar=1.0, goal=2.0),
    TranslateCase("greedy, batches of 32", 1, 32),
    TranslateCase("beam 5, one sentence at a time", 5, 1, lines=100),
    TranslateCase("greedy, batches of 2,048 pieces", 1, 2048, by_tokens=True),
    TranslateCase("beam 5, batches of 2,048 pieces", 5, 2048, by_tokens=True),
    TranslateCase("beam 5 to the end, batches of 32", 5, 32, to_the_end=True),
    TranslateCase("beam 5, batches of 32, int8 there", 5, 32, compute="int8"),
]


def run(options: argparse.Namespace) -> int:
    """Returns the exit code: 2 where nothing can be compared."""
    try:
        import ctranslate2
        import sentencepiece
    except ModuleNotFoundError as error:
        print(f"scripts/bench: pip install {error.name}: it is not installed", file=sys.stderr)
        return 2
    from headwise.export import export_ctranslate2

    text = _lines(options.source)
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / "ctranslate2"
        export_ctranslate2(options.model, exported)
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(exported / "source.spm"))
        tokens = [pieces.encode(line, out_type=str) for line in text]
        about = {
            "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "processor": processor(),
            "ctranslate2": ctranslate2.__version__,
            "sentences": len(text),
        }
        print("; ".join(f"{name} {value}" for name, value in about.items()))
        print(
            f"\n{'case':36}{'threads':>8}{'CTranslate2':>13}{'headwise':>10}  {'tokens/s':9}"
            f"{'ms a sentence':>14}{'same':>7}{'ratio':>7}{'spread':>8}{'bar':>5}{'goal':>5}"
            "  verdict"
        )
        rows = []
        for case in CASES:
            if options.case not in case.name:
                continue
            # One sentence at a time leaves a second thread nothing of its own to do.
            for threads in options.threads if case.batch > 1 else [1]:
                peer = _CTranslate2(ctranslate2, exported, pieces, case, threads)
                count = case.lines or len(text)
                ours = _Headwise(options.model, text[:count], tokens[:count], case, threads)
                rows.append(_row(case, threads, peer, ours, tokens[:count], options.repeats))
    if options.json:
        options.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    return 0 if rows else 2


def _lines(file: Path) -> list[str]:
    content = file.read_bytes()
    return (gzip.decompress(content) if file.suffix == ".gz" else content).decode().splitlines()


class _CTranslate2:
    def __init__(
        self, library: Any, folder: Path, pieces: Any, case: TranslateCase, threads: int
    ) -> None:
        self._case, self._pieces = case, pieces
        # Batches side by side, one thread each: faster than threads that share one.
        self._translator = library.Translator(
            str(folder), compute_type=case.compute, inter_threads=threads, intra_threads=1
        )

    def translate(self, tokens: list[list[str]]) -> tuple[float, int, list[str]]:
        """Seconds, target pieces with end tokens, lines."""
        rules = {"beam_size": self._case.beam, "length_penalty": 1, "disable_unk": True}
        if self._case.to_the_end:
            rules["patience"] = 2
        begin = time.perf_counter()
        if self._case.batch == 1:
            results = [self._translator.translate_batch([one], **rules)[0] for one in tokens]
        else:
            kind = "tokens" if self._case.by_tokens else "examples"
            results = self._translator.translate_batch(
                tokens, max_batch_size=self._case.batch, batch_type=kind, **rules
            )
        seconds = time.perf_counter() - begin
        best = [result.hypotheses[0] for result in results]
        lines = [self._pieces.decode(hypothesis) for hypothesis in best]
        return seconds, sum(len(hypothesis) + 1 for hypothesis in best), lines


class _Headwise:
    """The program itself, less what it takes to start and to translate nothing."""

    def __init__(
        self,
        model: Path,
        text: list[str],
        tokens: list[list[str]],
        case: TranslateCase,
        threads: int,
    ) -> None:
        mean = sum(len(line) + 1 for line in tokens) / len(tokens)
        budget = case.batch if case.by_tokens or case.batch == 1 else round(case.batch * mean)
        program = str(Path(sys.executable).parent / "headwise")
        self._text = "".join(f"{line}\n" for line in text)
        self._command = [program, "translate", str(model), "--beam", str(case.beam)]
        self._command += ["--length-penalty", "1", "--threads", str(threads)]
        self._command += ["--batch-tokens", str(budget)]
        self._command += ["--stop-after", "0" if case.to_the_end else str(case.beam)]

    def translate(self) -> float:
        """Seconds."""
        return self._run(self._text)[0] - self._run("")[0]

    def lines(self) -> list[str]:
        return self._run(self._text)[1].splitlines()

    def _run(self, text: str) -> tuple[float, str]:
        begin = time.perf_counter()
        done = subprocess.run(self._command, input=text, text=True, capture_output=True, check=True)
        return time.perf_counter() - begin, done.stdout


def _row(
    case: TranslateCase,
    threads: int,
    peer: _CTranslate2,
    ours: _Headwise,
    tokens: list[list[str]],
    repeats: int,
) -> dict[str, Any]:
    _, pieces, lines = peer.translate(tokens)
    same = sum(a == b for a, b in zip(lines, ours.lines(), strict=True)) / len(lines)
    taken = alternate([lambda: peer.translate(tokens)[0], ours.translate], repeats)
    times = Comparison(*taken)
    bar = case.bar
    verdict = judge(times.ratio, times.spread, bar)
    best = [min(side) for side in taken]
    print(
        f"{case.name:36}{threads:8}{pieces / best[0]:13.0f}{pieces / best[1]:10.0f}  {'':9}"
        f"{best[0] / len(tokens) * 1e3:6.2f}{best[1] / len(tokens) * 1e3:8.2f}{same:7.1%}"
        f"{times.ratio:7.2f}{times.spread:8.1%}{bar or '-':>5}{case.goal or '-':>5}"
        f"  {verdict.value}",
        flush=True,
    )
    return {
        **asdict(case),
        "threads": threads,
        "target_pieces": pieces,
        "same": same,
        "ratio": times.ratio,
        "spread": times.spread,
        "verdict": verdict.value,
        "seconds": {"ctranslate2": taken[0], "headwise": taken[1]},
    }

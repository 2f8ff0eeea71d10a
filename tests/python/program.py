"""The installed program, and a small model that is trained with it once per test session."""

import functools
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

BINARY = Path(os.environ.get("HEADWISE_BINARY", Path(sys.executable).parent / "headwise"))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}  # tiny models lose by sharing work

# A model that learns a little of the embedded corpus in seconds.
TINY_CONFIG = """
[data]
kind = "embedded"
embedded_pairs = 2000
embedded_valid = 20
max_length = 40
[subword]
vocabulary = 450
[model]
width = 32
feed_forward = 64
encoder_layers = 1
decoder_layers = 1
encoder_heads = 2
decoder_heads = 2
cross_heads = 2
[schedule]
learning_rate = 0.01
warmup = 20
[train]
batch_tokens = 1000
max_steps = 200
threads = 1
[validation]
every = 200
[checkpoint]
every = 100
"""
LONGEST = 39  # pieces of a source line, its end token not counted

_folders: list[tempfile.TemporaryDirectory] = []  # removed when the interpreter ends


@dataclass
class Done:
    """What a call left behind."""

    code: int
    out: str
    err: str

    def rows(self) -> list[str]:
        """Lines as the program counts them: ended by LF alone."""
        assert self.out == "" or self.out.endswith("\n"), "the last line is not ended"
        return self.out.split("\n")[:-1]


def headwise(*arguments, stdin=b"", cwd=None, timeout=120) -> Done:
    """Runs the program to its end; `stdin` is text or bytes."""
    done = subprocess.run(
        [BINARY, *map(str, arguments)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        cwd=cwd,
        env=ENVIRONMENT,
        timeout=timeout,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@functools.cache
def tiny_run() -> Path:
    """The folder of a finished run with step-100, step-200, best and last. Only read it."""
    _folders.append(tempfile.TemporaryDirectory(prefix="headwise_tests_"))
    folder = Path(_folders[-1].name)
    (folder / "tiny.toml").write_text(TINY_CONFIG)
    done = headwise("train", folder / "tiny.toml", "--output", folder / "run")
    assert done.code == 0, done.err
    return folder / "run"


@functools.cache
def embedded_pairs(split: str = "test", count: int = 200) -> list[tuple[str, str]]:
    """Pairs of the embedded corpus as the program prints them."""
    rows = headwise("corpus", "--split", split, "--count", count).rows()
    return [tuple(row.split("\t")) for row in rows]


def error_of(done: Done, code: int) -> str:
    """The one complaint of a refused call: no output, no trace, the right exit code."""
    assert done.code == code, (done.code, done.err)
    assert done.out == ""
    lines = done.err.rstrip("\n").split("\n")
    begins = [i for i, line in enumerate(lines) if line.startswith("headwise: error: ")]
    assert len(begins) == 1, done.err
    message = lines[begins[0] :]
    assert all(line.startswith("  ") for line in message[1:]), done.err
    for noise in ("terminate called", "what():", "Exception raised from", "frame #", ".cpp:"):
        assert noise not in done.err, done.err
    return "\n".join(message).removeprefix("headwise: error: ")


def refused(*arguments, code=1, stdin="a line\n", cwd=None):
    """The message of a call that must fail."""
    return error_of(headwise(*arguments, stdin=stdin, cwd=cwd), code)


def train_subword(path, text, **options):
    options = {"vocab_size": 450, "pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_prefix=str(path),
        hard_vocab_limit=False,
        minloglevel=3,
        **options,
    )
    return path.with_suffix(".model")

"""Training text for a student: the original, and what trained models make of its source.

`python -m headwise.distill RUN [RUN …] --output DIR`, sequence-level distillation (Kim & Rush 2016)
"""

import argparse
import gzip
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import tomllib

__all__ = ["distill"]

TRANSLATE_OPTIONS = ("beam", "length-penalty", "threads")
DATA_KEYS = ("train_source", "train_target", "valid_source", "valid_target")


class DistillError(Exception):
    """What stops the work, for a user to read."""


def distill(
    runs: list[Path], output: Path, options: list[str], *, ensemble: bool = False
) -> dict[str, Path]:
    """Translate the training text of runs, each with its own model, and join it to the original.

    Args:
        runs: folders that `headwise train` wrote, all trained on the same files.
        output: folder to make; files get the names they have below data.root, and must not be
            there already.
        options: further arguments of `headwise translate`.
        ensemble: all runs translate once, as one model, instead of each by itself.

    Returns:
        What was written, by its key in [data]: the training source once for the original and once
        for each translation, the targets beside it, and copies of the validation text.

    Raises:
        DistillError: a folder is no run, the runs' texts differ, a file is missing or there
            already, or one file is meant to be two.
    """
    data = [_data_of(run) for run in runs]
    for run, other in zip(runs[1:], data[1:], strict=True):
        if other != data[0]:
            raise DistillError(f"{run} was not trained on the files of {runs[0]}")
    root = Path(data[0]["root"])
    files = {key: Path(data[0][key]) for key in DATA_KEYS if data[0][key]}
    texts = {key: _read(root / path) for key, path in files.items()}
    names = {
        key: output / (path.name if path.is_absolute() else path) for key, path in files.items()
    }
    if len(set(names.values())) < len(names):
        shared = ", ".join(sorted(str(path) for path in files.values()))
        raise DistillError(f"the keys of [data] of {runs[0]} share a file: {shared}")
    for path in names.values():
        if path.exists():
            raise DistillError(f"{path} is there already; choose another --output")
    source = texts["train_source"]
    teachers = [runs] if ensemble else [[run] for run in runs]
    translations = [_translate(teacher, source, options) for teacher in teachers]
    texts["train_source"] = source * (1 + len(teachers))
    texts["train_target"] = b"".join([texts["train_target"], *translations])
    for key, path in names.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(texts[key], mtime=0) if path.suffix == ".gz" else texts[key])
    return names


def _data_of(run: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads((run / "config.toml").read_text("utf-8"))["data"]
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DistillError(f"{run} is not the folder of a training run: {error}") from None
    if data["kind"] != "files":
        raise DistillError(
            f'{run} was trained with data.kind = "{data["kind"]}"; a run on "files" is needed'
        )
    return {key: data[key] for key in ("root", *DATA_KEYS)}


def _read(path: Path) -> bytes:
    """Whole lines: what is joined to it must begin one of its own."""
    try:
        content = path.read_bytes()
        text = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        raise DistillError(f"{path} cannot be read: {error}") from None
    return text if not text or text.endswith(b"\n") else text + b"\n"


def _translate(teacher: list[Path], source: bytes, options: list[str]) -> bytes:
    program = str(Path(sys.executable).parent / "headwise")
    names = [str(run) for run in teacher]
    command = [program, "translate", *names, *options]
    done = subprocess.run(command, input=source, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise DistillError(
            f"headwise translate {' '.join(names)} failed; what it says stands above"
        )
    return done.stdout


def main() -> int:
    """Read the command line and run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m headwise.distill",
        description="Write training text for a student: the original, and translations of its "
        "source by each RUN, or by all as one.",
    )
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="a teacher's folder")
    add("--output", type=Path, required=True, metavar="DIR", help="folder to make")
    add("--ensemble", action="store_true", help="one translation by all RUNs as one model")
    for name in TRANSLATE_OPTIONS:
        add(f"--{name}", metavar="X", help="as of headwise translate")
    options = parser.parse_args()
    given = vars(options)
    others = []
    for name in TRANSLATE_OPTIONS:
        value = given[name.replace("-", "_")]
        others += [] if value is None else [f"--{name}", value]
    try:
        written = distill(options.runs, options.output, others, ensemble=options.ensemble)
    except DistillError as error:
        print(f"headwise.distill: error: {error}", file=sys.stderr)
        return 1
    print("\n".join(f"{key:13} {path}" for key, path in written.items()))
    print(f"train a student: headwise train CONFIG --set data.root={options.output} …")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`scripts/bench quality`: what trained models translate like, and what they took."""

import argparse
import datetime
import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import tomllib

from bench.machine import processor

__all__ = ["run"]

PROGRAM = str(Path(sys.executable).parent / "headwise")
TESTS = {
    "test2016": "test_2016_flickr",
    "test2017": "test_2017_flickr",
    "COCO": "test_2017_mscoco",
}
# What says where a run lives and how long it may take, not what it learns.
INCIDENTAL = ("data.root", "train.seed", "train.threads", "checkpoint.", "validation.every")
KEPT = ("score", "signature")  # of what headwise evaluate says


class QualityError(Exception):
    """What stops the report, for a user to read."""


def run(options: argparse.Namespace) -> int:
    """Returns the exit code: 2 where a run or a text cannot be read."""
    try:
        rows = [_row(folder, options) for folder in options.runs]
        together = [_together(rows, options)] if options.ensemble else []
    except QualityError as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 2
    _print(rows, together, options.tests)
    if options.append:
        with options.append.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in [*rows, *together])
    return 0


def _row(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    try:
        text = (folder / "config.toml").read_text("utf-8")
        state = json.loads((folder / options.checkpoint / "state.json").read_text("utf-8"))
        diary = [json.loads(line) for line in (folder / "metrics.jsonl").open(encoding="utf-8")]
    except (OSError, ValueError) as error:
        raise QualityError(f"{folder} is not the folder of a training run: {error}") from None
    updates = [entry for entry in diary if entry["event"] == "train"]
    if not updates:
        raise QualityError(f"{folder}: its metrics.jsonl tells of no update (train.log_every)")
    last = max(updates, key=lambda entry: entry["step"])
    validations = [entry for entry in diary if entry["event"] == "validation"]
    checks = sum(entry["validation_seconds"] for entry in validations)
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "note": options.note,
        "processor": processor(),
        "threads": state["threads"],
        "precision": state["precision"],
        "command": _command(text),
        "settings": _settings(text),
        "seed": tomllib.loads(text)["train"]["seed"],
        "updates": last["step"],
        "epochs": round(last["epoch"], 1),
        "minutes": round((last["seconds"] + checks) / 60, 1),
        "tokens_per_second": round(
            (last["source_tokens"] + last["target_tokens"]) / last["seconds"]
        ),
        "checkpoint": state["step"],
        "length_penalty": options.length_penalty,
        "curve": [
            [entry["step"], round(entry["nll"], 4), round(entry.get("bleu", 0.0), 2)]
            for entry in validations
        ],
        "scores": _all_scores([folder], options),
    }


def _together(rows: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """All runs translating as one model; training them took the sum of their times."""
    kept = ("date", "note", "processor", "length_penalty")
    return {
        **{key: rows[0][key] for key in kept},
        "ensemble": [[row["command"], row["seed"]] for row in rows],
        "minutes": round(sum(row["minutes"] for row in rows), 1),
        "scores": _all_scores(options.runs, options),
    }


def _all_scores(runs: list[Path], options: argparse.Namespace) -> dict[str, Any]:
    translate = ["translate", *(str(folder / options.checkpoint) for folder in runs)]
    if options.length_penalty is not None:
        translate += ["--length-penalty", str(options.length_penalty)]
    texts = {"validation": "val", **(TESTS if options.tests else {})}
    return {name: _scores(translate, options.data / file) for name, file in texts.items()}


_LINE = re.compile(r"^(?P<key>\w+) = (?P<value>.*?)  # (?P<origin>[^#\"]*)$")


def _origins(text: str) -> dict[str, tuple[str, str]]:
    """section.key -> what stands there, and where it comes from."""
    section, found = "", {}
    for line in text.splitlines():
        if line.startswith("["):
            section = line[1 : line.index("]")]
        elif match := _LINE.match(line):
            found[f"{section}.{match['key']}"] = (match["value"], match["origin"])
    return found


def _command(text: str) -> str:
    origins = _origins(text)
    files = {origin.rsplit(":", 1)[0] for _, origin in origins.values() if ".toml:" in origin}
    changed = [
        f"{key}={'DIR' if key == 'data.root' else value}"
        for key, (value, origin) in origins.items()
        if origin == "--set"
    ]
    return " ".join(["headwise train", *sorted(files), *(["--set", *changed] if changed else [])])


def _settings(text: str) -> dict[str, str]:
    """All that was not left at its default, but for what is incidental."""
    return {
        key: value
        for key, (value, origin) in _origins(text).items()
        if origin != "default" and not key.startswith(INCIDENTAL)
    }


def _scores(translate: list[str], text: Path) -> dict[str, Any]:
    """BLEU and chrF of the lower-cased and the cased comparison, as `headwise evaluate` says."""
    source, reference = (text.with_name(f"{text.name}.{side}.gz") for side in ("en", "de"))
    for file in (source, reference):
        if not file.exists():
            raise QualityError(f"{file} is missing; scripts/get_multi30k fetches it")
    lines = gzip.decompress(source.read_bytes())
    translation = _call(*translate, given=lines)
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(translation)
        file.flush()
        found = json.loads(_call("evaluate", file.name, str(reference), "--json"))
    return {
        case: {kind: {key: scores[kind][key] for key in KEPT} for kind in scores}
        for case, scores in found.items()
    }


def _call(*arguments: str, given: bytes = b"") -> bytes:
    done = subprocess.run([PROGRAM, *arguments], input=given, capture_output=True, check=False)
    if done.returncode != 0:
        raise QualityError(f"headwise {arguments[0]} failed: {done.stderr.decode().strip()}")
    return done.stdout


def _pair(scores: dict[str, Any]) -> str:
    lower, cased = (scores[case]["bleu"]["score"] for case in ("lowercase", "cased"))
    return f"{lower:.2f} / {cased:.2f}"


def _print(rows: list[dict[str, Any]], together: list[dict[str, Any]], tests: bool) -> None:
    names = ["validation", *(TESTS if tests else [])]
    print("BLEU, lower-cased / cased, of each run, of all together if asked; then means over seeds")
    print(f"{'':>6}{'seed':>6}{'updates':>9}{'epochs':>8}{'minutes':>9}{'tokens/s':>10}", end="")
    print("".join(f"{name:>16}" for name in names))
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(json.dumps(row["settings"], sort_keys=True), []).append(i)
        print(
            f"{i + 1:>6}{row['seed']:>6}{row['updates']:>9}{row['epochs']:>8}{row['minutes']:>9}"
            f"{row['tokens_per_second']:>10}",
            end="",
        )
        print("".join(f"{_pair(row['scores'][name]):>16}" for name in names))
    for row in together:
        print(f"{'all':>6}{row['minutes']:>32}{'':>10}", end="")
        print("".join(f"{_pair(row['scores'][name]):>16}" for name in names))
    for members in groups.values():
        print(f"\n{', '.join(str(i + 1) for i in members)}: {rows[members[0]]['command']}")
        for name in names if len(members) > 1 else []:
            bleu = [rows[i]["scores"][name]["lowercase"]["bleu"]["score"] for i in members]
            print(f"  {name}: mean {mean(bleu):.2f}, {min(bleu):.2f} to {max(bleu):.2f}")

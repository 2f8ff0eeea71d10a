"""`scripts/bench quality` on a run of seconds."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest
import sacrebleu
from program import embedded_pairs, headwise
from training import Training

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench"
FILES = ("val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")


def quality(*arguments):
    command = [SCRIPT, "quality", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two seeds, and texts of twelve lines where the corpus' files would be."""
    folder = tmp_path_factory.mktemp("quality")
    for seed in (1, 2):
        training = Training(folder / f"seed-{seed}", ["train.max_steps=60", "validation.every=30"])
        training.run(f"train.seed={seed}")
    sides = zip(*embedded_pairs("valid", 12), strict=True)
    for language, lines in zip(("en", "de"), sides, strict=True):
        text = gzip.compress("".join(f"{line}\n" for line in lines).encode())
        for name in FILES:
            (folder / f"{name}.{language}.gz").write_bytes(text)
    return folder


def test_scores_are_sacrebleus_and_nothing_is_lost(run):
    table = run / "runs.jsonl"
    folders = [run / "seed-1", run / "seed-2"]
    for _ in range(2):
        done = quality(*folders, "--data", run, "--tests", "--append", table, "--note", "N")
        assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in table.read_text("utf-8").splitlines()]
    assert [row["seed"] for row in rows] == [1, 2, 1, 2]
    source = gzip.decompress((run / "val.en.gz").read_bytes()).decode()
    references = gzip.decompress((run / "val.de.gz").read_bytes()).decode().splitlines()
    means = []
    for row, folder in zip(rows[:2], folders, strict=True):
        translation = headwise("translate", str(folder / "best"), stdin=source).out.splitlines()
        for case, lowercase in (("lowercase", True), ("cased", False)):
            theirs = sacrebleu.corpus_bleu(translation, [references], lowercase=lowercase)
            for text in ("validation", "test2016", "test2017", "COCO"):
                score = row["scores"][text][case]["bleu"]
                assert score["score"] == pytest.approx(theirs.score, abs=1e-9)
                assert ("case:lc" in score["signature"]) == lowercase
            means.append(theirs.score)
        assert row["updates"] == 60
        assert row["note"] == "N"
        assert [point[0] for point in row["curve"]] == [30, 60]
        assert row["settings"]["model.width"] == "16"
        assert "train.max_steps=60" in row["command"]
        assert "train.seed" not in row["settings"]
    assert f"validation: mean {(means[0] + means[2]) / 2:.2f}, " in done.stdout


def test_runs_together_are_one_model(run):
    table = run / "together.jsonl"
    folders = [run / "seed-1", run / "seed-2"]
    done = quality(*folders, "--data", run, "--ensemble", "--append", table)
    assert done.returncode == 0, done.stderr
    *alone, both = [json.loads(line) for line in table.read_text("utf-8").splitlines()]
    assert [seed for _, seed in both["ensemble"]] == [1, 2]
    assert both["minutes"] == pytest.approx(sum(row["minutes"] for row in alone), abs=0.01)
    source = gzip.decompress((run / "val.en.gz").read_bytes()).decode()
    references = gzip.decompress((run / "val.de.gz").read_bytes()).decode().splitlines()
    models = [str(folder / "best") for folder in folders]
    translation = headwise("translate", *models, stdin=source).out.splitlines()
    theirs = sacrebleu.corpus_bleu(translation, [references], lowercase=True)
    score = both["scores"]["validation"]["lowercase"]["bleu"]["score"]
    assert score == pytest.approx(theirs.score, abs=1e-9)
    assert f"{score:.2f} / " in done.stdout.splitlines()[4]


def test_what_is_missing_is_named(run, tmp_path):
    for folder, data, complaint in [
        (tmp_path, run, f"{tmp_path} is not the folder of a training run"),
        (run / "seed-1", tmp_path, "val.en.gz is missing; scripts/get_multi30k fetches it"),
    ]:
        done = quality(folder, "--data", data)
        assert done.returncode == 2
        assert complaint in done.stderr
        assert "Traceback" not in done.stderr

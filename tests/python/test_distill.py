"""`python -m headwise.distill` on teachers of seconds."""

import gzip
import subprocess
import sys

import pytest
from program import embedded_pairs, headwise
from training import Training

PAIRS = 40


def distill(*arguments):
    command = [sys.executable, "-m", "headwise.distill", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Files in folders of their own; the target is plain and its last line is not ended."""
    folder = tmp_path_factory.mktemp("text")
    sources, targets = zip(*embedded_pairs("train", PAIRS), strict=True)
    for language in ("en", "ko"):
        (folder / language).mkdir()
    (folder / "en" / "text.gz").write_bytes(gzip.compress("\n".join([*sources, ""]).encode()))
    (folder / "en" / "valid").write_text(sources[0] + "\n", "utf-8")
    (folder / "ko" / "valid").write_text(targets[0] + "\n", "utf-8")
    (folder / "ko" / "text").write_text("\n".join(targets), "utf-8")
    return folder


@pytest.fixture(scope="module")
def teachers(text):
    names = ["train_source='en/text.gz'", "train_target='ko/text'"]
    names += ["valid_source='en/valid'", "valid_target='ko/valid'"]
    data = ["data.kind='files'", f"data.root={text}", *(f"data.{name}" for name in names)]
    runs = []
    for seed in (1, 2):
        run = Training(text / f"run-{seed}", [*data, "subword.vocabulary=280"])
        run.run(f"train.seed={seed}", "train.max_steps=150")
        runs.append(run.folder)
    return runs


def test_the_original_then_what_each_teacher_says(text, teachers, tmp_path):
    done = distill(*teachers, "--output", tmp_path / "new", "--beam", "2")
    assert done.returncode == 0, done.stderr
    written = [(tmp_path / "new" / name).read_bytes() for name in ("en/text.gz", "ko/text")]
    sources = gzip.decompress(written[0]).decode().splitlines()
    targets = written[1].decode().splitlines()
    originals = [list(side) for side in zip(*embedded_pairs("train", PAIRS), strict=True)]
    assert sources == 3 * originals[0]
    assert targets[:PAIRS] == originals[1]
    stdin = "".join(f"{line}\n" for line in originals[0])
    for i, teacher in enumerate(teachers, 1):
        own = headwise("translate", teacher, "--beam", "2", stdin=stdin).rows()
        assert targets[i * PAIRS : (i + 1) * PAIRS] == own
    settings = ["data.kind='files'", f"data.root={tmp_path / 'new'}", "subword.vocabulary=280"]
    settings += ["data.train_source='en/text.gz'", "data.train_target='ko/text'"]
    student = Training(tmp_path / "student", settings).run("train.max_steps=2")
    # A young teacher says nothing now and then, and the trainer leaves such pairs out.
    assert f"training: {sum(map(bool, targets))} pairs" in student.err


def test_teachers_translate_as_one_if_asked(text, teachers, tmp_path):
    done = distill(*teachers, "--output", tmp_path, "--ensemble", "--beam", "2")
    assert done.returncode == 0, done.stderr
    sources, targets = zip(*embedded_pairs("train", PAIRS), strict=True)
    written = gzip.decompress((tmp_path / "en" / "text.gz").read_bytes()).decode().splitlines()
    assert written == 2 * list(sources)
    stdin = "".join(f"{line}\n" for line in sources)
    own = headwise("translate", *teachers, "--beam", "2", stdin=stdin).rows()
    assert (tmp_path / "ko" / "text").read_text("utf-8").splitlines() == [*targets, *own]


def test_bad_calls_lose_nothing(text, teachers, tmp_path):
    other = Training(tmp_path / "embedded", ["train.max_steps=1"])
    other.run()
    for runs, output, complaint in [
        ([tmp_path], tmp_path / "a", f"{tmp_path} is not the folder of a training run"),
        ([other.folder], tmp_path / "a", 'data.kind = "embedded"; a run on "files" is needed'),
        (teachers, text, "text.gz is there already; choose another --output"),
    ]:
        done = distill(*runs, "--output", output)
        assert done.returncode == 1
        assert complaint in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "a").exists()
    assert (text / "ko" / "text").read_text("utf-8").splitlines()[-1] == embedded_pairs(
        "train", PAIRS
    )[-1][1]


def test_teachers_of_different_text_are_refused(text, teachers, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    config = (teachers[0] / "config.toml").read_text("utf-8")
    (copy / "config.toml").write_text(config.replace("ko/text", "ko/other"), "utf-8")
    done = distill(teachers[0], copy, "--output", tmp_path / "a")
    assert done.returncode == 1
    assert f"{copy} was not trained on the files of {teachers[0]}" in done.stderr


def test_a_damaged_text_is_named(text, teachers, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    config = (teachers[0] / "config.toml").read_text("utf-8")
    (run / "config.toml").write_text(config.replace("en/text.gz", "en/damaged.gz"), "utf-8")
    whole = (text / "en" / "text.gz").read_bytes()
    (text / "en" / "damaged.gz").write_bytes(whole[:-20])
    done = distill(run, "--output", tmp_path / "a")
    assert done.returncode == 1
    assert "damaged.gz cannot be read" in done.stderr
    assert "Traceback" not in done.stderr

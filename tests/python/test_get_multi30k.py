"""scripts/get_multi30k on folders that hold good and bad copies; nothing is fetched."""

import gzip
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "get_multi30k"
LINES = {
    "train": 29000,
    "val": 1014,
    "test_2016_flickr": 1000,
    "test_2017_flickr": 1000,
    "test_2017_mscoco": 461,
}
NAMES = [f"{part}.{language}.gz" for part in LINES for language in ("en", "de")]


def run(*arguments):
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def copies(tmp_path):
    """A folder of files with the right names and line counts."""
    folder = tmp_path / "copies"
    folder.mkdir()
    for part, count in LINES.items():
        for language in ("en", "de"):
            (folder / f"{part}.{language}.gz").write_bytes(gzip.compress(b"a line\n" * count))
    return folder


def test_good_copies_are_taken_and_the_next_command_named(copies, tmp_path):
    target = tmp_path / "new" / "folder"
    result = run(target, "--from", copies)
    assert result.returncode == 0, result.stderr
    assert sorted(file.name for file in target.iterdir()) == sorted(NAMES)
    assert f"--set data.root={target}" in result.stdout


def test_a_second_run_keeps_what_is_whole_and_replaces_what_is_not(copies, tmp_path):
    target = tmp_path / "target"
    run(target, "--from", copies)
    (target / "val.de.gz").write_bytes(b"damaged")
    result = run(target, "--from", copies)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("is there already") == len(NAMES) - 1
    assert (target / "val.de.gz").read_bytes() == (copies / "val.de.gz").read_bytes()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"<html>not found</html>", "not a whole gzip file"),
        (gzip.compress(b"a line\n" * 1014)[:-9], "not a whole gzip file"),
        (gzip.compress(b"a line\n" * 1013), "1013 lines, but 1014 are needed"),
    ],
)
def test_a_bad_copy_is_refused(copies, tmp_path, content, complaint):
    (copies / "val.en.gz").write_bytes(content)
    result = run(tmp_path / "target", "--from", copies)
    assert result.returncode == 1
    assert f"val.en.gz: {complaint}" in result.stderr
    assert not list((tmp_path / "target").glob("val.en.gz*"))


@pytest.mark.parametrize(
    "arguments", [(), ("a", "b"), ("a", "--form", "b"), ("--help",), ("a", "--from", "missing")]
)
def test_bad_arguments_are_refused(tmp_path, arguments, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.returncode == 1
    assert result.stderr.startswith("scripts/get_multi30k: ")
    assert not list(tmp_path.iterdir())

"""A checkpoint that is not whole, or not what it says, is refused by the name of the file."""

import json
import re
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
import sentencepiece
from program import embedded_pairs, refused, tiny_run, train_subword

FILES = (
    "config.toml",
    "manifest.json",
    "model.safetensors",
    "source.spm",
    "state.json",
    "train_state.safetensors",
)


# --- models that are none


@pytest.mark.parametrize("command", ["translate", "inspect", "average"])
def test_a_model_that_is_none(command, tmp_path):
    (tmp_path / "file").write_text("no model")
    (tmp_path / "folder").mkdir()
    more = ["--output", tmp_path / "out"] if command == "average" else []
    for name, words in (
        ("missing", "No such file"),
        ("folder", "no checkpoint"),
        ("file", "Not a directory"),
    ):
        message = refused(command, tmp_path / name, *more)
        assert str(tmp_path / name) in message and words in message, message


# --- damaged checkpoints


@pytest.fixture
def checkpoint(tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(tiny_run() / "step-200", copy)
    return copy


def test_the_files_of_a_checkpoint_are_those_damaged_here():
    assert sorted(path.name for path in (tiny_run() / "step-200").iterdir()) == sorted(FILES)


def truncate(path, size):
    path.write_bytes(path.read_bytes()[:size])


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    place = data.index(b'"sha256": "') + 15 if path.name == "manifest.json" else len(data) // 2
    data[place] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "empty": lambda path: truncate(path, 0),
    "100 bytes": lambda path: truncate(path, 100),
    # The manifest's last byte is the line feed after the text: without it nothing is lost.
    "the end missing": lambda path: truncate(path, -2 if path.name == "manifest.json" else -1),
    "a bit flipped": flip_a_bit,
    "removed": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_checkpoint_is_refused_by_the_name_of_the_file(checkpoint, name, damage):
    DAMAGE[damage](checkpoint / name)
    message = refused("inspect", checkpoint)
    if name == "manifest.json" and damage == "removed":
        assert str(checkpoint) in message
    elif name == "manifest.json" and damage == "a bit flipped":
        assert "SHA-256" in message
    else:
        assert str(checkpoint / name) in message


@pytest.mark.parametrize(
    "pair", [("model.safetensors", "train_state.safetensors"), ("config.toml", "state.json")]
)
def test_swapped_files_are_refused_by_every_command(checkpoint, pair, tmp_path):
    one, two = (checkpoint / name for name in pair)
    one.rename(checkpoint / "aside")
    two.rename(one)
    (checkpoint / "aside").rename(two)
    (tmp_path / "text").write_text("a line\n")
    for arguments in (
        ["translate", checkpoint],
        ["inspect", checkpoint],
        ["score", checkpoint, tmp_path / "text", tmp_path / "text"],
        ["average", checkpoint, "--output", tmp_path / "out"],
    ):
        assert any(str(path) in refused(*arguments) for path in (one, two))


def renew_manifest(checkpoint, **changes):
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    for name in manifest["files"]:
        data = (checkpoint / name).read_bytes()
        manifest["files"][name] = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    (checkpoint / "manifest.json").write_text(json.dumps({**manifest, **changes}))


def test_a_newer_format_is_refused_with_both_versions(checkpoint):
    renew_manifest(checkpoint, format_version=99)
    message = refused("translate", checkpoint)
    assert "manifest.json" in message and "99" in message and "reads 1" in message


def test_weights_of_another_shape_do_not_fit(checkpoint):
    config = checkpoint / "config.toml"
    config.write_text(re.sub(r"(?m)^width = 32\b", "width = 64", config.read_text()))
    renew_manifest(checkpoint)
    message = refused("translate", checkpoint)
    assert "model.safetensors" in message and "does not fit" in message
    assert re.search(r"found \[\d+, 32\], needed \[\d+, 64\]", message), message


def test_another_subword_model_of_the_same_size_is_noticed(checkpoint, tmp_path):
    text = [side for pair in embedded_pairs("train", 2000) for side in pair]
    other = train_subword(tmp_path / "other", text[::3])
    ours = (checkpoint / "source.spm").read_bytes()
    sizes = [
        sentencepiece.SentencePieceProcessor(model_proto=proto).vocab_size()
        for proto in (other.read_bytes(), ours)
    ]
    assert sizes[0] == sizes[1] and other.read_bytes() != ours
    shutil.copy(other, checkpoint / "source.spm")
    assert str(checkpoint / "source.spm") in refused("translate", checkpoint)


def test_an_average_of_models_with_different_pieces(checkpoint, tmp_path):
    text = [side for pair in embedded_pairs("train", 2000) for side in pair]
    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    shutil.copy(train_subword(tmp_path / "pieces", text[::3]), other / "source.spm")
    renew_manifest(other)
    message = refused("average", checkpoint, other, "--output", tmp_path / "mean")
    assert "source.spm" in message and str(other) in message
    assert not (tmp_path / "mean").exists()

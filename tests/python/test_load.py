"""headwise.load gives the model the trainer wrote: twin.py and the program are the judges."""

import copy
import dataclasses
import json
import pickle
import re
import shutil
import sys

import headwise
import pytest
import torch
import torch.nn.functional as F
from architectures import ARCHITECTURES, trained
from headwise.checkpoint import resolve_checkpoint
from headwise.model_config import read_config
from headwise.transformer import EncoderLayer, FeedForward, Residual, Transformer
from program import embedded_pairs, tiny_run
from program import headwise as run_program
from safetensors.torch import load_file
from test_damaged_checkpoints import DAMAGE, FILES, renew_manifest
from twin import Twin

SOURCES, TARGETS = (list(side) for side in zip(*embedded_pairs(count=12), strict=True))
SOURCES, TARGETS = ["a", *SOURCES], [" ".join(TARGETS[:3]), *TARGETS]  # unlike in length
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-11}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def checkpoint(request):
    return trained(request.param)


@pytest.fixture(params=TOLERANCE, ids=["fp32", "fp64"])
def dtype(request):
    return request.param


@pytest.fixture(scope="module")
def tiny():
    return headwise.load(tiny_run())


@pytest.fixture
def copied(tmp_path):
    """A checkpoint to damage."""
    return shutil.copytree(tiny_run() / "step-200", tmp_path / "model")


def rows_of(scores, lengths):
    """The scores that mean something, (labels, V)."""
    return torch.cat([row[:n] for row, n in zip(scores, lengths, strict=True)])


def scores_of(model, sources, targets):
    source, source_lengths = model.batch(sources)
    labels, lengths = model.batch(targets, "target")
    scores = model(source, model.decoder_input(labels), source_lengths, lengths)
    return rows_of(scores, lengths), rows_of(labels, lengths)


def assert_near(actual, expected, tolerance):
    assert actual.shape == expected.shape
    assert (actual - expected).norm().item() <= tolerance * expected.norm().item()


# --- the numbers


def test_scores_losses_and_gradients_are_the_twins(checkpoint, dtype):
    twin, model = Twin(checkpoint, dtype), headwise.load(checkpoint, dtype=dtype)
    scores, labels = scores_of(model, SOURCES, TARGETS)
    assert_near(scores, torch.cat(twin.logits(SOURCES, TARGETS)), TOLERANCE[dtype])

    smoothing = twin.config["train"]["label_smoothing"]
    loss = F.cross_entropy(scores, labels, reduction="sum", label_smoothing=smoothing)
    assert loss.item() == pytest.approx(twin.losses(SOURCES, TARGETS)[0].item(), rel=1e-5)
    (loss / len(labels)).backward()
    expected = twin.gradients(SOURCES, TARGETS)
    got = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert got.keys() == expected.keys()
    names = sorted(got)
    flat = [torch.cat([side[name].flatten() for name in names]) for side in (got, expected)]
    assert_near(*flat, TOLERANCE[dtype])


def test_lengths_are_found_by_the_padding(checkpoint):
    model = headwise.load(checkpoint)
    source, lengths = model.batch(SOURCES)
    labels, target_lengths = model.batch(TARGETS, "target")
    target = model.decoder_input(labels)
    assert lengths.min() < source.size(1)
    want = rows_of(model(source, target, lengths, target_lengths), target_lengths)
    assert torch.equal(rows_of(model(source, target), target_lengths), want)


def test_pieces_are_the_twins(checkpoint):
    model, twin = headwise.load(checkpoint), Twin(checkpoint)
    assert [model.encode(line) for line in SOURCES] == twin.source_ids(SOURCES)
    assert [model.encode(line, "target") for line in TARGETS] == twin.target_ids(TARGETS)
    for line, ids in zip(TARGETS, twin.target_ids(TARGETS), strict=True):
        assert model.decode([twin.target.bos_id(), *ids]) == twin.target.decode(ids[:-1])
        assert line == model.decode(ids) or twin.target.unk_id() in ids
    with pytest.raises(ValueError, match='"left"'):
        model.encode("a", "left")


def test_steps_with_caches_score_as_the_whole_at_once(checkpoint):
    model = headwise.load(checkpoint, dtype=torch.float64)
    source, source_lengths = model.batch(SOURCES[:3])
    target = torch.randint(4, 300, (4, 6))
    target[:, 3:] = target[[0, 0, 2, 1], 3:]
    crossings = torch.tensor([1, 1, 0])  # after three tokens: rows move, one doubles, one is gone
    with torch.no_grad():
        memory = model.run_encoder(source, source_lengths)
        state = model.start(memory, capacity=6)
        parents = torch.tensor([0, 1, 2])
        for i in range(6):
            if i == 3:
                parents, want_rows = crossings, crossings
                prefix = target[crossings, :3]
                target = torch.cat([prefix, target[:3, 3:]], 1)
            elif i == 0:
                want_rows = parents
            else:
                parents = torch.arange(3)
            got = model.step(state, target[:3, i], parents)
            want = model(source[want_rows], target[:3, : i + 1], source_lengths[want_rows])[:, -1]
            assert_near(got, want, 1e-11)


# --- translating


def test_greedy_translations_are_the_programs(tiny):
    sources = (source for source, _ in embedded_pairs())
    lines = [*(line for line in sources if len(tiny.encode(line)) <= 40), "", " \t", "\u200b", "a"]
    printed = run_program("translate", tiny_run(), "--beam", 1, stdin="\n".join(lines) + "\n")
    assert tiny.translate(lines) == printed.rows()
    assert tiny.translate(lines, batch_size=7) == printed.rows()
    assert len(set(printed.rows())) > 30


def test_nothing_to_translate(tiny):
    assert tiny.translate([]) == []
    assert tiny.translate(["", " "]) == ["", ""]


def test_translations_are_refused_in_words(tiny):
    long = " ".join(["dog"] * 50)
    with pytest.raises(ValueError, match=r"line 2 has \d+ pieces.* at most 40"):
        tiny.translate(["a", long])
    with pytest.raises(ValueError, match=r"batch_size .* 0"):
        tiny.translate(["a"], batch_size=0)
    with pytest.raises(RuntimeError, match="eval"):
        copy.deepcopy(tiny).train().translate(["a"])
    with pytest.raises(ValueError, match=r"source must be integer ids .* \(3,\)"):
        tiny(torch.ones(3, dtype=torch.int64), torch.ones(1, 1, dtype=torch.int64))


# --- the module


def test_parameters_are_those_of_the_file(checkpoint):
    file = load_file(checkpoint / "model.safetensors")
    state = headwise.load(checkpoint).state_dict()
    assert state.keys() == file.keys()
    assert all(torch.equal(state[name], value) for name, value in file.items())


def test_loading_asks_for_no_random_number_and_gives_a_model_to_use():
    before = torch.get_rng_state()
    model = headwise.load(trained("plain"), device="cpu", dtype=torch.float64)
    assert torch.equal(before, torch.get_rng_state())
    assert not any(module.training for module in model.modules())
    assert all(p.requires_grad and p.dtype == torch.float64 for p in model.parameters())


def test_dropout_acts_in_training_only():
    model = headwise.load(trained("plain"))
    once, twice = (scores_of(model, SOURCES, TARGETS)[0] for _ in range(2))
    assert torch.equal(once, twice)
    model.train()
    once, twice = (scores_of(model, SOURCES, TARGETS)[0] for _ in range(2))
    assert not torch.equal(once, twice)


@pytest.mark.parametrize("kind", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_kind_of_dropout_has_its_places(kind):
    config, _ = read_config(trained("plain") / "config.toml")
    none = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    config = dataclasses.replace(config, **{**none, kind: 0.5})
    attention = EncoderLayer(config, 0).self_attention
    x = torch.randn(1, 3, config.width)
    feed_forward, residual = FeedForward(config), Residual(config)
    empty = dataclasses.replace(config, encoder_layers=0, norm="post")
    embedding = Transformer(empty, 5, 5, (0, 0))
    places = {
        "attention_dropout": lambda: attention(x),
        "activation_dropout": lambda: feed_forward(x),
        "dropout": lambda: residual.around(0 * x, lambda _: x),
        "dropout, embedding": lambda: embedding.run_encoder(torch.tensor([[1, 2, 3]])).states,
    }
    for name, run in places.items():
        assert torch.equal(run(), run()) == (name.split(",")[0] != kind), name


def test_padding_begin_and_unknown_never_come_out(tiny, monkeypatch):
    lines = [SOURCES[i] for i in (0, 1, 3)]
    wanted = tiny.translate(lines)
    vocabulary, step = tiny.target_vocabulary, tiny.step
    forbidden = [vocabulary.pad, vocabulary.bos, vocabulary.unk]

    def tempting_step(*arguments):
        return step(*arguments).index_fill(1, torch.tensor(forbidden), 1e9)

    monkeypatch.setattr(tiny, "step", tempting_step)
    assert tiny.translate(lines) == wanted


def test_copies_and_pickles_compute_the_same(checkpoint):
    model = headwise.load(checkpoint)
    want, _ = scores_of(model, SOURCES, TARGETS)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(scores_of(twin, SOURCES, TARGETS)[0], want)
        assert twin.translate(SOURCES[:2]) == model.translate(SOURCES[:2])


# --- which checkpoint


def test_a_run_means_its_best_then_last_then_newest_checkpoint(tmp_path):
    for step in (1, 9, 10):
        (tmp_path / f"step-{step}").mkdir()
        (tmp_path / f"step-{step}" / "manifest.json").touch()
    (tmp_path / "step-11").mkdir()  # being written
    assert resolve_checkpoint(tmp_path) == tmp_path / "step-10"
    (tmp_path / "last").symlink_to("step-9")
    assert resolve_checkpoint(tmp_path) == tmp_path / "step-9"
    (tmp_path / "best").symlink_to("step-1")
    assert resolve_checkpoint(str(tmp_path)) == tmp_path / "step-1"
    assert resolve_checkpoint(tmp_path / "last") == tmp_path / "step-9"
    assert resolve_checkpoint(tmp_path / "step-10") == tmp_path / "step-10"


def test_no_checkpoint_is_said_by_path(tmp_path):
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "absent")):
        headwise.load(tmp_path / "absent")
    with pytest.raises(ValueError, match=f"{tmp_path}: found no checkpoint"):
        headwise.load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=f"{tmp_path / 'file'}: found no checkpoint"):
        headwise.load(tmp_path / "file")


# --- damage


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_checkpoint_is_refused_by_the_name_of_the_file(copied, name, damage):
    DAMAGE[damage](copied / name)
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        headwise.load(copied)
    if name == "manifest.json" and damage == "a bit flipped":
        assert "SHA-256" in str(caught.value)
    else:
        place = copied if name == "manifest.json" and damage == "removed" else copied / name
        assert str(place) in str(caught.value)
    if name != "manifest.json" and damage in ("empty", "100 bytes", "the end missing"):
        size = (copied / name).stat().st_size
        assert f"found {size} bytes; its manifest says" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("config.toml", "width = = 3", ["config.toml", "TOML"]),
        ("config.toml", "[model]\n", ["config.toml", "width", "[model]"]),
        ("source.spm", "", ["source.spm", "SentencePiece"]),
        ("source.spm", "no model", ["source.spm", "SentencePiece"]),
        ("model.safetensors", "no tensors", ["model.safetensors", "damaged"]),
    ],
)
def test_content_that_is_whole_but_wrong(copied, name, text, words):
    (copied / name).write_text(text)
    renew_manifest(copied)
    with pytest.raises(ValueError) as caught:
        headwise.load(copied)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("pattern", "change", "words"),
    [
        (r"(?m)^width = 32\b", "width = 64", ["does not fit", "found [32], needed [64]", "more"]),
        ('norm = "pre"', 'norm = "post"', ["surplus tensor encoder_norm"]),
        ("encoder_layers = 1", "encoder_layers = 2", ["missing tensor encoder_1"]),
        ('norm = "pre"', 'norm = "none"', ["model.norm", "'none'", "'post'"]),
        ("cross_heads = 2", "cross_heads = [2, 2]", ["model.cross_heads", "2 numbers", "1 layers"]),
    ],
)
def test_a_configuration_of_another_model_does_not_fit(copied, pattern, change, words):
    config = copied / "config.toml"
    text, count = re.subn(pattern, change, config.read_text())
    assert count == 1
    config.write_text(text)
    renew_manifest(copied)
    with pytest.raises(ValueError) as caught:
        headwise.load(copied)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_newer_format_is_refused_with_both_versions(copied):
    renew_manifest(copied, format_version=99)
    with pytest.raises(ValueError, match=r"manifest\.json: found format_version 99.* reads 1"):
        headwise.load(copied)


@pytest.mark.parametrize(
    "row", [{}, {"bytes": 1}, {"bytes": "1", "sha256": "a"}, {"bytes": 1, "sha256": 2}, None]
)
def test_a_manifest_that_says_too_little(copied, row):
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["state.json"] = row
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"manifest\.json: damaged: the row of 'state\.json'"):
        headwise.load(copied)


def test_a_manifest_that_leads_out_of_its_folder(copied):
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["../secret"] = {"bytes": 1, "sha256": "00"}
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="not a file of this folder"):
        headwise.load(copied)


@pytest.mark.parametrize("package", ["sentencepiece", "safetensors"])
def test_an_absent_package_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        headwise.load(tiny_run())

"""A checkpoint gives the same numbers in Headwise and in a plain PyTorch model (twin.py).

Headwise computes packed tokens, the twin padded batches: that both forms agree is shown too.
"""

import itertools
import os
import subprocess
from pathlib import Path

import pytest
import torch
from architectures import ARCHITECTURES, trained
from program import embedded_pairs, headwise
from safetensors.torch import load_file
from twin import Twin

RELEASE = Path(__file__).resolve().parents[2] / "build" / "release"
PROBE = Path(os.environ.get("HEADWISE_BUILD", RELEASE)) / "tests" / "cpp" / "train" / "twin_probe"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Two files of 13 pairs, unlike in length, and their lines."""
    folder = tmp_path_factory.mktemp("texts")
    sources, targets = zip(*embedded_pairs(count=12), strict=True)
    sources, targets = ["a", *sources], [" ".join(targets[:3]), *targets]
    for name, lines in (("source", sources), ("target", targets)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / "source", folder / "target", sources, targets


@pytest.fixture(scope="module", params=ARCHITECTURES)
def checkpoint(request):
    return trained(request.param)


@pytest.fixture(scope="module")
def probed(checkpoint, texts):
    """What the C++ side computes for the texts."""
    build = "cmake --build --preset release --target headwise_tests"
    assert PROBE.exists(), f"{PROBE} is absent; build it with: {build}"
    output = texts[0].parent / "probe.safetensors"
    subprocess.run([PROBE, checkpoint, *texts[:2], output], check=True)
    return load_file(output)


@pytest.fixture(scope="module", params=[torch.float32, torch.float64], ids=["fp32", "fp64"])
def twin(request, checkpoint):
    return Twin(checkpoint, request.param)


def distance(actual, expected):
    return (actual.double() - expected.double()).norm().item()


def test_pieces(probed, twin, texts):
    _, _, sources, targets = texts
    source_ids, labels = twin.source_ids(sources), twin.target_ids(targets)
    assert probed["source_tokens"].tolist() == list(itertools.chain(*source_ids))
    assert probed["labels"].tolist() == list(itertools.chain(*labels))


def test_logits(probed, twin, texts):
    expected = torch.cat(twin.logits(*texts[2:])).detach()
    assert probed["logits"].shape == expected.shape
    assert distance(probed["logits"], expected) <= 1e-5 * expected.norm().item()


def test_losses(probed, twin, texts):
    smoothed, nll = (loss.item() for loss in twin.losses(*texts[2:]))
    assert probed["smoothed"].item() == pytest.approx(smoothed, rel=1e-5)
    assert probed["nll"].item() == pytest.approx(nll, rel=1e-5)
    assert abs(smoothed - nll) > 1e-3 * nll  # smoothing is on


def test_gradients(probed, twin, texts):
    expected = twin.gradients(*texts[2:])
    assert {f"gradient.{name}" for name in expected} == {
        name for name in probed if name.startswith("gradient.")
    }
    whole = torch.cat([gradient.flatten() for gradient in expected.values()]).norm().item()
    apart = [distance(probed[f"gradient.{name}"], value) for name, value in expected.items()]
    assert torch.tensor(apart).norm().item() <= 1e-5 * whole
    assert all(value.norm() > 0 for name, value in expected.items() if "k_proj.bias" not in name)


def test_a_hundred_updates_in_float64(probed, checkpoint, texts):
    """The losses stay together while they fall.

    Larger steps, or an epsilon that lets noise count, throw them apart where ReLU bends.
    """
    twin = Twin(checkpoint, torch.float64)
    count = sum(map(len, twin.target_ids(texts[3])))
    optimizer = torch.optim.Adam(twin.weights.values(), lr=0.001, betas=(0.9, 0.98), eps=1e-6)
    losses = []
    for _ in range(100):
        loss = twin.losses(*texts[2:])[0] / count
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert probed["losses"].tolist() == pytest.approx(losses, rel=1e-9)
    assert losses[-1] < 0.75 * losses[0]


def test_score_prints_the_twins_log_probabilities(checkpoint, twin, texts):
    source, target, sources, targets = texts
    printed = list(map(float, headwise("score", checkpoint, source, target).rows()))
    labels = twin.target_ids(targets)
    for value, scores, ids in zip(printed, twin.logits(sources, targets), labels, strict=True):
        log_p = scores.log_softmax(-1)[range(len(ids)), ids].sum().item()
        assert value == pytest.approx(log_p, rel=1e-5, abs=1e-5)


def test_loss_is_the_same_alone_and_among_longer_sentences(twin, texts):
    """The twin's padding is hidden, so that what agrees with it knows no padding either."""
    sources, targets = texts[2:]
    together = twin.logits(sources, targets)
    for i in (0, 5):
        alone = twin.logits(sources[i : i + 1], targets[i : i + 1])[0]
        assert distance(together[i], alone) <= 1e-5 * alone.norm().item()

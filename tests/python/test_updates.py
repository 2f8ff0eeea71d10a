"""What updates do is what plain torch does, however they are cut, repeated and shared out."""

from hashlib import sha256

import pytest
import torch
from program import embedded_pairs
from training import FROZEN, Training, gradient
from twin import Twin

# --- the fused path against plain torch


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_ten_updates_lose_what_plain_torch_loses(norm, tmp_path):
    """The corpus is one batch; the twin goes on from the weights before the first update."""
    schedule = ["schedule.kind='constant'", "schedule.learning_rate=0.003", "schedule.warmup=0"]
    whole = ["data.embedded_pairs=60", "train.batch_tokens=100000", "train.log_every=1"]
    model = ["model.dropout=0.0", f"model.norm={norm}", "train.clip_norm=0.0"]
    adam = ["optimizer.beta1=0.9", "optimizer.beta2=0.98", "optimizer.epsilon=1e-9"]
    start = Training(tmp_path / "start", [*model, *whole, *FROZEN[:2]])
    start.run("train.max_steps=1")
    run = Training(tmp_path / "run", [*model, *whole, *schedule, *adam, "train.max_steps=10"])
    run.run()
    sources, targets = zip(*embedded_pairs("train", 60), strict=True)
    twin = Twin(start.step(1))
    count = sum(map(len, twin.target_ids(targets)))
    optimizer = torch.optim.Adam(twin.weights.values(), lr=0.003, betas=(0.9, 0.98), eps=1e-9)
    for entry in run.diary("train"):
        loss = twin.losses(sources, targets)[0] / count
        assert entry["loss"] == pytest.approx(loss.item(), rel=1e-5), entry["step"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert len(run.diary("train")) == 10
    assert entry["loss"] < 0.9 * run.diary("train")[0]["loss"]


# --- R-Drop


def test_two_equal_passes_change_nothing(tmp_path):
    """Without dropout both passes predict the same: only a piece beside a wrong one would show."""
    runs = []
    for consistency in (0.0, 5.0):
        settings = [*FROZEN, "model.dropout=0.0", "train.batch_tokens=600"]
        run = Training(tmp_path / str(consistency), settings)
        run.run("train.max_steps=1", "train.log_every=1", f"train.consistency={consistency}")
        runs.append((gradient(run, 1), run.diary("train")[0]))
    (one, single), (both, double) = runs
    assert (both - one).norm() < 1e-6 * one.norm()
    for key in ("loss", "nll", "target_tokens"):
        assert double[key] == pytest.approx(single[key], rel=1e-6)


def test_two_dropouts_disagree(tmp_path):
    """The divergence is a part of the loss that grows with its weight."""
    excess = {}
    for consistency in (1.0, 2.0):
        settings = ["model.dropout=0.3", "train.label_smoothing=0.0", "train.log_every=1"]
        run = Training(tmp_path / str(consistency), settings)
        run.run("train.max_steps=1", f"train.consistency={consistency}")
        entry = run.diary("train")[0]
        excess[consistency] = entry["loss"] - entry["nll"]
    assert 0 < excess[1.0] == pytest.approx(excess[2.0] / 2, rel=1e-6)


# --- threads


@pytest.mark.parametrize(
    ("shards", "setting"),
    [
        (2, "train.consistency=0.0"),
        (3, "train.consistency=0.0"),
        (2, "train.consistency=2.0"),
        (2, "optimizer.kind='muon'"),
    ],
)
def test_threads_change_no_bit(shards, setting, tmp_path):
    """Each shard is one thread's work, however many threads there are."""
    hashes = set()
    for threads in (1, 2, 4):
        settings = [f"train.shards={shards}", "model.dropout=0.1", setting]
        run = Training(tmp_path / str(threads), settings)
        run.run(f"train.threads={threads}", "train.max_steps=12")
        hashes.add(sha256((run.folder / "last" / "model.safetensors").read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_shards_give_the_gradient_of_the_whole(tmp_path):
    """Without dropout it does not matter how a batch is cut, but for rounding."""
    gradients = []
    for shards in (1, 2, 5):
        settings = [
            *FROZEN,
            f"train.shards={shards}",
            "train.max_steps=1",
            "train.batch_tokens=600",
        ]
        run = Training(tmp_path / str(shards), settings)
        run.run("train.max_steps=1")
        gradients.append(gradient(run, 1))
    for other in gradients[1:]:
        assert (other - gradients[0]).norm() < 1e-6 * gradients[0].norm()

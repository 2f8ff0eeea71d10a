"""train.precision: products of training in bfloat16, everything else in float32."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from program import embedded_pairs
from training import Training, assert_same_result
from twin import Twin

WIDE = ["model.width=32", "model.feed_forward=64"]  # multiples of 32, as bfloat16 needs
BF16 = [*WIDE, "train.precision=bf16"]


def test_the_losses_of_plain_torch_but_for_rounding(tmp_path):
    """Ten updates, all text in one batch, beside a float64 twin."""
    schedule = ["schedule.kind='constant'", "schedule.learning_rate=0.003", "schedule.warmup=0"]
    whole = ["data.embedded_pairs=60", "train.batch_tokens=100000", "train.log_every=1"]
    model = ["model.dropout=0.0", "train.clip_norm=0.0"]
    adam = ["optimizer.beta1=0.9", "optimizer.beta2=0.98", "optimizer.epsilon=1e-9"]
    still = ["schedule.kind='constant'", "schedule.learning_rate=1e-30"]
    start = Training(tmp_path / "start", [*BF16, *model, *whole, *still])
    start.run("train.max_steps=1")
    run = Training(tmp_path / "run", [*BF16, *model, *whole, *schedule, *adam])
    run.run("train.max_steps=10")
    sources, targets = zip(*embedded_pairs("train", 60), strict=True)
    twin = Twin(start.step(1))
    count = sum(map(len, twin.target_ids(targets)))
    optimizer = torch.optim.Adam(twin.weights.values(), lr=0.003, betas=(0.9, 0.98), eps=1e-9)
    apart = []
    for entry in run.diary("train"):
        loss = twin.losses(sources, targets)[0] / count
        apart.append(abs(entry["loss"] / loss.item() - 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert len(apart) == 10
    assert max(apart) < 2e-3
    assert max(apart) > 1e-5  # float32 stays below: these were other products


def test_threads_change_no_bit(tmp_path):
    hashes = set()
    for threads in (1, 2, 4):
        run = Training(tmp_path / str(threads), [*BF16, "train.shards=3", "model.dropout=0.1"])
        run.run(f"train.threads={threads}", "train.max_steps=12")
        hashes.add(sha256((run.folder / "last" / "model.safetensors").read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_a_resumed_run_keeps_its_precision_and_its_bits(tmp_path):
    settings = [*WIDE, "model.dropout=0.1"]
    whole, cut = (Training(tmp_path / name, settings) for name in ("whole", "cut"))
    whole.run("train.max_steps=40", "train.precision=bf16")
    cut.run("train.max_steps=15", "train.precision=bf16")
    done = cut.run("train.max_steps=40", resume=True)
    assert 'resuming with train.precision: "bf16" -> "auto"' in done.err
    assert "products of training in bf16: as the run began" in done.err
    assert_same_result(cut, whole)
    assert cut.state()["precision"] == "bf16"


def test_a_run_that_began_in_fp32_goes_on_in_fp32(tmp_path):
    run = Training(tmp_path / "run", WIDE)
    run.run("train.max_steps=2", "train.precision=fp32")
    done = run.run("train.max_steps=4", resume=True)
    assert "products of training in fp32: as the run began" in done.err
    done = run.run("train.max_steps=6", "train.precision=bf16", resume=True)
    assert "products of training in bf16: as asked for" in done.err


def test_auto_says_why(tmp_path):
    done = Training(tmp_path / "narrow", ["model.width=16"]).run("train.max_steps=1")
    assert "in fp32: bf16 needs widths that are multiples of 32, and one is 16" in done.err
    done = Training(tmp_path / "wide", WIDE).run("train.max_steps=1")
    has_instruction = "avx512_bf16" in Path("/proc/cpuinfo").read_text("utf-8")
    reason = "has AVX512_BF16, and a product is" if has_instruction else "has no AVX512_BF16"
    assert f"this CPU {reason}" in done.err


def test_bf16_without_the_instruction(tmp_path, monkeypatch):
    """The same rounding, multiplied as float32: slower, said, and nearly the same losses."""
    losses = []
    for name, target in (("best", ""), ("without", "SSE4")):
        monkeypatch.setitem(os.environ, "HEADWISE_INSTRUCTION_SET", target)
        monkeypatch.setattr("program.ENVIRONMENT", {**os.environ, "OMP_NUM_THREADS": "1"})
        run = Training(tmp_path / name, [*BF16, "train.log_every=1"])
        done = run.run("train.max_steps=10")
        losses.append([entry["loss"] for entry in run.diary("train")])
    assert "as asked for; this CPU has no AVX512_BF16, so it is no faster" in done.err
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)

"""A run that is cut anywhere and resumed ends with the bits of a run that was not.

HEADWISE_KILLS is the number of kill -9 in test_kills; the full check is
    HEADWISE_KILLS=100 pytest tests/python/test_resume.py -k kills
"""

import os
import random
import signal
import subprocess
import time

import pytest
import torch
from program import error_of, headwise
from training import Training, assert_same_result, start_training, stop, wait_until

KILLS = int(os.environ.get("HEADWISE_KILLS", "20"))
DROPOUT = ["model.dropout=0.1", "model.attention_dropout=0.1", "model.activation_dropout=0.1"]
SUBWORD_DROPOUT = [
    "subword.type='bpe'",
    "subword.source_dropout=0.2",
    "subword.target_dropout=0.1",
]
EVERYTHING = [*DROPOUT, "train.accumulate=3", "train.ema=0.99"]


# --- equal bits


def test_1000_updates_are_400_and_600(tmp_path):
    whole, cut = (Training(tmp_path / name, EVERYTHING) for name in ("whole", "cut"))
    whole.run("train.max_steps=1000")
    cut.run("train.max_steps=400")
    position = cut.state()
    assert position["step"] == 400
    assert position["sentence"] > 0  # in the middle of an epoch
    done = cut.run("train.max_steps=1000", resume=True)
    assert "resuming with train.max_steps: 400 -> 1000" in done.err
    assert cut.state()["epoch"] > position["epoch"] + 10
    assert_same_result(cut, whole)


# Of 3 epochs: early, between two entries of the diary in the second one, and several times.
@pytest.mark.parametrize("cuts", [[1], [77], [20, 21, 83]])
def test_any_cut(tmp_path, cuts):
    settings = [*DROPOUT, "train.ema=0.9", "train.max_epochs=3"]
    whole, cut = (Training(tmp_path / name, settings) for name in ("whole", "cut"))
    whole.run()
    for step in cuts:
        cut.run(f"train.max_steps={step}", resume=step != cuts[0])
    assert cut.state()["epoch"] < 3
    cut.run(resume=True)
    assert_same_result(cut, whole)


@pytest.mark.parametrize("cuts", [[1], [77], [40, 41]])
def test_any_cut_with_subword_dropout(tmp_path, cuts):
    """The epoch that was cut is encoded again, with the pieces it had."""
    settings = [*SUBWORD_DROPOUT, "train.max_epochs=3"]
    whole, cut = (Training(tmp_path / name, settings) for name in ("whole", "cut"))
    whole.run()
    for step in cuts:
        cut.run(f"train.max_steps={step}", resume=step != cuts[0])
    assert cut.state()["sentence"] > 0
    assert cut.state()["epoch"] < 3
    cut.run(resume=True)
    assert_same_result(cut, whole)


def test_validations_go_on(tmp_path):
    """The best one so far and the patience with those after it are remembered."""
    settings = ["schedule.learning_rate=5.0", "schedule.kind='constant'"]
    settings += ["validation.every=5", "validation.patience=3"]
    whole, cut = (Training(tmp_path / name, settings) for name in ("whole", "cut"))
    whole.run()
    steps = whole.steps()[-1]
    cut.run(f"train.max_steps={steps - 10}")
    cut.run(resume=True)
    assert_same_result(cut, whole)
    assert cut.link("best") == whole.link("best") < steps


def test_a_cut_between_two_epochs(tmp_path):
    whole, cut = (Training(tmp_path / name, DROPOUT) for name in ("whole", "cut"))
    whole.run("train.max_epochs=3")
    cut.run("train.max_epochs=1")
    assert (cut.state()["epoch"], cut.state()["sentence"]) == (1, 0)
    cut.run("train.max_epochs=3", resume=True)
    assert_same_result(cut, whole)


def test_every_pair_is_seen_once_an_epoch_across_cuts(tmp_path):
    """Token counts tell: whatever the cuts, an epoch has the tokens of the whole corpus."""
    run = Training(tmp_path / "run", ["train.max_epochs=1"])
    run.run()
    epoch = run.state()["target_tokens"]
    cut = Training(tmp_path / "cut")
    for i, step in enumerate((3, 10, 31)):
        cut.run(f"train.max_steps={step}", resume=i > 0)
    cut.run("train.max_epochs=2", resume=True)
    assert cut.state()["target_tokens"] == 2 * epoch


# --- other settings


@pytest.fixture
def stopped(tmp_path):
    run = Training(tmp_path / "run", ["train.max_steps=20"])
    run.run()
    return run


def test_changes_are_logged_as_old_and_new(stopped):
    done = stopped.run(
        "train.max_steps=30",
        "schedule.learning_rate=0.02",
        "model.dropout=0.3",
        "train.seed=5",
        "train.batch_tokens=50",
        resume=True,
    )
    for change in (
        "schedule.learning_rate: 0.01 -> 0.02",
        "model.dropout: 0.1 -> 0.3",
        "train.seed: 1 -> 5",
        "train.batch_tokens: 100 -> 50",
    ):
        assert f"resuming with {change}" in done.err
    # update 30 after a warm-up of 20, with the new rate and not the stored one
    assert stopped.diary("train")[-1]["learning_rate"] == pytest.approx(0.02 * (20 / 30) ** 0.5)


def test_subword_dropout_may_change(tmp_path):
    run = Training(tmp_path / "run", ["subword.type='bpe'", "train.max_steps=20"])
    run.run()
    dropouts = ["subword.source_dropout=0.1", "subword.target_dropout=0.2"]
    done = run.run("train.max_steps=30", *dropouts, resume=True)
    assert "resuming with subword.source_dropout: 0.0 -> 0.1" in done.err
    assert "resuming with subword.target_dropout: 0.0 -> 0.2" in done.err
    done = headwise(*run.arguments("subword.type='unigram'", resume=True))
    assert "subword.type" in error_of(done, 2)


def test_structure_cannot_change(stopped):
    done = headwise(*stopped.arguments("model.width=32", "model.norm='post'", resume=True))
    message = error_of(done, 2)
    assert "model.width: 16 -> 32" in message and 'model.norm: "pre" -> "post"' in message


def test_nothing_changes_without_notice(stopped):
    assert "resuming with" not in stopped.run(resume=True).err


def test_averaging_may_begin_and_end_on_the_way(stopped, tmp_path):
    before = stopped.tensors()
    stopped.run("train.max_steps=21", "train.ema=0.9", resume=True)
    name = "decoder_0.feed_forward.out.weight"
    after = stopped.tensors()
    step = after[f"trained.{name}"] - before[name]
    decay = min(0.9, 22 / 31)
    assert torch.allclose(after[name], before[name] + (1 - decay) * step, rtol=1e-5, atol=1e-7)
    stopped.run("train.max_steps=30", resume=True)
    plain = Training(tmp_path / "plain")
    plain.run("train.max_steps=30")
    assert_same_result(stopped, plain)


# --- signals


def test_signals_in_the_middle_of_updates(tmp_path):
    settings = [*EVERYTHING, "train.accumulate=8", "train.max_steps=80"]
    whole, cut = (Training(tmp_path / name, settings) for name in ("whole", "cut"))
    whole.run()
    rng = random.Random(1)
    for i in range(4):
        process = start_training(cut, resume=i > 0)
        time.sleep(rng.uniform(0, 0.25))
        code, err = stop(process, (signal.SIGTERM, signal.SIGINT)[i % 2])
        assert code == (143, 130)[i % 2], err
        assert "checkpoint saved; go on with --resume" in err
        state = cut.state()
        assert state["step"] < 80, "the run was over before the signal came"
        assert state["micro_batches"] == 8 * state["step"]  # what was begun is dropped
        assert cut.link("last") == state["step"]
    cut.run(resume=True)
    assert_same_result(cut, whole)


def test_a_second_signal_ends_at_once(tmp_path):
    run = Training(tmp_path / "run", ["train.max_steps=1000000"])
    process = start_training(run)
    process.send_signal(signal.SIGSTOP)  # so that it meets both together
    code, err = stop(process, signal.SIGTERM, signal.SIGINT, signal.SIGCONT)
    assert code in (130, 143)
    assert "checkpoint saved" not in err
    run.run("train.max_steps=5", resume=True)


def test_a_signal_during_validation(tmp_path):
    settings = ["train.log_every=1", "train.max_steps=1", "validation.every=1"]
    settings += ["validation.bleu=true", "validation.beam=8", "data.embedded_valid=300"]
    settings += ["translate.max_length_factor=20.0"]
    whole, cut = (Training(tmp_path / name, settings) for name in ("whole", "cut"))
    process = start_training(cut)
    wait_until(lambda: cut.diary("train"), process)  # noted right before validation
    time.sleep(0.05)
    code, err = stop(process, signal.SIGTERM)
    assert code == 143, err
    assert not cut.diary("validation"), "validation was over before the signal came"
    assert (cut.state()["step"], cut.state()["last_validated"]) == (1, 0)
    fast = ["validation.beam=1", "translate.max_length_factor=1.0"]
    cut.run(*fast, resume=True)
    whole.run(*fast)
    assert_same_result(cut, whole)
    assert cut.link("best") == 1


def test_a_signal_before_training_ends_at_once(tmp_path):
    """There is nothing to save yet: the signal does what it does to any program."""
    run = Training(tmp_path / "run", ["data.embedded_pairs=100000"])
    process = run.start("train.max_steps=1")
    assert any("making the subword model" in line for line in process.stderr)
    code, _ = stop(process, signal.SIGTERM)
    assert code == -signal.SIGTERM  # 143 to a shell
    assert run.steps() == []
    run.run("train.max_steps=1", "data.embedded_pairs=200")


def test_kills(tmp_path):
    """kill -9 at random moments: start, updates, saving, validation."""
    settings = [*EVERYTHING, "checkpoint.every=2", "checkpoint.keep=2", "validation.every=4"]
    settings += ["train.log_every=3"]
    run = Training(tmp_path / "run", settings)
    rng = random.Random(3)
    start = time.monotonic()
    start_training(run, "train.max_steps=1000000").kill()
    start_up = time.monotonic() - start
    for _ in range(KILLS - 1):
        process = run.start("train.max_steps=1000000", resume=True)
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=rng.uniform(0.2, 1.6) * start_up)
        process.kill()
        process.communicate()
    steps = run.steps()
    assert steps, "no checkpoint was ever reached"
    run.run(f"train.max_steps={steps[-1] + 5}", resume=True)
    whole = Training(tmp_path / "whole", settings)
    whole.run(f"train.max_steps={steps[-1] + 5}")
    assert_same_result(run, whole)
    assert run.steps() == whole.steps()
    assert (run.link("best"), run.link("last")) == (whole.link("best"), whole.link("last"))
    assert not [path.name for path in run.folder.iterdir() if ".tmp" in path.name]

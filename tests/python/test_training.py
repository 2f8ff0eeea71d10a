"""What an update is made of, and how a run meets bad numbers, stops and terminals."""

import fcntl
import itertools
import json
import math
import os
import pty
import re
import struct
import subprocess
import termios
from hashlib import sha256

import pytest
import torch
from program import BINARY, ENVIRONMENT, embedded_pairs, error_of, headwise
from safetensors.torch import load_file, save_file
from training import CONFIG, FROZEN, Training, gradient
from twin import Twin

ONE_EPOCH = ["data.embedded_pairs=60", "train.max_epochs=1", "train.log_every=1"]
ONE_EPOCH += ["checkpoint.every=1", "checkpoint.keep=1000"]


# --- the gradient of an update


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """One epoch in updates of 4 micro-batches, the last of fewer."""
    folder = tmp_path_factory.mktemp("frozen") / "run"
    run = Training(folder, [*FROZEN, *ONE_EPOCH, "train.accumulate=4"])
    run.run()
    assert run.state()["micro_batches"] % 4 != 0
    return run


def labels_of_updates(run):
    totals = [0, *(run.state(step)["target_tokens"] for step in run.steps())]
    return [after - before for before, after in itertools.pairwise(totals)]


def test_micro_batches_count_by_their_tokens(frozen):
    """The updates of an epoch, by their labels, make the gradient of the corpus as one batch."""
    sources, targets = zip(*embedded_pairs("train", 60), strict=True)
    twin = Twin(frozen.step(1))
    labels = labels_of_updates(frozen)
    assert sum(labels) == sum(map(len, twin.target_ids(targets)))
    assert len(set(labels)) > 1
    total = sum(n * gradient(frozen, step) for step, n in zip(frozen.steps(), labels, strict=True))
    by_name = twin.gradients(sources, targets)
    expected = torch.cat([by_name[name].flatten() for name in sorted(by_name)])
    assert (total / sum(labels) - expected).norm() <= 1e-5 * expected.norm()


def test_losses_are_those_of_the_labels(frozen):
    sources, targets = zip(*embedded_pairs("train", 60), strict=True)
    smoothed, nll = Twin(frozen.step(1)).losses(sources, targets)
    labels, entries = labels_of_updates(frozen), frozen.diary("train")
    for key, expected in (("loss", smoothed), ("nll", nll)):
        total = sum(n * entry[key] for n, entry in zip(labels, entries, strict=True))
        assert total == pytest.approx(expected.item(), rel=1e-5)


def test_the_norm_is_that_of_the_whole_update(frozen):
    for step, entry in zip(frozen.steps(), frozen.diary("train"), strict=True):
        norm = gradient(frozen, step).norm().item()
        assert entry["gradient_norm"] == pytest.approx(norm, rel=1e-5)


def test_clipping_shortens_the_update_once(frozen, tmp_path):
    """Not each micro-batch: a sum of clipped gradients points elsewhere."""
    norms = [entry["gradient_norm"] for entry in frozen.diary("train")]
    limit = sorted(norms)[len(norms) // 2] * 1.0001  # some updates are over it, some under
    run = Training(tmp_path / "run", [*FROZEN, *ONE_EPOCH, "train.accumulate=4"])
    run.run(f"train.clip_norm={limit}")
    for step, norm in zip(run.steps(), norms, strict=True):
        expected = gradient(frozen, step) * min(1, limit / norm)
        assert (gradient(run, step) - expected).norm() <= 1e-5 * expected.norm()


# --- losses do not know batches or padding


def test_validation_loss_is_the_twins_whatever_the_batches(tmp_path):
    nll = []
    for tokens in (1, 60, 5000):
        run = Training(tmp_path / f"run{tokens}", [*FROZEN, "train.max_steps=1"])
        run.run("validation.every=1", f"train.batch_tokens={tokens}")
        nll.append(run.diary("validation")[-1])
    sources, targets = zip(*embedded_pairs("valid", 16), strict=True)
    twin = Twin(run.step())
    labels = sum(map(len, twin.target_ids(targets)))
    smoothed, plain = (loss.item() / labels for loss in twin.losses(sources, targets))
    for entry in nll:
        assert entry["nll"] == pytest.approx(plain, rel=1e-6)
        assert entry["loss"] == pytest.approx(smoothed, rel=1e-6)


def test_without_smoothing_both_losses_are_one(tmp_path):
    run = Training(tmp_path / "run", ["train.max_steps=20", "train.label_smoothing=0.0"])
    run.run("validation.every=20")
    for entry in run.diary("train") + run.diary("validation"):
        assert entry["loss"] == pytest.approx(entry["nll"], rel=1e-6)


# --- averages and rates


def test_the_moving_average_follows_its_recurrence(tmp_path):
    run = Training(tmp_path / "run", ["train.ema=0.8", "train.max_steps=60"])
    run.run("checkpoint.every=1", "checkpoint.keep=1000")
    name = "encoder_0.feed_forward.in.weight"
    average = run.tensors(1)[name].double()
    for step in range(2, 61):
        tensors = run.tensors(step)
        decay = min(0.8, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * tensors[f"trained.{name}"].double()
        assert torch.allclose(tensors[name].double(), average, rtol=1e-5, atol=1e-6), step


def test_the_last_checkpoints_are_averaged_at_the_end(tmp_path):
    run = Training(tmp_path / "run", ["train.average_last=3", "train.max_steps=50"])
    run.run("checkpoint.every=10", "checkpoint.keep=3")
    mean = load_file(run.folder / "average-3" / "model.safetensors")
    for name, tensor in mean.items():
        expected = sum(run.tensors(step)[name].double() for step in (30, 40, 50)) / 3
        assert torch.allclose(tensor.double(), expected, rtol=1e-6, atol=1e-7)


def test_rates_follow_the_schedule_wherever_the_run_stops(tmp_path):
    settings = ["schedule.kind='cosine'", "schedule.horizon=60", "train.log_every=1"]
    for steps in (30, 45):
        run = Training(tmp_path / f"run{steps}", [*settings, f"train.max_steps={steps}"])
        run.run()
        for entry in run.diary("train"):
            done = entry["step"] - 20
            cosine = (1 + math.cos(math.pi * done / 40)) / 2
            expected = 0.01 * (entry["step"] / 20 if done < 0 else cosine)
            assert entry["learning_rate"] == pytest.approx(expected, rel=1e-12)


# --- numbers that are not finite


def poison(checkpoint, name, row):
    """Puts NaN into a row of a checkpoint's weights, as if training had."""
    file = checkpoint / "model.safetensors"
    tensors = load_file(file)
    tensors[name][row] = math.nan
    save_file(tensors, file, metadata={"format": "pt"})
    manifest = json.loads((checkpoint / "manifest.json").read_text("utf-8"))
    entry = manifest["files"][file.name]
    entry["sha256"] = sha256(file.read_bytes()).hexdigest()
    entry["bytes"] = file.stat().st_size
    (checkpoint / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.fixture
def poisoned(tmp_path):
    """A run with NaN for a piece of one training line, and the number of that line."""
    settings = ["data.embedded_pairs=60", "train.batch_tokens=1", "train.log_every=1"]
    settings += ["model.embeddings='separate'", "model.tied_output=false"]
    run = Training(tmp_path / "run", settings)
    run.run("train.max_steps=5")
    twin = Twin(run.step())
    ids = twin.source_ids([source for source, _ in embedded_pairs("train", 60)])
    holders = {}
    for line, pieces in enumerate(ids, 1):
        for piece in set(pieces):
            holders.setdefault(piece, []).append(line)
    piece, [line] = next(item for item in holders.items() if len(item[1]) == 1)
    poison(run.step(), "source_embedding.weight", piece)
    return run, line


def test_an_update_that_is_not_finite_is_skipped(poisoned):
    run, line = poisoned
    done = run.run("train.max_epochs=3", "validation.every=40", resume=True)
    skipped = re.findall(
        r"step (\d+): loss is not finite \(learning rate (\S+), lines (\d+)\)", done.err
    )
    assert len(skipped) in (2, 3)  # once an epoch; the first may have passed before the damage
    assert {int(found[2]) for found in skipped} == {line}
    noted = run.diary("non_finite")
    assert [(e["step"], e["lines"]) for e in noted] == [
        (int(s), f"lines {n}") for s, _, n in skipped
    ]
    state = run.state()
    assert state["skipped_updates"] == len(skipped)
    assert state["step"] == 3 * 60 - len(skipped) == state["micro_batches"] - len(skipped)
    # Neither the schedule nor the moments know of it, and other lines are learnt.
    for entry in run.diary("train"):
        n = entry["step"]
        assert entry["learning_rate"] == pytest.approx(0.01 * min(n / 20, (20 / n) ** 0.5))
        assert math.isfinite(entry["loss"])
    tensors = run.tensors()
    assert all(value.isfinite().all() for name, value in tensors.items() if "moment" in name)
    # Weights that are not finite are never the best.
    assert len(run.diary("validation")) >= 4
    assert not (run.folder / "best").is_symlink()


def test_a_skipped_update_changes_nothing(poisoned, tmp_path):
    """The checkpoint after it equals the one before it."""
    run, line = poisoned
    stopped = Training(tmp_path / "stopped", run.settings)
    subprocess.run(["cp", "-a", run.folder, stopped.folder], check=True)
    settings = ["train.max_epochs=2", "train.on_non_finite='stop'"]
    message = error_of(headwise(*stopped.arguments(*settings, resume=True)), 1)
    assert f"lines {line})" in message and "learning rate" in message
    step = stopped.steps()[-1]
    assert f"step {step + 1}: loss is not finite" in message
    assert 'train.on_non_finite = "stop"' in message
    run.run(f"train.max_steps={step}", "checkpoint.every=1", resume=True)
    for name in ("model.safetensors", "train_state.safetensors"):
        assert (stopped.step(step) / name).read_bytes() == (run.step(step) / name).read_bytes()


@pytest.mark.parametrize("best_by", ["loss", "bleu"])
def test_a_run_that_explodes_ends_with_a_reason_and_no_best(tmp_path, best_by):
    settings = ["schedule.learning_rate=1e30", "schedule.warmup=1", "train.max_steps=100"]
    settings += ["validation.every=1", "validation.bleu=true", f"validation.best_by='{best_by}'"]
    run = Training(tmp_path / "run", [*settings, "train.max_non_finite=4"])
    done = headwise(*run.arguments())
    message = error_of(done, 1)
    assert "4 updates in a row were skipped (train.max_non_finite)" in message
    assert "step 2: loss is not finite (learning rate 7.07107e+29, lines " in message
    assert done.err.count("this update is skipped") == 4
    assert not (run.folder / "best").is_symlink()


# --- ends


def test_time_is_a_limit(tmp_path):
    run = Training(tmp_path / "run")
    done = run.run("train.max_minutes=0.01", "train.max_steps=1000000")
    assert "train.max_minutes is reached" in done.err
    assert run.link("last") == run.steps()[-1] > 0


def test_patience(tmp_path):
    run = Training(tmp_path / "run", ["schedule.learning_rate=5.0", "schedule.kind='constant'"])
    done = run.run("validation.every=5", "validation.patience=3")
    assert "no improvement in 3 validations (validation.patience)" in done.err
    values = [entry["nll"] for entry in run.diary("validation")]
    assert min(values) == values[-4]
    assert run.link("best") == run.steps()[-1] - 15


@pytest.mark.parametrize("kind", ["embedded", "files"])
def test_a_run_without_validation_text(tmp_path, kind):
    settings = ["train.max_steps=3", "data.embedded_valid=0"]
    if kind == "files":
        for name, side in zip("ab", zip(*embedded_pairs("train", 200), strict=True), strict=True):
            (tmp_path / name).write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
        settings += ["data.kind='files'", f"data.root='{tmp_path}'"]
        settings += ["data.train_source='a'", "data.train_target='b'"]
    run = Training(tmp_path / "run", settings)
    run.run()
    assert run.steps() == [3] and not (run.folder / "best").exists()


# --- the log


def test_a_log_in_a_file_is_plain_lines(tmp_path):
    run = Training(tmp_path / "run", ["train.max_steps=50", "validation.every=25"])
    done = run.run()
    assert done.out == ""
    assert not re.search(r"[^\x20-\x7e\n]", done.err), "control characters"
    shown = re.findall(r"^\d\d:\d\d:\d\d info step (\d+)  epoch", done.err, re.MULTILINE)
    assert shown == ["10", "20", "30", "40", "50"]


def terminal_output(arguments, columns):
    """Standard error of a call that ends with 0, as a terminal of that width receives it."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [BINARY, *arguments], stdout=subprocess.DEVNULL, stderr=secondary, env=ENVIRONMENT
    )
    os.close(secondary)
    received = b""
    try:
        while block := os.read(primary, 65536):
            received += block
    except OSError:
        pass  # Linux's way to say that the other side is closed
    os.close(primary)
    assert process.wait() == 0
    return received.decode()


@pytest.mark.parametrize(("columns", "longest"), [(40, 39), (500, 499), (0, 79)])
def test_a_terminal_has_one_line_that_renews_itself(tmp_path, columns, longest):
    run = Training(tmp_path / "run", ["train.max_steps=30", "validation.every=20"])
    text = terminal_output(run.arguments(), columns)
    drawn = re.findall(r"\r([^\r\n]*)\x1b\[K", text)
    assert len(drawn) == 30  # once an update
    assert max(map(len, drawn)) <= longest
    assert len({line[: longest - 25] for line in drawn}) > 1 and drawn[0].startswith("step 1  ")
    # What follows a drawn line is the next one, or a fresh line for the log.
    assert not re.search(r"\x1b\[K(?!\r)", text)
    assert text.endswith("\r\n")


def test_a_log_whose_reader_left_stops_nothing(tmp_path):
    run = Training(tmp_path / "run", ["train.max_steps=30", "train.log_every=1"])
    process = run.start()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert run.steps() == [30]


def test_the_configuration_of_a_run_trains_again(tmp_path):
    run = Training(tmp_path / "run", ["train.max_steps=3"])
    run.run()
    again = Training(tmp_path / "again", config=(run.folder / "config.toml").read_text("utf-8"))
    again.run()
    assert CONFIG not in again.config.read_text("utf-8")  # the resolved one
    weights = [(each.step() / "model.safetensors").read_bytes() for each in (run, again)]
    assert weights[0] == weights[1]

"""What may befall a run's folder: damage, a full disk, a second run; which checkpoints stay."""

import os
import shutil
import signal
import subprocess

import pytest
from program import error_of, headwise
from training import Training, assert_same_result, start_training, stop

# --- damage


def cut_short(file):
    file.write_bytes(file.read_bytes()[:-1])


def flip_a_bit(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("train_state.safetensors", cut_short),
        ("model.safetensors", flip_a_bit),
        ("state.json", lambda file: file.unlink()),
        ("manifest.json", lambda file: file.write_bytes(b"")),
    ],
)
def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path, name, damage):
    settings = ["train.max_steps=30", "checkpoint.every=10"]
    whole, run = (Training(tmp_path / folder, settings) for folder in ("whole", "run"))
    whole.run()
    run.run("train.max_steps=20")
    damage(run.step(20) / name)
    done = run.run(resume=True)
    assert "step-20 is passed over" in done.err and name in done.err
    assert "step-10 (step 10" in done.err  # what it resumed from
    assert_same_result(run, whole)


def test_when_all_are_damaged_nothing_is_overwritten(tmp_path):
    stopped = Training(tmp_path / "run", ["train.max_steps=20"])
    stopped.run()
    cut_short(stopped.step() / "model.safetensors")
    before = (stopped.step() / "model.safetensors").read_bytes()
    message = error_of(headwise(*stopped.arguments(resume=True)), 1)
    assert "no checkpoint" in message and str(stopped.folder) in message
    assert (stopped.step() / "model.safetensors").read_bytes() == before


# --- disks and folders


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "headwise_test", folder]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def checkpoint_bytes(run):
    """Every file of every checkpoint."""
    files = (file for step in run.folder.glob("step-*") for file in step.iterdir())
    return {str(file.relative_to(run.folder)): file.read_bytes() for file in files}


def test_a_full_disk_leaves_the_old_checkpoint(small_disk, tmp_path):
    run = Training(small_disk / "run", ["checkpoint.every=5", "train.max_steps=1000"])
    run.run("train.max_steps=5")
    before = checkpoint_bytes(run)
    (small_disk / "filler").write_bytes(bytes(os.statvfs(small_disk).f_bfree * 4096 - 65536))
    message = error_of(headwise(*run.arguments(resume=True)), 1)
    assert "No space left on device" in message and str(run.folder) in message
    assert checkpoint_bytes(run) == before
    assert headwise("inspect", run.folder).code == 0
    (small_disk / "filler").unlink()
    run.run("train.max_steps=10", resume=True)
    whole = Training(tmp_path / "whole", run.settings)
    whole.run("train.max_steps=10")
    assert_same_result(run, whole)


def test_a_disk_that_cannot_be_written(small_disk):
    run = Training(small_disk / "run", ["train.max_steps=5"])
    run.run()
    before = checkpoint_bytes(run)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    message = error_of(headwise(*run.arguments("train.max_steps=9", resume=True)), 1)
    assert "Read-only file system" in message and str(run.folder) in message
    assert checkpoint_bytes(run) == before


def test_two_runs_in_one_folder(tmp_path):
    run = Training(tmp_path / "run", ["train.max_steps=1000000"])
    first = start_training(run)
    done = headwise(*run.arguments(resume=True))
    message = error_of(done, 1)
    assert "another process" in message and str(run.folder) in message
    assert first.poll() is None
    assert stop(first, signal.SIGTERM)[0] == 143


# --- which checkpoints stay


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_best_and_last_stay(tmp_path, keep):
    """Steps 90 and 100: numbers, not texts; the best one is early."""
    settings = [f"checkpoint.keep={keep}", "checkpoint.every=10", "validation.every=10"]
    run = Training(tmp_path / "run", settings)
    run.run("train.max_steps=40")
    best = run.link("best")
    ruin = ["schedule.learning_rate=5.0", "schedule.kind='constant'"]
    run.run("train.max_steps=70", *ruin, resume=True)
    shutil.rmtree(run.step(70) if keep == 1 else run.step(60))  # a user tidies up
    run.run("train.max_steps=110", *ruin, resume=True)
    assert run.link("last") == 110
    assert run.link("best") == best <= 40
    assert run.steps() == sorted({best, *range(110, 110 - 10 * keep, -10)})

"""headwise score, average, inspect, config and corpus against numpy, safetensors and tomllib."""

import gzip
import math
import re
import subprocess

import numpy as np
import pytest
import tomllib
from program import BINARY, ENVIRONMENT, embedded_pairs, headwise, tiny_run
from safetensors.numpy import load_file


def run(*arguments, **options):
    done = headwise(*arguments, **options)
    assert done.code == 0, done.err
    return done


def weights(checkpoint):
    return load_file(checkpoint / "model.safetensors")


# --- score


def test_score_prints_one_sum_per_pair_and_the_perplexity(tmp_path):
    pairs = embedded_pairs()[:30]
    (tmp_path / "source").write_text("".join(f"{source}\n" for source, _ in pairs))
    (tmp_path / "target.gz").write_bytes(
        gzip.compress("".join(f"{target}\r\n" for _, target in pairs).encode())
    )
    done = run("score", tiny_run(), tmp_path / "source", tmp_path / "target.gz", "--threads", 1)
    values = [float(row) for row in done.rows()]
    assert len(values) == 30 and all(value < 0 for value in values)
    found = re.search(
        r"30 pairs, (\d+) target pieces: nll ([\d.]+) a piece, perplexity ([\d.]+)", done.err
    )
    mean = -sum(values) / int(found[1])
    assert abs(mean - float(found[2])) < 1e-3
    assert abs(math.exp(mean) / float(found[3]) - 1) < 1e-2


def test_score_prefers_the_right_translation(tmp_path):
    pairs = embedded_pairs()[:40]
    (tmp_path / "source").write_text("".join(f"{source}\n" for source, _ in pairs))
    targets = [target for _, target in pairs]
    sums = []
    for shift in (0, 1):
        shifted = targets[shift:] + targets[:shift]
        (tmp_path / "target").write_text("".join(f"{target}\n" for target in shifted))
        rows = run("score", tiny_run(), tmp_path / "source", tmp_path / "target").rows()
        sums.append(sum(map(float, rows)))
    assert sums[0] > sums[1] + 40


def test_score_of_no_lines_is_nothing(tmp_path):
    (tmp_path / "empty").touch()
    assert run("score", tiny_run(), tmp_path / "empty", tmp_path / "empty").rows() == []


# --- average and inspect


def test_an_average_is_the_mean_of_every_weight(tmp_path):
    a, b = tiny_run() / "step-100", tiny_run() / "step-200"
    run("average", a, b, b, "--output", f"{tmp_path}/mean/")
    found, one, two = weights(tmp_path / "mean"), weights(a), weights(b)
    assert found.keys() == one.keys()
    for name, value in found.items():
        mean = (one[name].astype(np.float64) + 2 * two[name].astype(np.float64)) / 3
        np.testing.assert_array_equal(value, mean.astype(np.float32), err_msg=name)
    assert (tmp_path / "mean" / "source.spm").read_bytes() == (b / "source.spm").read_bytes()
    assert "step " not in run("inspect", tmp_path / "mean").out


def test_an_average_never_replaces_a_folder(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for name in ("mine", "mine/"):
        done = headwise("average", tiny_run() / "best", "--output", f"{tmp_path}/{name}")
        assert done.code == 1 and "exists already" in done.err
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_inspect_tells_what_the_files_hold():
    checkpoint = tiny_run() / "step-200"
    tensors = weights(checkpoint)
    out = run("inspect", checkpoint, "--tensors").out
    parameters = sum(value.size for value in tensors.values())
    assert re.search(rf"^parameters +{parameters}$", out, re.M)
    assert re.search(r"^vocabulary +450 source, 450 target pieces, joint$", out, re.M)
    assert re.search(r"^step +200, epoch \d+, \d+ target pieces, 0 skipped updates$", out, re.M)
    listed = dict(row.split("\t") for row in out.split("\n") if "\t" in row)
    assert listed == {name: str(list(value.shape)) for name, value in tensors.items()}
    assert "tensor" not in run("inspect", checkpoint).out


# --- config and corpus


def test_the_reference_is_a_configuration_of_defaults(tmp_path):
    reference = tomllib.loads(run("config").out)
    assert reference["schedule"]["learning_rate"] == 0.003
    (tmp_path / "a.toml").write_text('[data]\nkind = "embedded"\n[train]\nmax_steps = 7\n')
    out = run("config", tmp_path / "a.toml", "--set", "model.width=64").out
    resolved = tomllib.loads(out)
    assert resolved["train"]["max_steps"] == 7 and resolved["model"]["width"] == 64
    assert resolved["optimizer"] == reference["optimizer"]
    for key, origin in (("max_steps", "a.toml:4"), ("width", "--set"), ("seed", "default")):
        assert re.search(rf"^{key} = .*#.*{re.escape(origin)}", out, re.M), (key, out)


@pytest.mark.parametrize("command", [["config"], ["corpus", "--count", "100000"]])
def test_a_reader_that_leaves_ends_a_listing_quietly(command):
    with subprocess.Popen(
        [BINARY, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        if command == ["config"]:
            process.stdout.close()  # before it can have written anything
        else:
            process.stdout.readline()
            process.stdout.close()
        assert process.wait(timeout=60) == 141
        assert process.stderr.read() == b""


def test_corpus_prints_pairs_that_depend_on_seed_and_split_alone():
    first = run("corpus", "--count", 50, "--seed", 1).rows()
    assert len(first) == 50 and all(row.count("\t") == 1 for row in first)
    assert run("corpus", "--count", 20, "--seed", 1).rows() == first[:20]
    assert not set(first) & set(run("corpus", "--count", 50, "--seed", 2).rows())
    train = set(run("corpus", "--count", 5000).rows())
    for split in ("valid", "test", "longer"):
        assert not train & set(run("corpus", "--count", 300, "--split", split).rows())
    assert run("corpus", "--count", 0).rows() == []

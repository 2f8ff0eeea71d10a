"""`headwise translate` with several models: the mean of their probabilities, as torch finds it."""

import headwise
import pytest
import torch
from program import embedded_pairs, refused
from program import headwise as run_program
from training import Training


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Two of one run, and one of a model twice as wide with the same vocabulary."""
    folder = tmp_path_factory.mktemp("ensemble")
    narrow = Training(folder / "narrow", ["checkpoint.every=100"])
    narrow.run("train.max_steps=200")
    wide = Training(folder / "wide", ["model.width=32", "train.seed=2"])
    wide.run("train.max_steps=150")
    return [narrow.step(100), narrow.step(200), wide.step()]


@pytest.fixture(scope="module")
def lines():
    return [source for source, _ in embedded_pairs()][:20]


@torch.no_grad()
def best_pieces(models, line):
    """Greedy pieces of the mean in float64, the sum of their log-probabilities, and whether one was
    a near tie."""
    vocabulary, limits = models[0].target_vocabulary, models[0].translation
    source, lengths = models[0].batch([line])
    most = int(limits.max_length_factor * (source.size(1) - 1)) + limits.max_length_extra
    states = [model.start(model.run_encoder(source, lengths), most) for model in models]
    ids, total, tie = [vocabulary.bos], 0.0, False
    while len(ids) <= most:
        last, parent = torch.tensor(ids[-1:]), torch.tensor([0])
        steps = zip(models, states, strict=True)
        mean = torch.cat([model.step(state, last, parent).softmax(-1) for model, state in steps])
        mean = mean.mean(0)
        mean[[vocabulary.pad, vocabulary.bos, vocabulary.unk]] = 0
        values, tokens = mean.topk(2)
        tie = tie or bool(values[0] - values[1] < 1e-5)
        total += values[0].log().item()
        if tokens[0] == vocabulary.eos:
            break
        ids.append(int(tokens[0]))
    return ids[1:], total, tie


def test_the_mean_of_probabilities_translates(checkpoints, lines):
    models = [headwise.load(checkpoint).double() for checkpoint in checkpoints]
    stdin = "".join(f"{line}\n" for line in lines)
    done = run_program("translate", *checkpoints, "--beam", 1, "--scores", stdin=stdin)
    alone = run_program("translate", checkpoints[1], "--beam", 1, "--scores", stdin=stdin)
    compared = 0
    for line, row in zip(lines, done.rows(), strict=True):
        _, log_probability, text = row.split("\t")
        ids, total, tie = best_pieces(models, line)
        if tie:
            continue
        assert text == models[0].decode(ids)
        assert float(log_probability) == pytest.approx(total, abs=1e-4)
        compared += 1
    assert compared > 12
    assert done.rows() != alone.rows()


def test_threads_batches_and_order_change_nothing(checkpoints, lines):
    stdin = "".join(f"{line}\n" for line in lines)

    def texts(*models_and_options):
        return run_program("translate", *models_and_options, stdin=stdin).rows()

    usual = texts(*checkpoints, "--beam", 4)
    assert texts(*checkpoints, "--beam", 4, "--batch-tokens", 30, "--threads", 2) == usual
    assert texts(*reversed(checkpoints), "--beam", 4) == usual


def test_a_model_of_other_pieces_is_refused(checkpoints, tmp_path):
    other = Training(tmp_path / "other", ["subword.vocabulary=390"])
    other.run("train.max_steps=1")
    message = refused("translate", checkpoints[0], other.folder)
    assert "cannot translate with" in message
    for part in (checkpoints[0], other.folder, "source.spm"):
        assert str(part) in message


def test_a_missing_model_is_named(checkpoints, tmp_path):
    assert str(tmp_path / "none") in refused("translate", checkpoints[0], tmp_path / "none")

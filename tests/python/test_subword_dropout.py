"""BPE-dropout while training, against the sentencepiece package's own sampling."""

import itertools

import pytest
import sentencepiece
from program import embedded_pairs, error_of, headwise, train_subword
from training import Training, assert_same_result

PAIRS = 2000
BPE = [
    "subword.type='bpe'",
    "subword.vocabulary=800",
    "train.max_epochs=1",
    "train.batch_tokens=2000",
]


def files(folder, pairs):
    """Settings of a run on these pairs."""
    settings = ["data.kind='files'"]
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        path = folder / side
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        settings.append(f"data.train_{side}='{path}'")
    return settings


def pieces(run, lines, **sampling):
    """Tokens of the lines, end tokens included, as the package cuts them with the run's model."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(run.step() / "source.spm"))
    return sum(len(model.encode(line, **sampling)) + 1 for line in lines)


@pytest.fixture
def pairs():
    return embedded_pairs("train", PAIRS)


@pytest.mark.parametrize("dropouts", [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (0.5, 0.2)])
def test_an_epoch_has_as_many_pieces_as_sampling_gives(tmp_path, pairs, dropouts):
    settings = [f"subword.source_dropout={dropouts[0]}", f"subword.target_dropout={dropouts[1]}"]
    run = Training(tmp_path / "run", [*BPE, *files(tmp_path, pairs), *settings])
    run.run()
    for i, side in enumerate(("source", "target")):
        lines = [pair[i] for pair in pairs]
        actual = run.state()[f"{side}_tokens"]
        usual = pieces(run, lines)
        if dropouts[i] == 0:
            assert actual == usual
            continue
        sampling = {"enable_sampling": True, "nbest_size": -1, "alpha": dropouts[i]}
        draws = [pieces(run, lines, **sampling) for _ in range(10)]
        mean = sum(draws) / len(draws)
        assert mean > 1.02 * usual
        deviation = (sum((draw - mean) ** 2 for draw in draws) / (len(draws) - 1)) ** 0.5
        assert abs(actual - mean) < 8 * deviation
        assert deviation < 0.01 * mean


def test_epochs_differ_and_two_processes_agree(tmp_path):
    settings = [*BPE, "subword.source_dropout=0.1", "subword.target_dropout=0.1"]
    runs = [Training(tmp_path / name, settings) for name in ("one", "two")]
    tokens = [0]
    for epoch in (1, 2, 3):
        for run in runs:
            run.run(f"train.max_epochs={epoch}", resume=epoch > 1)
        assert_same_result(*runs)
        tokens.append(runs[0].state()["source_tokens"])
    assert len({after - before for before, after in itertools.pairwise(tokens)}) > 1


def test_a_pair_at_the_length_limit_keeps_its_usual_pieces(tmp_path, pairs):
    """Pairs are dropped by their usual pieces: no epoch has others."""
    limit = ["data.max_length=20", "train.log_every=1", "train.accumulate=1000"]
    plain, sampled = (
        Training(tmp_path / name, [*BPE, *files(tmp_path, pairs), *limit])
        for name in ("plain", "sampled")
    )
    left_out = [
        next(line for line in done.err.splitlines() if "left out" in line).split("training: ")[1]
        for done in (plain.run(), sampled.run("subword.source_dropout=0.99"))
    ]
    assert left_out[0] == left_out[1]
    assert " 0 too long" not in left_out[0]
    kept = int(left_out[0].split(" pairs")[0])
    tokens = [run.state()["source_tokens"] for run in (plain, sampled)]
    assert tokens[0] < tokens[1] <= 20 * kept


def test_validation_is_not_sampled(tmp_path):
    """Updates that change nothing: both runs validate the same weights."""
    settings = [*BPE, "train.max_epochs=0", "train.max_steps=1", "validation.every=1"]
    settings += ["schedule.learning_rate=1e-30", "validation.bleu=true"]
    plain, sampled = (Training(tmp_path / name, settings) for name in ("plain", "sampled"))
    plain.run()
    sampled.run("subword.source_dropout=0.5", "subword.target_dropout=0.5")
    losses = [run.diary("validation")[0]["nll"] for run in (plain, sampled)]
    assert losses[0] == losses[1]
    assert plain.state()["target_tokens"] != sampled.state()["target_tokens"]


def test_a_given_model_must_be_bpe(tmp_path, pairs):
    settings = [*BPE, *files(tmp_path, pairs), "subword.trust_model=true"]
    text = [line for pair in pairs for line in pair]
    for kind in ("bpe", "unigram", "char"):
        model = train_subword(tmp_path / kind, text, model_type=kind, vocab_size=400)
        run = Training(tmp_path / f"run_{kind}", [*settings, f"subword.model='{model}'"])
        done = headwise(*run.arguments("subword.target_dropout=0.1"))
        if kind == "bpe":
            assert done.code == 0, done.err
            continue
        message = error_of(done, 1)
        found = {"unigram": "unigram", "char": "word or char"}[kind]
        assert f"subword.target_dropout = 0.1: found a subword model of type {found}" in message
        assert "needed one of type bpe" in message

"""Every mistake ends with one clear complaint: what was found, what is needed, the right code."""

import re

import pytest
from program import (
    TINY_CONFIG,
    embedded_pairs,
    error_of,
    headwise,
    refused,
    tiny_run,
    train_subword,
)

# --- the command line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "subcommand"),
        (["transalte"], "transalte"),
        (["translate"], "model"),
        (["translate", "m", "--bean", "3"], "--bean"),
        (["translate", "m", "--beam", "0"], "--beam"),
        (["translate", "m", "--beam", "wide"], "wide"),
        (["translate", "m", "--threads", "-1"], "--threads"),
        (["translate", "m", "--length-penalty", "-1"], "--length-penalty"),
        (["translate", "m", "--long-lines", "cut"], "cut"),
        (["score", "m", "s"], "target"),
        (["average", "m"], "--output"),
        (["train", "c.toml"], "--output"),
        (["corpus", "--count", "-1"], "--count"),
        (["corpus", "--split", "dev"], "dev"),
        (["config", "--set", "train.seed=1"], "file"),
    ],
)
def test_usage(arguments, words):
    assert words in refused(*arguments, code=2)


def test_more_translations_than_hypotheses():
    message = refused("translate", tiny_run(), "--nbest", 6, "--beam", 5, code=2)
    assert "6" in message and "5" in message and "--beam" in message


# --- configurations


@pytest.fixture
def corpus(tmp_path):
    """Text files of a small corpus beside run.toml, and a function that trains on them."""
    return Corpus(tmp_path)


class Corpus:
    def __init__(self, folder):
        self.folder = folder
        pairs = embedded_pairs("train", 2000)
        for name, part in (("train", pairs[:400]), ("valid", pairs[400:420])):
            for side, suffix in enumerate(("en", "ko")):
                self.write(f"{name}.{suffix}", [pair[side] for pair in part])
        files = 'kind = "files"\ntrain_source = "train.en"\ntrain_target = "train.ko"\n'
        files += 'valid_source = "valid.en"\nvalid_target = "valid.ko"\nroot = "."'
        text = re.sub(r'kind = "embedded"\n.*\n.*', files, TINY_CONFIG)
        text = text.replace("max_steps = 200", "max_steps = 1")
        (folder / "run.toml").write_text(text.replace("vocabulary = 450", "vocabulary = 400"))

    def write(self, name, lines, end="\n"):
        (self.folder / name).write_bytes("".join(line + end for line in lines).encode())

    def lines(self, name):
        return (self.folder / name).read_bytes().decode().split("\n")[:-1]

    def train(self, *settings, resume=False):
        more = [word for setting in settings for word in ("--set", setting)]
        return headwise(
            "train", "run.toml", "--output", "out", *more, *["--resume"] * resume, cwd=self.folder
        )

    def refused(self, *settings, code=1, resume=False):
        return error_of(self.train(*settings, resume=resume), code)


def test_the_corpus_itself_trains(corpus):
    done = corpus.train()
    assert done.code == 0, done.err
    assert "training: " in done.err


def test_unknown_keys_are_told_all_at_once_with_line_and_nearest_key(tmp_path):
    (tmp_path / "run.toml").write_text(
        '[data]\nkind = "files"\ntrain-source = "missing"\ntrain_target = "missing"\n'
        "[train]\nlearningrate = 1.0\nMax_Steps = 3\nmax_steps = true\n"
        "[model]\nwarmup = 3\ndropout = -0.5\n[schedule]\nlearning_rate = 0\n"
    )
    message = refused("train", "run.toml", "--output", "out", code=2, cwd=tmp_path)
    for line, words in (
        (3, "data.train_source"),
        (6, "schedule.learning_rate"),
        (7, "train.max_steps"),
        (8, "train.max_steps"),
        (10, "schedule.warmup"),
        (11, "model.dropout"),
        (13, "schedule.learning_rate"),
    ):
        [complaint] = [row for row in message.split("\n") if f"run.toml:{line}:" in row]
        assert words in complaint, complaint
    assert "missing: no such file" not in message, "the data must not be read first"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model.width=33", ["33", "2", "encoder_heads"]),
        ("model.encoder_kv_heads=3", ["3", "2", "encoder_kv_heads"]),
        ("model.width=wide", ["model.width", "wide"]),
        ("train.seed=1.5", ["train.seed", "1.5"]),
        ("train.batch_tokens=0", ["train.batch_tokens", "0"]),
        ("trian.seed=1", ["trian"]),
        ("train.seed", ["train.seed"]),
        ("model.positions=learned", ["learned", "sinusoidal"]),
    ],
)
def test_settings_that_cannot_be(corpus, setting, words):
    message = corpus.refused(setting, code=2)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("text", "words"),
    [("[train\nseed = 1\n", "run.toml"), ("[train]\nseed = 1,\n", "run.toml:2")],
)
def test_a_file_that_is_no_toml(tmp_path, text, words):
    (tmp_path / "run.toml").write_text(text)
    assert words in refused("config", "run.toml", code=2, cwd=tmp_path)


def test_a_configuration_that_is_none(tmp_path):
    for name in ("missing.toml", "."):
        message = refused("train", name, "--output", "out", code=2, cwd=tmp_path)
        assert name in message


# --- texts


def test_files_that_are_none(corpus):
    assert "missing: no such file" in corpus.refused("data.train_source=missing")
    assert "is a folder" in corpus.refused("data.valid_target=.")


@pytest.mark.parametrize("name", ["train.ko", "valid.en"])
def test_unequal_files_are_refused_with_both_counts_and_the_command_that_looks(corpus, name):
    count = len(corpus.lines(name))
    corpus.write(name, corpus.lines(name)[:-1])
    message = corpus.refused()
    stem = name[:5]
    assert all(re.search(rf"\b{number}\b", message) for number in (count, count - 1)), message
    assert re.search(rf"headwise check \S*{stem}.en \S*{stem}.ko", message), message


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], ["train.en", "empty"]),
        (["", "  ", "\u200b"], ["3", "no pair"]),
    ],
)
def test_a_corpus_without_text(corpus, lines, words):
    for name in ("train.en", "train.ko"):
        corpus.write(name, lines)
    message = corpus.refused()
    assert all(word in message for word in words), message


@pytest.mark.parametrize(("bad", "words"), [(b"\xff", "UTF-8"), (b"\0", "NUL")])
def test_bytes_that_are_no_text_are_refused_with_their_place(corpus, bad, words):
    path = corpus.folder / "train.ko"
    data = path.read_bytes().split(b"\n")
    data[6] = b"x" + bad + data[6]
    path.write_bytes(b"\n".join(data))
    message = corpus.refused()
    assert words in message and "train.ko" in message and "line 7 at byte 2" in message


def test_odd_line_ends_keep_the_sides_together(corpus):
    english, korean = corpus.lines("train.en"), corpus.lines("train.ko")
    english[3] += "\u2028x\u0085\x0b\x0c"
    korean[5] = korean[5][:4] + "\r" + korean[5][4:]
    english[7] = "\u200b\u200b"  # shows nothing: the pair is left out as a whole
    korean[9] = ""
    corpus.write("train.en", english, end="\r\n")
    corpus.write("train.ko", korean)
    path = corpus.folder / "train.ko"
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    done = corpus.train("data.max_length=300")
    assert done.code == 0, done.err
    assert "training: 398 pairs; left out: 2 with an empty side" in done.err


def test_a_vocabulary_that_the_text_cannot_give(corpus):
    message = corpus.refused("subword.vocabulary=50000")
    assert "subword.vocabulary = 50000" in message and "at most" in message
    [most] = re.findall(r"at most (\d+)", message)
    assert corpus.train(f"subword.vocabulary={most}").code == 0


@pytest.mark.parametrize("missing", ["pad", "bos"])
def test_a_subword_model_without_a_special_piece(corpus, missing):
    text = corpus.lines("train.en") + corpus.lines("train.ko")
    model = train_subword(corpus.folder / "given", text, **{f"{missing}_id": -1})
    message = corpus.refused(f"subword.model={model}", "subword.trust_model=true")
    assert str(model) in message and f"--{missing}_id=" in message


def test_special_ids_are_read_from_the_given_model(corpus):
    text = corpus.lines("train.en") + corpus.lines("train.ko")
    ids = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": 3}
    model = train_subword(corpus.folder / "given", text, vocab_size=400, **ids)
    done = corpus.train(f"subword.model={model}", "subword.trust_model=true")
    assert done.code == 0, done.err
    line = corpus.lines("valid.en")[0] + " </s> <pad> <unk>\n"
    done = headwise("translate", corpus.folder / "out", stdin=line)
    assert done.code == 0 and len(done.rows()) == 1


# --- runs


def test_a_run_is_not_started_over_another(corpus):
    assert corpus.train().code == 0
    before = sorted(corpus.folder.rglob("out/**/*"))
    message = corpus.refused()
    assert "already holds" in message and "--resume" in message
    assert sorted(corpus.folder.rglob("out/**/*")) == before


def test_a_run_is_not_resumed_as_another_model(corpus):
    assert corpus.train().code == 0
    message = corpus.refused("model.width=64", "model.encoder_kv_heads=1", code=2, resume=True)
    assert "model.width: 32 -> 64" in message and "model.encoder_kv_heads" in message


def test_a_run_is_not_resumed_on_another_text(corpus):
    assert corpus.train().code == 0
    corpus.write("train.en", corpus.lines("train.en")[::-1])
    assert "another" in corpus.refused("train.max_steps=2", resume=True)


def test_an_output_that_is_a_file(corpus):
    (corpus.folder / "out").write_text("")
    assert "out" in corpus.refused()


@pytest.mark.parametrize("counts", [(3, 2), (0, 1)])
def test_score_of_unequal_files(tmp_path, counts):
    for name, count in zip("ab", counts, strict=True):
        (tmp_path / name).write_text("line\n" * count)
    message = refused("score", tiny_run(), "a", "b", cwd=tmp_path)
    assert f"a has {counts[0]} lines" in message and f"b has {counts[1]}" in message

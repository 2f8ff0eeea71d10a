"""`headwise check` on made-up files, and its pieces against the sentencepiece package."""

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece

MULTI30K = Path(__file__).parents[3] / "shared" / "data" / "multi30k"


@pytest.fixture
def headwise_binary():
    return Path(sys.executable).parent / "headwise"


@pytest.fixture
def check(headwise_binary, tmp_path):
    """Runs `headwise check` in tmp_path: (exit code, standard output, standard error)."""

    def run(*arguments):
        done = subprocess.run(
            [headwise_binary, "check", *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            timeout=120,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


def sentences(count, seed):
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklm äöü한국", k=rng.randint(1, 7))) for _ in range(150)]
    return [" ".join(rng.choices(words, k=rng.randint(1, 12))).strip() or "a" for _ in range(count)]


def write_corpus(folder, count=200):
    files = {
        "train.src": sentences(count, 1),
        "train.tgt": sentences(count, 2),
        "valid.src": sentences(20, 3),
        "valid.tgt": sentences(20, 4),
    }
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


def write_config(folder, subword):
    (folder / "run.toml").write_text(
        f"""
        [data]
        train_source = "train.src"
        train_target = "train.tgt"
        valid_source = "valid.src"
        valid_target = "valid.tgt"
        max_length = 25
        max_length_ratio = 3.0
        [subword]
        {subword}
        [train]
        max_steps = 1
        """,
        encoding="utf-8",
    )


def test_clean_files_exit_with_0(check, tmp_path):
    write_corpus(tmp_path)
    code, out, err = check("train.src", "train.tgt")
    assert (code, err) == (0, "")
    assert out.endswith("fit for training\n")


def test_fatal_findings_exit_with_1_and_name_the_place(check, tmp_path):
    (tmp_path / "a").write_bytes(b"one\ntw\0o\nthree\n")
    (tmp_path / "b").write_bytes(b"eins\nzw\xffei\n")
    code, out, _ = check("a", "b")
    assert code == 1
    assert "FATAL: a has 1 NUL byte(s), in line 2 at byte 3\n" in out
    assert "FATAL: b is not valid UTF-8 in 1 place(s), in line 2 at byte 3\n" in out
    assert "FATAL: a has 3 lines but b has 2; " in out
    [corpus] = json.loads(check("a", "b", "--json")[1])
    assert len(corpus["fatal"]) == 3
    assert corpus["source"]["nul"] == {"count": 1, "first": [{"line": 2, "byte": 3}]}


def test_lines_are_counted_as_line_feeds_not_as_python_counts_them(check, tmp_path):
    odd = "a\rb\u2028c\u2029d\x85e\x0bf\x0cg\x1c\x1d\x1eh"
    assert len(odd.splitlines()) == 10
    text = f"{odd}\r\n{odd}\n"
    (tmp_path / "a").write_bytes(text.encode())
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"1\n2"))
    code, out, _ = check("a", "b.gz", "--json")
    assert code == 0
    [corpus] = json.loads(out)
    source = corpus["source"]
    assert source["lines"] == corpus["target"]["lines"] == 2
    assert source["characters"] == 2 * len(odd)
    assert source["bytes"] == len(text.encode())
    assert source["crlf_line_ends"] == 1
    for key in (
        "carriage_return",
        "line_separator",
        "paragraph_separator",
        "next_line",
        "vertical_tab",
        "form_feed",
    ):
        assert source[key]["count"] == 2, key
    assert corpus["target"]["gzip"] and not corpus["target"]["ends_with_newline"]


def test_usage_and_file_errors_are_one_line(check, tmp_path):
    write_corpus(tmp_path)
    for arguments, code, words in (
        (["none", "train.tgt"], 1, "none: no such file"),
        ([".", "train.tgt"], 1, "is a folder"),
        (["train.src"], 2, "target"),
        ([], 2, "--config"),
        (["train.src", "train.tgt", "--config", "x"], 2, "--config"),
    ):
        actual, out, err = check(*arguments)
        assert (actual, out) == (code, "")
        assert err.startswith("headwise: error: ") and words in err and err.count("\n") == 1, err


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_pieces_agree_with_the_sentencepiece_package(check, tmp_path, model_type):
    files = write_corpus(tmp_path)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(files["train.src"][:120]),
        model_prefix=str(tmp_path / "m"),
        model_type=model_type,
        vocab_size=90,
        pad_id=3,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    write_config(tmp_path, 'model = "m.model"\n        trust_model = true')
    code, out, err = check("--config", "run.toml", "--json")
    assert (code, err) == (0, "")
    for corpus, part in zip(json.loads(out), ("train", "valid"), strict=True):
        ids = {
            side: [model.encode(line) for line in files[f"{part}.{side}"]]
            for side in ("src", "tgt")
        }
        for key, side in (("source", "src"), ("target", "tgt")):
            unknown = [n for n, line in enumerate(ids[side], 1) if model.unk_id() in line]
            long = [n for n, line in enumerate(ids[side], 1) if len(line) + 1 > 25]
            report = corpus[key]
            assert report["pieces"] == sum(map(len, ids[side]))
            assert report["unknown_pieces"]["count"] == len(unknown)
            assert [p["line"] for p in report["unknown_pieces"]["first"]] == unknown[:5]
            assert report["too_many_pieces"]["count"] == len(long)
        lengths = [(len(a), len(b)) for a, b in zip(ids["src"], ids["tgt"], strict=True)]
        too_long = [p for p in lengths if max(p) + 1 > 25]
        ratio = [p for p in lengths if p not in too_long and max(p) > 3 * min(p)]
        assert (too_long and ratio) or part == "valid"
        assert corpus["pairs"]["dropped"] == {
            "empty": 0,
            "too_long": len(too_long),
            "length_ratio": len(ratio),
        }
        assert corpus["pairs"]["usable"] == len(lengths) - len(too_long) - len(ratio)


def test_a_vocabulary_the_text_cannot_give_is_fatal(check, tmp_path):
    write_corpus(tmp_path)
    write_config(tmp_path, "vocabulary = 30000")
    code, out, _ = check("--config", "run.toml")
    assert code == 1
    assert "FATAL: subword.vocabulary = 30000 is too large: this text gives at most " in out
    assert check("--config", "run.toml", "--quick")[0] == 0
    assert check("--config", "run.toml", "--set", "subword.vocabulary=120")[0] == 0


def test_a_model_without_padding_is_fatal_with_the_training_flags(check, tmp_path):
    files = write_corpus(tmp_path)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(files["train.src"]),
        model_prefix=str(tmp_path / "m"),
        vocab_size=90,
        minloglevel=2,
    )
    write_config(tmp_path, 'model = "m.model"\n        trust_model = true')
    code, out, _ = check("--config", "run.toml")
    assert code == 1
    assert "no piece for padding (<pad>)" in out and "--pad_id=0" in out


def test_the_embedded_corpus_has_no_files(check, tmp_path):
    (tmp_path / "run.toml").write_text('[data]\nkind = "embedded"\n[train]\nmax_steps = 1\n')
    code, out, _ = check("--config", "run.toml")
    assert code == 0 and "no file to check" in out


def test_multi30k_is_fit(check):
    if not MULTI30K.is_dir():
        pytest.skip(f"{MULTI30K} is absent")
    code, out, _ = check(MULTI30K / "train.en.gz", MULTI30K / "train.de.gz", "--json")
    assert code == 0
    [corpus] = json.loads(out)
    assert corpus["pairs"]["usable"] == corpus["source"]["lines"] == 29000

"""`headwise evaluate` against sacreBLEU on texts made to be awkward."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

HEADWISE = Path(sys.executable).parent / "headwise"

WORDS = "the a cat dog sits on mat house Der Hund läuft über die Straße It's don't l'eau".split()
PUNCTUATION = [
    *".,;:!?-'\"()[]{}<>/&%$#@^_`~|\\*+=",
    *"... -- ,, .,. a. .b 1. .2 1,000.50 3-4 5-a a-5 -7 – — “x” …".split(),
]
ENTITIES = [
    *"&quot; &amp; &lt; &gt; &amp;lt; &apos; &#39; &AMP; &amp <skipped> <SKIPPED>".split(),
    "& lt;",
]
CJK = "我爱你 。 東京タワー 한국어는 ﾊﾝｶｸ １２３ 、 안녕하세요.".split()
CASED = "İstanbul ΟΔΥΣΣΕΥΣ Σ ΑΣ. ΣΑ ẞ ǅ Ⅷ 𝐀 𐐀𐐁 Å I\u0307 ΑΣ\u0301Α Ა Ꭰ".split()
SPACES = [
    *" \t\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u200b\u2028\u2029\u202f\u205f\u3000\ufeff\0",
]


def scrambled(rng, words, pool):
    """A hypothesis: the reference with some words changed, dropped or doubled."""
    result = []
    for word in words:
        change = rng.random()
        if change < 0.1:
            result.append(rng.choice(pool))
        elif change < 0.9:
            result.append(word)
        if change > 0.97:
            result.append(word)
    return result


def make_pairs(rng, pool, count, separators=(" ",)):
    hypotheses, references = [], []
    for _ in range(count):
        words = [rng.choice(pool) for _ in range(rng.randrange(0, 14))]
        for lines, line in ((references, words), (hypotheses, scrambled(rng, words, pool))):
            lines.append("".join(part for word in line for part in (word, rng.choice(separators))))
    return hypotheses, references


def random_characters(rng, count):
    """Characters of all scripts, line feeds and surrogates aside."""
    ranges = [(0x20, 0x250), (0x370, 0x3000), (0xA000, 0xD7FF), (0xE000, 0x1FFFF)]
    return [chr(rng.randrange(*rng.choice(ranges))) for _ in range(count)]


def corpora():
    rng = random.Random(7)
    for size in (1, 3, 40):
        yield f"words-{size}", *make_pairs(rng, WORDS, size)
        yield f"punctuation-{size}", *make_pairs(rng, WORDS + PUNCTUATION, size, (" ", "", "", " "))
        yield f"entities-{size}", *make_pairs(rng, WORDS + ENTITIES + PUNCTUATION, size, (" ", ""))
        yield f"cjk-{size}", *make_pairs(rng, CJK + WORDS, size, (" ", ""))
        yield f"case-{size}", *make_pairs(rng, CASED + WORDS, size, (" ", "", "."))
        yield f"spaces-{size}", *make_pairs(rng, WORDS, size, SPACES)
        characters = random_characters(rng, 400)
        yield f"unicode-{size}", *make_pairs(rng, characters, size, (" ", "", "-", ","))
    yield "no 4-gram in common", ["the cat sits on a mat"], ["the cat lies on some mat"]
    yield "nothing in common", ["a b c d e"], ["f g h i j"]
    yield "three tokens", ["one two three"], ["one two three"]
    yield "all hypotheses empty", ["", " "], ["a b c d", "e"]
    yield "all references empty", ["a b c d", "e"], ["", ""]
    yield "all empty", [""], [""]
    yield "some empty", ["", "a b c d e", "x"], ["a b c d", "", "x"]
    yield "identical", [".,; 12,5-3 the cat"], [".,; 12,5-3 the cat"]
    yield "hypothesis longer", ["a b c d e f g h"], ["a b c d"]
    yield "hypothesis shorter", ["a b c d"], ["a b c d e f g h"]
    yield "hyphen at the end", ["well- known x y", "co-"], ["well-known x y", "co -"]


CORPORA = list(corpora())


def write(path, lines):
    encoded = (line if isinstance(line, bytes) else line.encode() for line in lines)
    path.write_bytes(b"".join(line + b"\n" for line in encoded))
    return path


def evaluate(hypotheses, references, *options, stdin=None):
    command = [HEADWISE, "evaluate", str(hypotheses), str(references), *options]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


@pytest.fixture
def judged(tmp_path):
    """Runs headwise on lists of lines, returns its JSON."""

    def run(hypotheses, references, *options):
        result = evaluate(
            write(tmp_path / "hyp", hypotheses),
            write(tmp_path / "ref", references),
            "--json",
            *options,
        )
        assert result.returncode == 0, result.stderr.decode()
        return json.loads(result.stdout)

    return run


def peers(lowercase):
    return sacrebleu.BLEU(lowercase=lowercase), sacrebleu.CHRF(lowercase=lowercase)


@pytest.mark.parametrize(
    ("hypotheses", "references"), [c[1:] for c in CORPORA], ids=[c[0] for c in CORPORA]
)
def test_scores_equal_sacrebleu(judged, hypotheses, references):
    # headwise takes a CR before the LF for a part of the line end.
    hypotheses = [line.removesuffix("\r") for line in hypotheses]
    references = [line.removesuffix("\r") for line in references]
    found = judged(hypotheses, references)
    for case, lowercase in (("cased", False), ("lowercase", True)):
        bleu_metric, chrf_metric = peers(lowercase)
        bleu = bleu_metric.corpus_score(hypotheses, [references])
        chrf = chrf_metric.corpus_score(hypotheses, [references])
        own = found[case]["bleu"]
        assert (own["hypothesis_length"], own["reference_length"]) == (bleu.sys_len, bleu.ref_len)
        assert own["precisions"] == pytest.approx(bleu.precisions, rel=0, abs=1e-9)
        assert own["brevity_penalty"] == pytest.approx(bleu.bp, rel=0, abs=1e-12)
        assert own["score"] == pytest.approx(bleu.score, rel=0, abs=1e-9)
        assert found[case]["chrf"]["score"] == pytest.approx(chrf.score, rel=0, abs=1e-9)
        for metric, name in ((bleu_metric, "bleu"), (chrf_metric, "chrf")):
            expected = re.sub(r"version:.*", "version:headwise", str(metric.get_signature()))
            assert re.sub(r"-[0-9.]+$", "", found[case][name]["signature"]) == expected


def test_text_equals_the_lines_sacrebleu_prints(tmp_path):
    hypotheses, references = make_pairs(random.Random(3), WORDS + PUNCTUATION, 50)
    paths = write(tmp_path / "hyp", hypotheses), write(tmp_path / "ref", references)
    expected = [
        metric.corpus_score(hypotheses, [references]).format(signature=str(metric.get_signature()))
        for lowercase in (False, True)
        for metric in peers(lowercase)
    ]
    version = re.compile(r"version:\S+")
    found = evaluate(*paths).stdout.decode().splitlines()
    assert [version.sub("", line) for line in found] == [version.sub("", line) for line in expected]
    assert evaluate(*paths, "--lowercase").stdout.decode().splitlines() == found[2:]
    assert (
        evaluate("-", paths[1], stdin=paths[0].read_bytes()).stdout.decode().splitlines() == found
    )


def test_interval_is_within_a_tenth_of_sacrebleu(judged):
    hypotheses, references = make_pairs(random.Random(5), WORDS, 1500)
    found = judged(hypotheses, references, "--bootstrap", "3000", "--seed", "1")
    for case, lowercase in (("cased", False), ("lowercase", True)):
        for metric, name in zip(peers(lowercase), ("bleu", "chrf"), strict=True):
            score = metric.corpus_score(hypotheses, [references], n_bootstrap=3000)
            assert found[case][name]["mean"] == pytest.approx(score._mean, abs=0.1)
            assert found[case][name]["half_width"] == pytest.approx(score._ci, abs=0.1)
            assert score._ci > 0.3  # so that the tolerance means something
            assert "nrefs:1|bs:3000|seed:1|case:" in found[case][name]["signature"]
    assert judged(hypotheses, references, "--bootstrap", "3000", "--seed", "1") == found


def test_malformed_bytes_count_as_replacement_characters(judged):
    rng = random.Random(11)
    noise = [
        bytes(
            rng.choice(b"ab .\x80\xbf\xc0\xc3\xe2\x82\xac\xed\xa0\xf0\x9f\x98\xf5\xff")
            for _ in range(30)
        )
        for _ in range(60)
    ]
    hypotheses = [b"same words here and there " + line for line in noise]
    references = [b"same words here or there " + line[:20] for line in noise]
    found = judged(hypotheses, references)
    texts = [
        [line.decode("utf-8", "replace") for line in lines] for lines in (hypotheses, references)
    ]
    for case, lowercase in (("cased", False), ("lowercase", True)):
        for metric, name in zip(peers(lowercase), ("bleu", "chrf"), strict=True):
            score = metric.corpus_score(texts[0], [texts[1]]).score
            assert found[case][name]["score"] == pytest.approx(score, rel=0, abs=1e-9)


@pytest.mark.parametrize(
    ("hypotheses", "references", "options", "expected"),
    [
        (["a", "b"], ["a"], [], ["2 lines", "1;"]),
        ([], [], [], ["no lines"]),
        (["a"], None, [], ["ref", "no such file"]),
        (["a"], ["a"], ["--bootstrap", "1"], ["--bootstrap"]),
    ],
)
def test_bad_calls_end_with_one_clear_line(tmp_path, hypotheses, references, options, expected):
    hypothesis_file, reference_file = write(tmp_path / "hyp", hypotheses), tmp_path / "ref"
    if references is not None:
        write(reference_file, references)
    result = evaluate(hypothesis_file, reference_file, *options)
    message = result.stderr.decode()
    assert result.returncode in (1, 2)
    assert result.stdout == b""
    assert message.startswith("headwise: error: ")
    assert message.count("\n") == 1
    for part in expected:
        assert part in message

"""A model written for CTranslate2 translates there as it translates here."""

import subprocess
import sys

import ctranslate2
import pytest
import sentencepiece
from architectures import trained
from headwise.export import export_ctranslate2
from program import embedded_pairs, headwise
from training import Training

# Long enough that the best piece stands out: the translations of an untrained model are ties.
TAUGHT = ["data.embedded_pairs=3000", "train.batch_tokens=800", "train.max_steps=250"]
TAUGHT += ["model.width=48", "model.feed_forward=96", "model.encoder_heads=4", "train.ema=0"]
TAUGHT += ["model.decoder_heads=4", "model.cross_heads=4", "schedule.learning_rate=0.006"]
SHAPES = {
    "pre-norm, shared": [],
    "post-norm, GELU, untied": [
        'model.norm="post"',
        'model.activation="gelu"',
        'model.embeddings="separate"',
        "model.tied_output=false",
        "model.attention_bias=false",
        "model.cross_heads=[4]",
    ],
    "two vocabularies": [
        "subword.joint=false",
        "subword.vocabulary=420",
        'model.embeddings="separate"',
        "model.encoder_heads=2",
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_translations(shape, tmp_path):
    count = 200
    run = Training(tmp_path / "run", [*TAUGHT, *SHAPES[shape]])
    run.run()
    folder = tmp_path / "ctranslate2"
    export_ctranslate2(run.folder, folder)
    sources, _ = zip(*embedded_pairs(count=count), strict=True)
    ours = headwise(
        "translate", run.folder, "--beam", 1, stdin="".join(f"{line}\n" for line in sources)
    )
    theirs = translations(folder, sources)
    pairs = list(zip(ours.rows(), theirs, strict=True))
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    # Rounding decides where two pieces are as likely; everything else is an error of the export.
    assert len(differing) <= count // 50, differing[:3]
    assert len(set(theirs)) > count // 4  # not the same words for everything


def translations(folder, lines):
    """What CTranslate2 makes of the lines, greedily, cut where Headwise cuts."""
    source = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    target = folder / "target.spm"
    pieces = sentencepiece.SentencePieceProcessor(
        model_file=str(target if target.exists() else folder / "source.spm")
    )
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    result = []
    for line in lines:
        tokens = source.encode(line, out_type=str)
        (found,) = translator.translate_batch(
            [tokens], beam_size=1, disable_unk=True, max_decoding_length=2 * len(tokens) + 10
        )
        result.append(pieces.decode(found.hypotheses[0]))
    return result


@pytest.mark.parametrize(
    ("architecture", "words"),
    [
        ("rotary, grouped heads", 'found model.positions = "rotary"; "sinusoidal" is needed'),
        ("heads by layer, no biases", "layer 0, encoder attention: 4 heads of width 6"),
        ("no output projection", "found model.positions"),
    ],
)
def test_what_ctranslate2_lacks_is_named(architecture, words, tmp_path):
    command = [sys.executable, "-m", "headwise.export", "--ctranslate2", tmp_path / "out"]
    done = subprocess.run([*command, trained(architecture)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("headwise.export: error: CTranslate2 has no such Transformer")
    assert words in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="is not empty: choose another folder"):
        export_ctranslate2(trained("plain"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

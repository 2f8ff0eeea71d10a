"""Models of every kind, trained for a few steps, once per test session."""

import functools
import tempfile
from pathlib import Path

from training import Training

ARCHITECTURES = {
    "plain": [],
    "post-norm, GELU": ['model.norm="post"', 'model.activation="gelu"'],
    "rotary, grouped heads": [
        'model.positions="rotary"',
        "model.encoder_heads=4",
        "model.encoder_kv_heads=2",
        "model.decoder_heads=4",
        "model.decoder_kv_heads=1",
        "model.cross_heads=4",
        "model.cross_kv_heads=2",
    ],
    "separate embeddings": [
        "subword.joint=false",
        "subword.vocabulary=360",
        'model.embeddings="separate"',
    ],
    "separate, untied output": ['model.embeddings="separate"', "model.tied_output=false"],
    "heads by layer, no biases": [
        "model.encoder_heads=[4, 3]",
        "model.decoder_heads=[2, 1]",
        "model.cross_heads=[3, 2]",
        "model.head_width=6",
        "model.attention_bias=false",
    ],
    "no output projection": [
        "model.output_projection=false",
        'model.norm="post"',
        'model.positions="rotary"',
        "model.cross_kv_heads=1",
    ],
}

_folders: list[tempfile.TemporaryDirectory] = []  # removed when the interpreter ends


@functools.cache
def trained(name: str) -> Path:
    """The checkpoint of one of ARCHITECTURES. Only read it."""
    _folders.append(tempfile.TemporaryDirectory(prefix="headwise_tests_"))
    settings = ["model.encoder_layers=2", "model.decoder_layers=2", "train.max_steps=15"]
    training = Training(Path(_folders[-1].name) / "run", settings + ARCHITECTURES[name])
    training.run()
    return training.step()

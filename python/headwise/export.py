"""Write a trained model for other programs: `python -m headwise.export --ctranslate2 DIR MODEL`.

Translate with what it writes as CTranslate2 translates any of its models; the pieces of a line come
from the SentencePiece models beside it (`source.spm`, `target.spm`).
"""

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from headwise.checkpoint import resolve_checkpoint
from headwise.loading import load
from headwise.model_config import ModelConfig
from headwise.nn import MultiHeadAttention
from headwise.subword import Subword
from headwise.transformer import sinusoids
from headwise.translation import TranslationModel

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

__all__ = ["export_ctranslate2"]

_LONGEST = 1024  # positions in the table that is written


def export_ctranslate2(model: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Write a checkpoint of the program `headwise` as a CTranslate2 model, in float32.

    Made by CTranslate2's own spec classes. Needs the package ctranslate2.

    Args:
        model: a run's folder or a checkpoint folder, as `headwise.load` takes it.
        folder: gets model.bin, config.json, the vocabularies and the SentencePiece models; must not
            exist or be empty.

    Raises:
        ValueError: naming what CTranslate2's Transformer does not have (grouped key/value heads,
            heads that differ from layer to layer, rotary positions, an identity output projection).
        FileExistsError: if the folder holds something.
        ImportError: if ctranslate2 is absent.
    """
    try:
        from ctranslate2.specs import TransformerSpec, common_spec
    except ModuleNotFoundError:
        raise ImportError(
            "headwise.export needs the package ctranslate2: pip install ctranslate2"
        ) from None
    target = Path(folder)
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty: choose another folder")
    trained = load(model)
    config = trained.config
    encoder_heads, decoder_heads = _heads(config)
    activations = common_spec.Activation
    spec = TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        encoder_heads,
        pre_norm=config.norm == "pre",
        activation={"relu": activations.RELU, "gelu": activations.GELU}[config.activation],
    )
    spec.decoder.num_heads = spec.decoder.num_heads.dtype.type(decoder_heads)
    _fill(spec, trained)
    vocabularies = (trained.source_vocabulary, trained.target_vocabulary)
    spec.register_source_vocabulary(_pieces(vocabularies[0]))
    spec.register_target_vocabulary(_pieces(vocabularies[1]))
    _configure(spec.config, vocabularies[1])
    spec.validate()
    spec.optimize(quantization="float32")
    target.mkdir(parents=True, exist_ok=True)
    spec.save(str(target))
    for file in resolve_checkpoint(model).glob("*.spm"):
        shutil.copy(file, target / file.name)


def _heads(config: ModelConfig) -> tuple[int, int]:
    """Give the heads of encoder and decoder; refuse what CTranslate2's Transformer lacks."""
    if config.positions != "sinusoidal":
        raise _absent(f'model.positions = "{config.positions}"', '"sinusoidal"')
    if not config.output_projection:
        raise _absent("model.output_projection = false", "true")
    kinds = {
        "encoder": [("encoder", i) for i in range(config.encoder_layers)],
        "decoder": [(k, i) for k in ("decoder", "cross") for i in range(config.decoder_layers)],
    }
    heads = {}
    for side, attentions in kinds.items():
        shapes = [(kind, i, config.attention(kind, i)) for kind, i in attentions]
        for kind, i, shape in shapes:
            name = f"layer {i}, {kind} attention: {shape.heads} heads of width {shape.head_width}"
            if shape.kv_heads != shape.heads:
                raise _absent(f"{name} and {shape.kv_heads} key/value heads", "equally many")
            if shape.heads * shape.head_width != config.width:
                raise _absent(name, f"heads x width = {config.width} (model.width)")
            if shape.heads != shapes[0][2].heads:
                raise _absent(name, f"{shapes[0][2].heads} heads in all layers of the {side}")
        heads[side] = shapes[0][2].heads
    return heads["encoder"], heads["decoder"]


def _absent(found: str, needed: str) -> ValueError:
    return ValueError(f"CTranslate2 has no such Transformer: found {found}; {needed} is needed")


def _fill(spec: "TransformerSpec", model: TranslationModel) -> None:
    config = model.config
    shared = config.embeddings == "shared"
    source = model.embedding if shared else model.source_embedding
    target = model.embedding if shared else model.target_embedding
    table = sinusoids(torch.arange(_LONGEST), config.width)
    for side, embedding in ((spec.encoder, source), (spec.decoder, target)):
        embeddings = side.embeddings[0] if side is spec.encoder else side.embeddings
        embeddings.weight = _numbers(embedding.weight)
        side.scale_embeddings = True
        side.position_encodings.encodings = _numbers(table)
    output = target if config.tied_output else model.output
    spec.decoder.projection.weight = _numbers(output.weight)
    if config.norm == "pre":
        _fill_norm(spec.encoder.layer_norm, model.encoder_norm)
        _fill_norm(spec.decoder.layer_norm, model.decoder_norm)
    for layer, trained in zip(spec.encoder.layer, model.encoder_layers(), strict=True):
        _fill_layer(layer, trained)
    for layer, trained in zip(spec.decoder.layer, model.decoder_layers(), strict=True):
        _fill_layer(layer, trained)
        attention = trained.cross_attention
        _fill_linear(layer.attention.linear[0], attention.q_proj)
        _fill_linear(layer.attention.linear[1], attention.k_proj, attention.v_proj)
        _fill_linear(layer.attention.linear[2], attention.out_proj)
        _fill_norm(layer.attention.layer_norm, trained.cross_attention_norm)


def _fill_layer(layer: Any, trained: Any) -> None:
    """What layers of both sides have."""
    attention: MultiHeadAttention = trained.self_attention
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    _fill_linear(layer.self_attention.linear[0], *projections)
    _fill_linear(layer.self_attention.linear[1], attention.out_proj)
    _fill_norm(layer.self_attention.layer_norm, trained.self_attention_norm)
    _fill_linear(layer.ffn.linear_0, trained.feed_forward.get_submodule("in"))
    _fill_linear(layer.ffn.linear_1, trained.feed_forward.get_submodule("out"))
    _fill_norm(layer.ffn.layer_norm, trained.feed_forward_norm)


def _fill_linear(linear: Any, *parts: torch.nn.Linear) -> None:
    linear.weight = _numbers(torch.cat([part.weight for part in parts]))
    if parts[0].bias is not None:
        linear.bias = _numbers(torch.cat([part.bias for part in parts]))


def _fill_norm(norm: Any, trained: torch.nn.LayerNorm) -> None:
    norm.gamma, norm.beta = _numbers(trained.weight), _numbers(trained.bias)


def _numbers(tensor: torch.Tensor) -> Any:
    return tensor.detach().float().contiguous().numpy()


def _pieces(vocabulary: Subword) -> list[str]:
    return [vocabulary.piece(i) for i in range(vocabulary.size)]


def _configure(config: Any, vocabulary: Subword) -> None:
    config.bos_token = vocabulary.piece(vocabulary.bos)
    config.decoder_start_token = config.bos_token
    config.eos_token = vocabulary.piece(vocabulary.eos)
    config.unk_token = vocabulary.piece(vocabulary.unk)
    config.add_source_eos = True
    config.layer_norm_epsilon = 1e-5


def main() -> int:
    """Read the command line; 1 for a model or folder that will not do."""
    parser = argparse.ArgumentParser(prog="python -m headwise.export", description=__doc__)
    parser.add_argument("--ctranslate2", required=True, metavar="DIR", help="folder to write")
    parser.add_argument("model", metavar="MODEL", help="a run's folder or a checkpoint folder")
    options = parser.parse_args()
    try:
        export_ctranslate2(options.model, options.ctranslate2)
    except (ImportError, OSError, ValueError) as error:
        print(f"headwise.export: error: {error}", file=sys.stderr)
        return 1
    print(f"CTranslate2 model in {options.ctranslate2}; pieces by {options.ctranslate2}/source.spm")
    return 0


if __name__ == "__main__":
    sys.exit(main())

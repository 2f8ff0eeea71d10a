"""What a checkpoint's config.toml says about its model; keys as in `headwise config`."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["AttentionShape", "ModelConfig", "TranslateConfig", "read_config"]

_CHOICES = {
    "norm": ("pre", "post"),
    "activation": ("relu", "gelu"),
    "positions": ("sinusoidal", "rotary"),
    "embeddings": ("shared", "separate"),
}


class AttentionShape(NamedTuple):
    """Query heads H, key/value heads G and head width D of one attention."""

    heads: int
    kv_heads: int
    head_width: int


@dataclass(frozen=True)
class ModelConfig:
    """The section [model]; head counts are one number for all layers or one per layer."""

    width: int
    feed_forward: int
    encoder_layers: int
    decoder_layers: int
    encoder_heads: int | list[int]
    encoder_kv_heads: int | list[int]
    decoder_heads: int | list[int]
    decoder_kv_heads: int | list[int]
    cross_heads: int | list[int]
    cross_kv_heads: int | list[int]
    head_width: int
    norm: str
    activation: str
    positions: str
    embeddings: str
    tied_output: bool
    attention_bias: bool
    output_projection: bool
    dropout: float
    attention_dropout: float
    activation_dropout: float

    def attention(self, kind: str, layer: int) -> AttentionShape:
        """Give the heads of a layer; `kind` is "encoder", "decoder" or "cross"."""
        heads = _of_layer(getattr(self, f"{kind}_heads"), layer)
        kv_heads = getattr(self, f"{kind}_kv_heads")
        return AttentionShape(
            heads,
            heads if kv_heads == [] else _of_layer(kv_heads, layer),
            self.head_width if self.head_width > 0 else self.width // heads,
        )


@dataclass(frozen=True)
class TranslateConfig:
    """What a translation needs of [translate] and [data]."""

    max_length: int  # of [data]: source pieces with end token the model was trained for
    max_length_factor: float  # output pieces <= factor * source pieces + extra
    max_length_extra: int


def read_config(path: Path) -> tuple[ModelConfig, TranslateConfig]:
    """Read the resolved configuration of a checkpoint.

    Raises:
        ValueError: naming the file and the key that is missing or has an impossible value.
    """
    try:
        content = _toml().loads(path.read_text("utf-8"))
    except ValueError as error:  # of the TOML, or of the UTF-8
        raise ValueError(f"{path}: this is not TOML: {error}") from error

    def value(section: str, key: str) -> Any:
        try:
            return content[section][key]
        except (KeyError, TypeError):
            raise ValueError(f"{path}: found no key {key} in [{section}]") from None

    model = ModelConfig(**{f.name: value("model", f.name) for f in fields(ModelConfig)})
    _check(path, model)
    return model, TranslateConfig(
        value("data", "max_length"),
        value("translate", "max_length_factor"),
        value("translate", "max_length_extra"),
    )


def _check(path: Path, model: ModelConfig) -> None:
    for key, words in _CHOICES.items():
        word = getattr(model, key)
        if word not in words:
            raise ValueError(f"{path}: model.{key} is {word!r}; it must be one of {words}")
    for kind in ("encoder", "decoder", "cross"):
        layers = model.encoder_layers if kind == "encoder" else model.decoder_layers
        for key in (f"{kind}_heads", f"{kind}_kv_heads"):
            counts = getattr(model, key)
            if isinstance(counts, list) and len(counts) not in (1, layers):
                if counts == [] and key.endswith("kv_heads"):
                    continue
                raise ValueError(
                    f"{path}: model.{key} has {len(counts)} numbers; it must be one number or one "
                    f"for each of {layers} layers"
                )


def _of_layer(counts: int | list[int], layer: int) -> int:
    if isinstance(counts, int):
        return counts
    return counts[0] if len(counts) == 1 else counts[layer]


def _toml() -> Any:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        try:
            import tomli as tomllib
        except ModuleNotFoundError:
            raise ImportError(
                "headwise.load reads TOML and needs Python 3.11 or the package tomli: "
                "pip install tomli"
            ) from None
    return tomllib

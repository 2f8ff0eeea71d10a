"""The trainer's encoder–decoder (Vaswani et al. 2017) in PyTorch, on padded batches.

Parameters are named as in a checkpoint. Letters: B sentences, S source and T target tokens, E
width, V target pieces, R live rows while decoding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headwise.model_config import AttentionShape, ModelConfig
from headwise.nn import CrossCache, KeyValueCache, MultiHeadAttention

__all__ = ["DecoderState", "Memory", "Transformer", "sinusoids"]


@dataclass
class Memory:
    """What the encoder hands to the decoder."""

    states: Tensor  # (B, S, E)
    lengths: Tensor  # (B,)


@dataclass
class DecoderState:
    """Where a decoding of B sentences stands. Made by `start`, advanced by `step`."""

    own: list[KeyValueCache]  # of each layer
    cross: list[CrossCache]
    sentences: Tensor  # (R,) int64: source sentence of each live row
    position: int = 0  # tokens every live row has been given


class FeedForward(torch.nn.Module):
    """W_out · activation(W_in · x)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self._active = {"relu": F.relu, "gelu": F.gelu}[config.activation]
        self._dropout = config.activation_dropout
        self.add_module("in", torch.nn.Linear(config.width, config.feed_forward))
        self.add_module("out", torch.nn.Linear(config.feed_forward, config.width))

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., E) to (..., E)."""
        inner = self._active(self.get_submodule("in")(x))
        return self.get_submodule("out")(F.dropout(inner, self._dropout, self.training))


class Residual(torch.nn.LayerNorm):
    """x + dropout(branch(norm(x))), or norm(x + dropout(branch(x))) when the norm comes after."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config.width)
        self._before = config.norm == "pre"
        self._dropout = config.dropout

    def around(self, x: Tensor, branch: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a branch of (..., E) to (..., E)."""
        change = F.dropout(branch(self(x) if self._before else x), self._dropout, self.training)
        return x + change if self._before else self(x + change)


class EncoderLayer(torch.nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        shape = config.attention("encoder", layer)
        self.self_attention = _attention(config, shape, config.positions == "rotary")
        self.self_attention_norm = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = Residual(config)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Map (B, S, E) to (B, S, E); lengths (B,)."""
        real = {"query_lengths": lengths, "key_lengths": lengths}
        x = self.self_attention_norm.around(x, lambda y: self.self_attention(y, **real))
        return self.feed_forward_norm.around(x, self.feed_forward)


class DecoderLayer(torch.nn.Module):
    """Causal self-attention, attention over the source, and feed-forward."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        own = config.attention("decoder", layer)
        self.self_attention = _attention(config, own, config.positions == "rotary")
        self.self_attention_norm = Residual(config)
        # Rotary positions are relative positions of one sequence; between two languages they mean
        # nothing.
        self.cross_attention = _attention(config, config.attention("cross", layer), False)
        self.cross_attention_norm = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = Residual(config)

    def forward(self, x: Tensor, memory: Memory, lengths: Tensor) -> Tensor:
        """Map (B, T, E) to (B, T, E); lengths (B,)."""
        real = {"query_lengths": lengths, "key_lengths": lengths}
        source = {"query_lengths": lengths, "key_lengths": memory.lengths}
        return self._sublayers(
            x,
            lambda y: self.self_attention(y, causal=True, **real),
            lambda y: self.cross_attention(y, memory.states, **source),
        )

    def step(self, x: Tensor, own: KeyValueCache, cross: CrossCache, sentences: Tensor) -> Tensor:
        """Map (R, 1, E), one new token for each live row, to (R, 1, E)."""
        return self._sublayers(
            x,
            lambda y: self.self_attention(y, cache=own),
            lambda y: self.cross_attention.cross_step(y, cross, sentences),
        )

    def _sublayers(
        self,
        x: Tensor,
        attend: Callable[[Tensor], Tensor],
        attend_source: Callable[[Tensor], Tensor],
    ) -> Tensor:
        x = self.self_attention_norm.around(x, attend)
        x = self.cross_attention_norm.around(x, attend_source)
        return self.feed_forward_norm.around(x, self.feed_forward)


class Transformer(torch.nn.Module):
    """Encoder and decoder; parameters are those of a checkpoint, by name and shape.

    Args:
        config: the section [model].
        source_pieces, target_pieces: sizes of the vocabularies.
        pad: (source, target) ids of the padding piece.

    Raises:
        ValueError: for shared embeddings of two vocabularies that differ in size.
    """

    def __init__(
        self, config: ModelConfig, source_pieces: int, target_pieces: int, pad: tuple[int, int]
    ) -> None:
        super().__init__()
        self.config = config
        self._pad = pad
        if config.embeddings == "shared":
            if source_pieces != target_pieces:
                raise ValueError(
                    f"shared embeddings need one vocabulary; got {source_pieces} source and "
                    f"{target_pieces} target pieces"
                )
            self.embedding = torch.nn.Embedding(source_pieces, config.width)
        else:
            self.source_embedding = torch.nn.Embedding(source_pieces, config.width)
            self.target_embedding = torch.nn.Embedding(target_pieces, config.width)
        for i in range(config.encoder_layers):
            self.add_module(f"encoder_{i}", EncoderLayer(config, i))
        for i in range(config.decoder_layers):
            self.add_module(f"decoder_{i}", DecoderLayer(config, i))
        if config.norm == "pre":
            self.encoder_norm = torch.nn.LayerNorm(config.width)
            self.decoder_norm = torch.nn.LayerNorm(config.width)
        if not config.tied_output:
            self.output = torch.nn.Linear(config.width, target_pieces, bias=False)

    def encoder_layers(self) -> list[EncoderLayer]:
        """Give the layers in their order."""
        return [self.get_submodule(f"encoder_{i}") for i in range(self.config.encoder_layers)]

    def decoder_layers(self) -> list[DecoderLayer]:
        """Give the layers in their order."""
        return [self.get_submodule(f"decoder_{i}") for i in range(self.config.decoder_layers)]

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_lengths: Tensor | None = None,
        target_lengths: Tensor | None = None,
    ) -> Tensor:
        """Score every target piece after every target token.

        Args:
            source: (B, S) integer ids with end, padded at the end.
            target: (B, T) integer ids of the decoder's input (begin token first), padded alike.
            source_lengths, target_lengths: (B,) tokens of each row; default: those that are not
                padding.

        Returns:
            (B, T, V) scores before softmax; those past a row's length mean nothing.
        """
        _check_ids("source", source)
        _check_ids("target", target)
        if target_lengths is None:
            target_lengths = _lengths(target, self._pad[1])
        memory = self.run_encoder(source, source_lengths)
        x = self._embed(self._table("target"), target, 0)
        for layer in self.decoder_layers():
            x = layer(x, memory, target_lengths)
        return self._scores(x)

    def run_encoder(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        """Encode (B, S) ids with end; `lengths` as in `forward`."""
        lengths = _lengths(source, self._pad[0]) if lengths is None else lengths
        x = self._embed(self._table("source"), source, 0)
        for layer in self.encoder_layers():
            x = layer(x, lengths)
        return Memory(self.encoder_norm(x) if self.config.norm == "pre" else x, lengths)

    def start(self, memory: Memory, capacity: int) -> DecoderState:
        """Begin to decode, one row for each sentence and at most `capacity` tokens a row."""
        layers = self.decoder_layers()
        sentences = memory.states.size(0)
        return DecoderState(
            [layer.self_attention.new_cache(sentences, capacity) for layer in layers],
            [
                layer.cross_attention.cross_cache(memory.states, None, memory.lengths)
                for layer in layers
            ],
            torch.arange(sentences, device=memory.states.device),
        )

    def step(self, state: DecoderState, tokens: Tensor, parents: Tensor) -> Tensor:
        """Give each live row a token; inference only.

        Args:
            state: changed.
            tokens: (R,) int64.
            parents: (R,) int64: the row of the step before that each row continues; at the first
                step the sentence.

        Returns:
            (R, V) scores before softmax of what comes next.
        """
        state.sentences = state.sentences[parents]
        x = self._embed(self._table("target"), tokens[:, None], state.position)
        layers = zip(self.decoder_layers(), state.own, state.cross, strict=True)
        for layer, own, cross in layers:
            own.reorder(parents)
            x = layer.step(x, own, cross, state.sentences)
        state.position += 1
        return self._scores(x)[:, 0]

    def _table(self, side: str) -> torch.nn.Embedding:
        shared = self.config.embeddings == "shared"
        return self.embedding if shared else self.get_submodule(f"{side}_embedding")

    def _embed(self, table: torch.nn.Embedding, ids: Tensor, first: int) -> Tensor:
        width = self.config.width
        x = table(ids) * math.sqrt(width)
        if self.config.positions == "sinusoidal":
            positions = torch.arange(first, first + ids.size(1), device=ids.device)
            x = x + sinusoids(positions, width).to(x.dtype)
        return F.dropout(x, self.config.dropout, self.training)

    def _scores(self, x: Tensor) -> Tensor:
        x = self.decoder_norm(x) if self.config.norm == "pre" else x
        tied = self.config.tied_output
        return F.linear(x, self._table("target").weight if tied else self.output.weight)


def _attention(config: ModelConfig, shape: AttentionShape, rotary: bool) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.width,
        shape.heads,
        num_kv_heads=shape.kv_heads,
        head_dim=shape.head_width,
        bias=config.attention_bias,
        dropout=config.attention_dropout,
        out_proj=config.output_projection,
        rotary=rotary,
    )


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """(T, E) float64: column 2i holds sin, 2i + 1 cos of position / 10000^(2i / E)."""
    column = torch.arange(0, width, 2, device=positions.device, dtype=torch.float64)
    angle = positions.double()[:, None] * torch.exp(column * (-math.log(10000.0) / width))
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]


def _lengths(ids: Tensor, pad: int) -> Tensor:
    return ids.ne(pad).sum(1)


def _check_ids(name: str, ids: Tensor) -> None:
    if ids.dim() != 2 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise ValueError(
            f"{name} must be integer ids of shape (B, tokens); got {ids.dtype} of shape "
            f"{tuple(ids.shape)}"
        )

"""The attention module; parameters are named and laid out as those of the C++ module."""

from typing import NamedTuple

import torch
from torch import Tensor

from headwise._library import KeyValueCache
from headwise.decoding import attention_decode
from headwise.functional import Window, attention, attention_weights
from headwise.rotary import rotate_by_position
from headwise.torch_module import module_from_torch, module_to_torch

__all__ = ["CrossCache", "KeyValueCache", "MultiHeadAttention"]

_MAX_TOKENS_PER_CALL = 8  # of attention_decode


class CrossCache(NamedTuple):
    """Keys and values of B source sentences, projected once for all decoding steps."""

    keys: Tensor  # (B, G, T_k, D)
    values: Tensor  # (B, G, T_k, D)
    lengths: Tensor  # (B,) int32 or int64


class MultiHeadAttention(torch.nn.Module):
    """Multi-head attention with grouped key/value heads (Vaswani et al. 2017; Ainslie et al. 2023).

    Args:
        embed_dim: E, width of queries and outputs.
        num_heads: H.
        num_kv_heads: G, divides `num_heads`; default `num_heads`.
        head_dim: D; default E / H, which must then divide.
        kdim: width of key inputs; default E.
        vdim: width of value inputs; default E.
        bias: of all four projections.
        dropout: of the attention weights, in training mode only.
        out_proj: False makes the output projection the identity; needs H * D == E.
        rotary: turn queries and keys by their positions (Su et al. 2021); needs an even D.
            Self-attention only.

    Raises:
        ValueError: naming the numbers of an impossible combination.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        out_proj: bool = True,
        rotary: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.head_dim = _head_dim(embed_dim, num_heads, self.num_kv_heads, head_dim)
        if not out_proj and num_heads * self.head_dim != embed_dim:
            raise ValueError(
                f"without out_proj the heads are the output: num_heads {num_heads} * head_dim "
                f"{self.head_dim} must equal embed_dim {embed_dim}"
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1); got {dropout}")
        if rotary and self.head_dim % 2:
            raise ValueError(
                f"rotary positions turn pairs of channels; got the odd head_dim {self.head_dim}"
            )
        self.dropout = dropout
        self.rotary = rotary

        def linear(inputs: int, outputs: int) -> torch.nn.Linear:
            return torch.nn.Linear(inputs, outputs, bias=bias, device=device, dtype=dtype)

        heads_width, kv_width = num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        self.q_proj = linear(embed_dim, heads_width)
        self.k_proj = linear(embed_dim if kdim is None else kdim, kv_width)
        self.v_proj = linear(embed_dim if vdim is None else vdim, kv_width)
        self.out_proj = linear(heads_width, embed_dim) if out_proj else None
        self.reset_parameters()

    @classmethod
    def from_torch(cls, module: torch.nn.MultiheadAttention) -> "MultiHeadAttention":
        """Make a module that computes what torch's computes, with a copy of its weights.

        The inputs lie batch first, and masks have headwise's names: torch's `attn_mask` is `hide`
        (bool) or `bias` (float), its `key_padding_mask` is `key_lengths`, or `hide` with shape
        (B, 1, 1, T_k). Training mode, dtype, device and `requires_grad` are taken over.

        Args:
            module: with E = `embed_dim` and H = `num_heads`; `kdim` and `vdim` may differ from E.

        Raises:
            TypeError: for another kind of module, or a subclass that computes something else.
            ValueError: for `batch_first=False`, `add_bias_kv`, `add_zero_attn` and sizes the op
                does not take.
        """
        return module_from_torch(cls, module)

    def to_torch(self) -> torch.nn.MultiheadAttention:
        """Make torch's module with a copy of these weights, `batch_first=True`.

        Raises:
            ValueError: naming what torch's module cannot express: grouped key/value heads, a head
                width of its own, no output projection, rotary positions.
        """
        return module_to_torch(self)

    def reset_parameters(self) -> None:
        """Draw Xavier-uniform weights and set the biases to zero."""
        for layer in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            if layer is None:
                continue
            torch.nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                torch.nn.init.zeros_(layer.bias)

    def new_cache(self, rows: int, capacity: int) -> KeyValueCache:
        """Make an empty cache for `rows` sequences of at most `capacity` tokens."""
        weight = self.k_proj.weight
        return KeyValueCache(
            rows,
            self.num_kv_heads,
            capacity,
            self.head_dim,
            dtype=weight.dtype,
            device=weight.device,
        )

    def cross_cache(
        self, key: Tensor, value: Tensor | None = None, key_lengths: Tensor | None = None
    ) -> CrossCache:
        """Project the source once, for any number of `cross_step`.

        Args:
            key: (B, T_k, kdim).
            value: (B, T_k, vdim); default: key.
            key_lengths: (B,) int32 or int64; default: T_k for each.
        """
        value = key if value is None else value
        _check_input("key", key, self.k_proj.in_features)
        _check_input("value", value, self.v_proj.in_features)
        if key_lengths is None:
            key_lengths = torch.full((key.size(0),), key.size(1), device=key.device)
        return CrossCache(
            self._heads(self.k_proj, key, self.num_kv_heads),
            self._heads(self.v_proj, value, self.num_kv_heads),
            key_lengths,
        )

    def cross_step(self, query: Tensor, cache: CrossCache, rows: Tensor) -> Tensor:
        """Attend from every live row to its source sentence. Inference only.

        Args:
            query: (R, T, E), 1 <= T <= 8 new tokens.
            cache: of B sentences.
            rows: (R,) integers: the sentence of each live row.

        Returns:
            (R, T, E).
        """
        _check_input("query", query, self.embed_dim)
        heads = attention_decode(
            _as_cached(self._heads(self.q_proj, query, self.num_heads), cache.keys),
            cache.keys,
            cache.values,
            cache.lengths[rows],
            causal=False,
            beam_index=rows.to(torch.int32),
        )
        return self._merge(heads)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        hide: Tensor | None = None,
        keep: Tensor | None = None,
        bias: Tensor | None = None,
        query_lengths: Tensor | None = None,
        key_lengths: Tensor | None = None,
        causal: bool = False,
        align: str = "end",
        window: Window | None = None,
        need_weights: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from query to key and value; the masks are those of `headwise.attention`.

        Args:
            query: (B, T_q, E).
            key: (B, T_k, kdim); default: query (self-attention).
            value: (B, T_k, vdim); default: key.
            hide, keep, bias, query_lengths, key_lengths, causal, align, window: as there.
            need_weights: also return the weights of every head; never changes the output.
            cache: causal self-attention of T_q new tokens over everything in the cache, to which
                they are appended. Inference only, without other masks or weights.

        Returns:
            (B, T_q, E); with `need_weights` also (B, H, T_q, T_k), dropout left out.
        """
        masks = {
            "hide": hide,
            "keep": keep,
            "bias": bias,
            "query_lengths": query_lengths,
            "key_lengths": key_lengths,
            "window": window,
        }
        if cache is not None:
            given = [name for name, mask in masks.items() if mask is not None]
            given += ["key"] * (key is not None) + ["value"] * (value is not None)
            given += ["need_weights"] * need_weights
            if given:
                raise ValueError(f"with a cache, {', '.join(given)} cannot be given")
            return self._step(query, cache)
        q, k, v = self._project(query, key, value)
        rules = {**masks, "causal": causal, "align": align}
        dropout = self.dropout if self.training else 0.0
        heads, lse = attention(q, k, v, **rules, dropout=dropout, return_lse=True)
        output = self._merge(heads)
        return (output, attention_weights(q, k, lse, **rules)) if need_weights else output

    def extra_repr(self) -> str:
        """Name the sizes that the projections do not show."""
        return (
            f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, "
            f"head_dim={self.head_dim}, dropout={self.dropout}" + ", rotary=True" * self.rotary
        )

    def _project(
        self, query: Tensor, key: Tensor | None, value: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Give (B, H, T_q, D), (B, G, T_k, D) and (B, G, T_k, D), turned if rotary."""
        if self.rotary and (key is not None or value is not None):
            raise ValueError("rotary positions are those of one sequence: give query alone")
        key = query if key is None else key
        value = key if value is None else value
        for name, x, layer in (
            ("query", query, self.q_proj),
            ("key", key, self.k_proj),
            ("value", value, self.v_proj),
        ):
            _check_input(name, x, layer.in_features)
        q = self._heads(self.q_proj, query, self.num_heads)
        k = self._heads(self.k_proj, key, self.num_kv_heads)
        v = self._heads(self.v_proj, value, self.num_kv_heads)
        if self.rotary:
            positions = torch.arange(query.size(1), device=query.device)
            q, k = rotate_by_position(q, positions), rotate_by_position(k, positions)
        return q, k, v

    def _step(self, query: Tensor, cache: KeyValueCache) -> Tensor:
        _check_input("query", query, self.embed_dim)
        q = self._heads(self.q_proj, query, self.num_heads)
        if torch.is_grad_enabled() and q.requires_grad:
            raise RuntimeError("a cached step has no backward: call it under torch.no_grad()")
        before, tokens = cache.length, query.size(1)
        k = self._heads(self.k_proj, query, self.num_kv_heads)
        if self.rotary:
            positions = torch.arange(before, before + tokens, device=query.device)
            q, k = rotate_by_position(q, positions), rotate_by_position(k, positions)
        v = self._heads(self.v_proj, query, self.num_kv_heads)
        q, k, v = (_as_cached(x, cache.keys) for x in (q, k, v))
        cache.append(k, v)
        outputs = []
        for begin in range(0, tokens, _MAX_TOKENS_PER_CALL):
            end = min(begin + _MAX_TOKENS_PER_CALL, tokens)
            # All tokens are in the cache already; the length up to this piece keeps it causal.
            lengths = torch.full(
                (query.size(0),), before + end, dtype=torch.int32, device=query.device
            )
            outputs.append(
                attention_decode(
                    q[:, :, begin:end],
                    cache.keys,
                    cache.values,
                    lengths,
                    beam_index=cache.beam_index,
                )
            )
        return self._merge(torch.cat(outputs, dim=2) if len(outputs) > 1 else outputs[0])

    def _heads(self, layer: torch.nn.Linear, x: Tensor, heads: int) -> Tensor:
        return layer(x).unflatten(-1, (heads, self.head_dim)).transpose(1, 2)

    def _merge(self, heads: Tensor) -> Tensor:
        joined = heads.transpose(1, 2).flatten(2)  # a view: the op wrote (B, T, H, D) memory
        return joined if self.out_proj is None else self.out_proj(joined)


def _head_dim(embed_dim: int, num_heads: int, num_kv_heads: int, head_dim: int | None) -> int:
    if embed_dim < 1 or num_heads < 1:
        raise ValueError(
            "embed_dim and num_heads must be at least 1; "
            f"got embed_dim {embed_dim} and num_heads {num_heads}"
        )
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(
            f"num_kv_heads must divide num_heads; got num_heads {num_heads} "
            f"and num_kv_heads {num_kv_heads}"
        )
    if head_dim is None:
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim {embed_dim} is not divisible by num_heads {num_heads}: "
                "choose another number of heads or give head_dim"
            )
        head_dim = embed_dim // num_heads
    if not 1 <= head_dim <= 256:
        raise ValueError(f"head_dim must be 1 to 256; got {head_dim}")
    return head_dim


def _as_cached(heads: Tensor, cached: Tensor) -> Tensor:
    """Undo autocast's cast: a cache keeps the type it was made with."""
    autocast = torch.is_autocast_enabled(heads.device.type)
    return heads.to(cached.dtype) if autocast else heads


def _check_input(name: str, x: Tensor, width: int) -> None:
    if x.dim() != 3 or x.size(-1) != width:
        raise ValueError(f"{name} must have shape (B, T, {width}); got {tuple(x.shape)}")

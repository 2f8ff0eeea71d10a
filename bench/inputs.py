"""The numbers both sides work on, made from a seed, and results in a form that can be compared."""

import torch
from torch import Tensor

from bench.cases import Case

__all__ = ["Inputs", "digest"]


class Inputs:
    """Tensors of one case.

    query, output_gradient are (B, H, T_q, D); key, value (B, G, T, D). `hide` and `bias` are None
    where the case has none; `lengths` too. The output's gradient is zero past the lengths: what
    stands there is no result, and no loss looks at it.
    """

    def __init__(self, case: Case, seed: int = 1) -> None:
        self.case = case
        self._generator = torch.Generator().manual_seed(seed)
        self._dtype = getattr(torch, case.dtype)
        rows = (case.batch, case.heads, case.query_length, case.width)
        if case.sliced:
            parts = self._normal(case.batch, case.length, 3, case.heads, case.width)
            self.query, self.key, self.value = (x.transpose(1, 2) for x in parts.unbind(2))
        else:
            self.query = self._normal(*rows)
            self.key, self.value = (
                self._normal(case.batch, case.groups, case.length, case.width) for _ in range(2)
            )
        self.lengths = self._draw_lengths()
        self.output_gradient = self._normal(*rows)
        if self.lengths is not None:
            self.output_gradient *= self.valid()[:, None, :, None]
        self.hide, self.bias = self._draw_masks()

    def _normal(self, *size: int) -> Tensor:
        return torch.randn(size, generator=self._generator).to(self._dtype)

    def _draw_lengths(self) -> Tensor | None:
        case = self.case
        if not case.shortest:
            return None
        size = (case.batch,)
        return torch.randint(case.shortest, case.length + 1, size, generator=self._generator)

    def _draw_masks(self) -> tuple[Tensor | None, Tensor | None]:
        case, t = self.case, self.case.length
        if case.mask == "hide":
            hide = torch.rand((case.batch, 1, t, t), generator=self._generator) < 0.3
            return hide & ~torch.eye(t, dtype=torch.bool), None  # no row without a key
        return None, self._normal(1, case.heads, t, t) if case.mask == "bias" else None

    def valid(self) -> Tensor:
        """(B, T) bool: positions within the lengths."""
        assert self.lengths is not None
        return torch.arange(self.case.length) < self.lengths[:, None]

    def keep(self) -> Tensor | None:
        """Visible keys as SDPA's bool mask, broadcast as far as it can be; None: all of them."""
        case, t = self.case, self.case.length
        if self.lengths is not None:
            return self.valid()[:, None, None, :]
        if self.hide is not None:
            return ~self.hide
        if not case.causal:
            return None
        keep = torch.ones(t, t, dtype=torch.bool).tril()
        return keep.triu(1 - case.window) if case.window else keep

    def visible_pairs(self) -> int:
        """How many pairs of a query and a key the case asks for, over batch and heads."""
        case = self.case
        if self.lengths is not None:
            return int((self.lengths**2).sum()) * case.heads
        keep = self.keep()
        every = case.batch * case.heads * case.query_length * case.length
        return every if keep is None else int(keep.sum()) * every // keep.numel()

    def fingerprint(self) -> list[float]:
        """Equal for equal numbers, whichever torch made them."""
        tensors = (self.query, self.key, self.value, self.output_gradient)
        return [x.double().square().sum().item() for x in tensors]

    def rows(self, x: Tensor) -> Tensor:
        """Of (B, heads, T, width) what lies within the lengths, (N, heads, width); else all."""
        return x if self.lengths is None else x.transpose(1, 2)[self.valid()]


def digest(results: list[Tensor], most: int = 4096) -> list[list[float]]:
    """At most so many numbers of every result, evenly spread."""
    flat = [x.detach().double().flatten() for x in results]
    return [x[:: max(1, -(-x.numel() // most))].tolist() for x in flat]

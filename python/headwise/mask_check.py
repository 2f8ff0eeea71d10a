"""Does a module hide what its masks say? Tried by perturbation, not by reading."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.mask_adapters import Call, Masks, adapters_of, name_of
from headwise.mask_report import MaskCheck, MaskReport

__all__ = ["check_masks"]

_LENGTH = 6  # T; every key is perturbed on its own
_CASES = {  # causal, lengths
    "causal": (True, None),
    "padding": (False, (_LENGTH, 3, 1)),
    "causal and padding": (True, (_LENGTH, 3, 1)),
    "rows that see nothing": (False, (_LENGTH, 0, 3)),
}


def check_masks(
    module: Callable[..., Any],
    call: Call | None = None,
    *,
    width: int | tuple[int, int, int] | None = None,
    seed: int = 0,
) -> MaskReport:
    """Try a module's causal and padding masks on random inputs, in evaluation mode.

    Checked for each mask: changing a hidden key, slightly or hugely, leaves every output bit as it
    was, while changing a visible one does not; hidden weights are exactly 0 and rows of weights sum
    to 1 (if the module returns weights); rows that see no key are finite. A mask that does the
    opposite is called inverted.

    >>> report = headwise.check_masks(headwise.nn.MultiHeadAttention(16, 4))
    >>> report.ok
    True

    Args:
        module: a `headwise.nn.MultiHeadAttention`, a `torch.nn.MultiheadAttention`, or anything
            else with a `call`.
        call: `call(module, query, key, value, masks)` applies a module of another kind: query
            (B, T, E), key (B, T, kdim), value (B, T, vdim), all one tensor where the widths are
            equal; `masks` has `causal`, `lengths` (B,) or None, and `hide` (B, 1, T, T), True =
            hidden, which says the same as both. Returns the output (B, T, any) or output and
            weights (B, H, T, T).
        width: E, or (E, kdim, vdim); needed with `call`.
        seed: of the random inputs.

    Returns:
        A report with `ok`, `checks`, `failures` and `inverted`; printing it gives a line a check.

    Raises:
        TypeError: for a module of another kind without `call`, or `call` without `width`.
        ValueError: if the module returns something of another shape.
    """
    adapters, widths = adapters_of(module, call, width)
    checks: list[MaskCheck] = []
    inverted: list[str] = []
    with _evaluating(module), torch.no_grad():
        for given_as, adapter in adapters.items():
            for case, (causal, lengths) in _CASES.items():
                name = case + (f" as {given_as}" if given_as else "")
                trial = _Trial(module, adapter, widths, seed, causal, lengths)
                checks += trial.checks(name)
                if trial.inverted:
                    inverted.append(name)
    return MaskReport(name_of(module), tuple(checks), tuple(inverted))


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Switch dropout off, and leave every submodule's mode as it was."""
    modules = list(module.modules()) if isinstance(module, torch.nn.Module) else []
    modes = [m.training for m in modules]
    try:
        for m in modules:
            m.training = False
        yield
    finally:
        for m, mode in zip(modules, modes, strict=True):
            m.training = mode


@dataclass
class _Influence:
    """Which outputs moved when one key was changed: (B, T_q, T_k) bool each."""

    small: Tensor  # the key became another random one
    huge: Tensor  # the key became enormous


class _Trial:
    """One mask on one module."""

    def __init__(
        self,
        module: Any,
        call: Call,
        widths: tuple[int, int, int],
        seed: int,
        causal: bool,
        lengths: tuple[int, ...] | None,
    ) -> None:
        self._module, self._call = module, call
        parameters = module.parameters() if isinstance(module, torch.nn.Module) else ()
        like = next((p for p in parameters if p.is_floating_point()), torch.empty(0))
        self._like = like
        self._random = torch.Generator().manual_seed(seed)
        self._joined = len(set(widths)) == 1  # one tensor is query, key and value
        self._inputs = [self._draw(3, _LENGTH, w) for w in widths[: 1 if self._joined else 3]]

        given = None if lengths is None else torch.tensor(lengths, device=like.device)
        self._masks = Masks(causal, given, _hidden(causal, lengths).to(like.device)[:, None])
        # In self-attention a changed token is a changed query too, so its own row must move.
        other_row = ~torch.eye(_LENGTH, dtype=torch.bool) | (not self._joined)
        self._hidden = _hidden(causal, lengths) & other_row
        real = torch.tensor(lengths or (_LENGTH,) * 3)[:, None] > torch.arange(_LENGTH)
        self._visible = ~_hidden(causal, lengths) & other_row & real[:, :, None]
        self._blank = _hidden(causal, lengths).all(-1)  # (B, T_q)

        self._output, self._weights = self._run(self._inputs)
        self._repeats = _same_rows(self._output, self._run(self._inputs)[0]).all().item()
        self._influence = self._influences()
        leaks, dead = self._leaks().sum(), (self._visible & ~self._influence.small).sum()
        self.inverted = bool(2 * leaks > self._hidden.sum() and 2 * dead > self._visible.sum() > 0)

    def checks(self, mask: str) -> list[MaskCheck]:
        """Everything this mask must fulfil."""
        found = [
            ("the same input gives the same bits", self._repeats, ""),
            ("changing a hidden key changes no bit of the output", *self._hidden_rule()),
            ("changing a visible key changes the output", *self._visible_rule()),
            ("the output is finite", *self._finite_rule()),
            ("hidden weights are exactly 0", *self._zero_rule()),
            ("rows of weights sum to 1, or to 0 where nothing is seen", *self._sum_rule()),
        ]
        return [MaskCheck(mask, *row) for row in found]

    def _hidden_rule(self) -> tuple[bool, str]:
        leaks = self._leaks()
        if not leaks.any():
            return True, ""
        b, i, j = leaks.nonzero()[0].tolist()
        kind = (
            "hidden keys are outweighed, not left out, as by adding -1e9: "
            if not (self._hidden & self._influence.small).any()
            else "a leak from the future: "
            if self._masks.causal and j > i and not self._padded(b, j)
            else "padding is seen: "
        )
        total = int(self._hidden.sum())
        return False, (
            f"{kind}row {i} of sequence {b} moves with key {j}; so do {int(leaks.sum())} of "
            f"{total} hidden pairs"
        )

    def _visible_rule(self) -> tuple[bool | None, str]:
        dead = self._visible & ~self._influence.small
        if not self._visible.any():
            return None, "no key is visible"
        if not dead.any():
            return True, ""
        b, i, j = dead.nonzero()[0].tolist()
        return False, (
            f"row {i} of sequence {b} ignores key {j}; so do {int(dead.sum())} of "
            f"{int(self._visible.sum())} visible pairs"
        )

    def _finite_rule(self) -> tuple[bool, str]:
        bad = ~self._output.isfinite().all(-1).cpu()
        if not bad.any():
            return True, ""
        b, i = bad.nonzero()[0].tolist()
        value = self._output[b, i][~self._output[b, i].isfinite()][0].item()
        reason = ", which sees no key" if self._blank[b, i] else ""
        return False, f"{value} in row {i} of sequence {b}{reason}; {int(bad.sum())} such rows"

    def _zero_rule(self) -> tuple[bool | None, str]:
        if self._weights is None:
            return None, "no weights are returned"
        hidden = self._masks.hide.cpu().expand_as(self._weights)
        bad = (self._weights != 0) & hidden  # NaN is not 0 either
        if not bad.any():
            return True, ""
        b, head, i, j = bad.nonzero()[0].tolist()
        value = self._weights[b, head, i, j].item()
        return False, (
            f"weight {value:.3g} on key {j} in row {i} of sequence {b}, head {head}; "
            f"{int(bad.sum())} of {int(hidden.sum())} hidden weights"
        )

    def _sum_rule(self) -> tuple[bool | None, str]:
        if self._weights is None:
            return None, "no weights are returned"
        sums = self._weights.double().sum(-1)
        wanted = (~self._blank)[:, None].double().expand_as(sums)
        tolerance = 4 * _LENGTH * torch.finfo(self._weights.dtype).eps
        # Rows past a length may be 0: they do not exist.
        padded_row = torch.zeros_like(self._blank)
        if self._masks.lengths is not None:
            padded_row = torch.arange(_LENGTH) >= self._masks.lengths.cpu()[:, None]
        fine = ((sums - wanted).abs() <= tolerance) | (padded_row[:, None] & (sums == 0))
        if fine.all():
            return True, ""
        b, head, i = (~fine).nonzero()[0].tolist()
        return False, (
            f"the sum is {sums[b, head, i].item():.6g} in row {i} of sequence {b}, head {head}; "
            f"it must be {wanted[b, head, i].item():.0f}"
        )

    def _leaks(self) -> Tensor:
        return self._hidden & (self._influence.small | self._influence.huge)

    def _padded(self, b: int, j: int) -> bool:
        return self._masks.lengths is not None and j >= self._masks.lengths[b].item()

    def _influences(self) -> _Influence:
        other = [self._draw(*x.shape) for x in self._inputs]
        # Enough to beat any finite number that is added to a score, too little to overflow one.
        factor = torch.finfo(self._like.dtype).max ** 0.4
        changed = range(len(self._inputs)) if self._joined else range(1, 3)
        result = []
        for scale in (1.0, factor):
            columns = []
            for j in range(_LENGTH):
                inputs = [x.clone() for x in self._inputs]
                for n in changed:
                    inputs[n][:, j] = other[n][:, j] * scale
                columns.append(~_same_rows(self._output, self._run(inputs)[0]))
            result.append(torch.stack(columns, -1))
        return _Influence(*result)

    def _run(self, inputs: list[Tensor]) -> tuple[Tensor, Tensor | None]:
        query, key, value = inputs * 3 if self._joined else inputs
        result = self._call(self._module, query, key, value, self._masks)
        output, weights = result if isinstance(result, tuple) else (result, None)
        rows, square = (3, _LENGTH), (_LENGTH, _LENGTH)
        if output.dim() != 3 or output.shape[:2] != rows:
            raise ValueError(f"the output must be (3, {_LENGTH}, any); got {tuple(output.shape)}")
        if weights is None:
            return output, None
        if weights.dim() != 4 or (weights.size(0), *weights.shape[2:]) != (3, *square):
            raise ValueError(
                f"the weights must be (3, H, {_LENGTH}, {_LENGTH}); got {tuple(weights.shape)}"
            )
        return output, weights.cpu()

    def _draw(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._random).to(self._like)


def _hidden(causal: bool, lengths: tuple[int, ...] | None) -> Tensor:
    """(B, T_q, T_k), True = hidden."""
    hide = torch.zeros(3, _LENGTH, _LENGTH, dtype=torch.bool)
    if causal:
        hide |= torch.ones(_LENGTH, _LENGTH, dtype=torch.bool).triu(1)
    if lengths is not None:
        hide |= (torch.arange(_LENGTH) >= torch.tensor(lengths)[:, None])[:, None, :]
    return hide


def _same_rows(a: Tensor, b: Tensor) -> Tensor:
    """(B, T): whether all bits of a row agree."""
    return (a.contiguous().view(torch.uint8) == b.contiguous().view(torch.uint8)).all(-1).cpu()

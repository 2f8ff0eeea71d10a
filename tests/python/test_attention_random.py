"""The op on drawn problems: every rule, layout and dtype with every other.

The judge is the plain float64 formula and its gradients; hypothesis shrinks a problem that fails.
"""

import dataclasses

import headwise
import pytest
import torch
from attention_reference import plain
from hypothesis import given, settings
from hypothesis import strategies as st

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 6e-3, torch.bfloat16: 4e-2}


@dataclasses.dataclass
class Problem:
    batch: int
    group: int
    kv_heads: int
    queries: int
    keys: int
    width: int
    value_width: int
    dtype: torch.dtype
    layout: str
    causal: bool
    align: str
    window: tuple[int | None, int | None] | None
    mask_axes: tuple[bool, bool, bool, bool] | None
    bias_axes: tuple[bool, bool, bool, bool] | None
    has_lengths: bool
    seed: int

    def shape(self, axes):
        whole = (self.batch, self.kv_heads * self.group, self.queries, self.keys)
        return [n if kept else 1 for n, kept in zip(whole, axes, strict=True)]


_SMALL = st.integers(1, 4)
_AXES = st.none() | st.tuples(*[st.booleans()] * 4)
_REACH = st.none() | st.integers(0, 9)
PROBLEMS = st.builds(
    Problem,
    batch=_SMALL,
    group=st.integers(1, 3),
    kv_heads=st.integers(1, 3),
    queries=st.integers(1, 150),
    keys=st.integers(1, 300),
    width=st.integers(1, 70),
    value_width=st.integers(1, 70),
    dtype=st.sampled_from(list(TOLERANCE)),
    layout=st.sampled_from(["heads first", "tokens first", "transposed", "sliced"]),
    causal=st.booleans(),
    align=st.sampled_from(["end", "start"]),
    window=st.none() | st.tuples(_REACH, _REACH),
    mask_axes=_AXES,
    bias_axes=_AXES,
    has_lengths=st.booleans(),
    seed=st.integers(0, 2**31),
)


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers in another place."""
    if layout == "tokens first":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "transposed":
        return x.mT.contiguous().mT
    if layout == "sliced":
        wider = torch.full((*x.shape[:-1], x.size(-1) + 3), torch.nan, dtype=x.dtype)
        wider[..., 1:-2] = x
        return wider[..., 1:-2]
    return x


def hidden_by(p: Problem, hide, lengths):
    """(B, H, T_q, T_k): what any rule hides."""
    rows, columns = torch.arange(p.queries)[:, None], torch.arange(p.keys)
    hidden = torch.zeros(p.batch, p.kv_heads * p.group, p.queries, p.keys, dtype=torch.bool)
    query_lengths, key_lengths = lengths or [torch.full((p.batch,), n) for n in (p.queries, p.keys)]
    for b in range(p.batch):
        shift = key_lengths[b] - query_lengths[b] if p.align == "end" else 0
        distance = columns - rows - shift
        hidden[b] |= (rows >= query_lengths[b]) | (columns >= key_lengths[b])
        if p.causal:
            hidden[b] |= distance > 0
        for side, sign in zip(p.window or (None, None), (-1, 1), strict=True):
            if side is not None:
                hidden[b] |= sign * distance > side
    return hidden if hide is None else hidden | hide


@pytest.mark.parametrize("part", range(4))  # so that workers can share them
def test_drawn_problems(part):
    @settings(max_examples=75, deadline=None, derandomize=True, database=None)
    @given(PROBLEMS.filter(lambda p: p.seed % 4 == part))
    def judge(p: Problem):
        check(p)

    judge()


def check(p: Problem) -> None:
    torch.manual_seed(p.seed)
    heads = p.kv_heads * p.group

    def drawn(h, t, width):
        x = torch.randn(p.batch, h, t, width, dtype=torch.float64).to(p.dtype)
        return laid_out(x, p.layout).requires_grad_()

    inputs = [
        drawn(heads, p.queries, p.width),
        drawn(p.kv_heads, p.keys, p.width),
        drawn(p.kv_heads, p.keys, p.value_width),
    ]
    hide = None if p.mask_axes is None else torch.rand(p.shape(p.mask_axes)) < 0.3
    bias = None
    if p.bias_axes is not None:
        kind = torch.float64 if p.dtype == torch.float64 else torch.float32
        bias = torch.randn(p.shape(p.bias_axes), dtype=kind, requires_grad=True)
    lengths = None
    if p.has_lengths:
        lengths = [torch.randint(0, n + 1, (p.batch,)) for n in (p.queries, p.keys)]
    got = headwise.attention(
        *inputs,
        hide=hide,
        bias=bias,
        query_lengths=lengths and lengths[0],
        key_lengths=lengths and lengths[1],
        causal=p.causal,
        align=p.align,
        window=p.window,
    )
    want, _ = plain(*inputs, hidden_by(p, hide, lengths), bias)
    gradient = torch.randn_like(want)
    learning = [*inputs, *([] if bias is None else [bias])]
    got_gradients = torch.autograd.grad(got, learning, gradient.to(p.dtype))
    want_gradients = torch.autograd.grad(want, learning, gradient.to(p.dtype).double())
    for name, ours, plainly in zip(
        ("output", "query", "key", "value", "bias"),
        (got, *got_gradients),
        (want, *want_gradients),
        strict=False,
    ):
        assert ours.shape == plainly.shape
        error = (ours.double() - plainly.double()).abs().max()
        # A bias that broadcasts gathers the rounding of all it is added to.
        summed = want.size(1) * p.batch * p.queries * p.keys / ours.numel() if name == "bias" else 1
        allowed = TOLERANCE[p.dtype] * summed**0.5 * (1 + plainly.abs().max())
        assert error <= allowed, f"{name}: {error} > {allowed}"

"""The op that turns heads by their positions, against its formula in torch."""

import math

import headwise  # noqa: F401  (registers the op)
import pytest
import torch
from torch import Tensor

rotary = torch.ops.headwise.rotary


def table(positions: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    frequency = torch.exp(-torch.arange(0, width, 2).double() * math.log(10000.0) / width)
    angle = torch.arange(positions).double()[:, None] * frequency
    return angle.cos().to(dtype), angle.sin().to(dtype)


def plain(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """As complex numbers: channel i real, channel i + D / 2 imaginary."""
    rows = heads.size(0)
    turn = torch.complex(cosine, sine).repeat(rows // cosine.size(0), 1)[:, None]
    turned = torch.complex(*heads.chunk(2, -1)) * turn
    return torch.cat([turned.real, turned.imag], -1)


@pytest.mark.parametrize(
    ("rows", "heads", "width", "positions"),
    [(5, 1, 2, 5), (66, 4, 32, 66), (66, 3, 26, 33), (0, 2, 8, 0), (0, 2, 8, 4)],
)
def test_equals_torch(rows: int, heads: int, width: int, positions: int) -> None:
    x = torch.randn(rows, heads, width, dtype=torch.float64, requires_grad=True)
    cosine, sine = table(positions, width, torch.float64)
    got = rotary(x, cosine, sine)
    if rows == 0:
        assert got.shape == x.shape
        return
    want = plain(x, cosine, sine)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(rotary(got, cosine, sine, inverse=True), x)
    (a,) = torch.autograd.grad(got.pow(3).sum(), x)
    (b,) = torch.autograd.grad(want.pow(3).sum(), x)
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_precision(dtype: torch.dtype) -> None:
    """Turned in float32 and rounded once."""
    x = torch.randn(40, 2, 16, dtype=dtype)
    cosine, sine = table(40, 16, torch.float32)
    got = rotary(x, cosine, sine)
    want = plain(x.double(), cosine.double(), sine.double())
    assert got.dtype == dtype
    assert ((got.double() - want).abs() <= torch.finfo(dtype).eps * x.abs().max()).all()


def test_views_compile_and_all_derivatives() -> None:
    cosine, sine = table(3, 4, torch.float64)
    x = torch.randn(4, 2, 6, dtype=torch.float64).transpose(0, 2).requires_grad_()  # (6, 2, 4)
    torch.library.opcheck(rotary.default, (x, cosine, sine))
    torch.library.opcheck(rotary.default, (x, cosine, sine), {"inverse": True})

    def cubed(heads: Tensor) -> Tensor:
        return rotary(heads, cosine, sine).pow(3)

    assert torch.autograd.gradcheck(cubed, x)
    assert torch.autograd.gradgradcheck(cubed, x)
    compiled = torch.compile(cubed, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), cubed(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("heads", "cosine", "sine", "message"),
    [
        ((6, 8), (6, 4), (6, 4), r"heads \(N, H, D\) are needed"),
        ((6, 2, 7), (6, 3), (6, 3), "D of heads is 7; an even number"),
        ((6, 2, 0), (6, 0), (6, 0), "D of heads is 0; an even number"),
        ((6, 2, 8), (6, 8), (6, 4), r"cosine has sizes \[6, 8\]; \(P, D / 2\)"),
        ((6, 2, 8), (6, 4), (6,), r"sine has sizes \[6\]; \(P, D / 2\)"),
        ((6, 2, 8), (6, 4), (3, 4), "cosine and sine have 6 and 3 rows"),
        ((6, 2, 8), (4, 4), (4, 4), "6 rows; a multiple of the 4"),
        ((6, 2, 8), (0, 4), (0, 4), "6 rows; a multiple of the 0"),
    ],
)
def test_sizes_are_checked(
    heads: tuple[int, ...], cosine: tuple[int, ...], sine: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        rotary(torch.zeros(heads), torch.zeros(cosine), torch.zeros(sine))


def test_types_are_checked() -> None:
    x, half = torch.zeros(6, 2, 8), torch.zeros(6, 4)
    with pytest.raises(TypeError, match=r"cosine is Double and heads Float; Float is needed"):
        rotary(x, half.double(), half)
    with pytest.raises(TypeError, match="sine is BFloat16 and heads BFloat16; Float is needed"):
        rotary(x.bfloat16(), half, half.bfloat16())
    with pytest.raises(TypeError, match="heads is Int"):
        rotary(x.int(), half, half)
    with pytest.raises(ValueError, match="cosine requires a gradient and has none"):
        rotary(x, half.clone().requires_grad_(), half)

"""headwise.linear_cross_entropy against torch's cross_entropy on whole scores."""

import copy
import itertools

import headwise
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bench import loss as bench_loss
from bench.memory import peak_of


def inputs(
    rows: int, width: int, classes: int, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """hidden, weight, bias (leaves) and labels."""
    generator = torch.Generator().manual_seed(rows * 1000 + classes)
    hidden = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    weight = torch.randn(classes, width, generator=generator, dtype=torch.float64)
    bias = torch.randn(classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (rows,), generator=generator)
    leaves = (x.to(dtype).requires_grad_() for x in (hidden, weight, bias))
    return (*leaves, labels)


def gradients(loss: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(loss, leaves))


@pytest.mark.parametrize(
    ("width", "smoothing", "with_bias", "reduction"),
    list(itertools.product([16, 7], [0.0, 0.1], [False, True], ["mean", "sum"])),
)
def test_equals_torch(width: int, smoothing: float, with_bias: bool, reduction: str) -> None:
    hidden, weight, bias, labels = inputs(50, width, 130)
    labels[3] = labels[20] = -100
    leaves = [hidden, weight, bias] if with_bias else [hidden, weight]
    used = bias if with_bias else None
    ours = headwise.linear_cross_entropy(
        hidden, weight, labels, bias=used, label_smoothing=smoothing, reduction=reduction
    )
    theirs = F.cross_entropy(
        F.linear(hidden, weight, used), labels, label_smoothing=smoothing, reduction=reduction
    )
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(gradients(ours, leaves), gradients(theirs, leaves), strict=True):
        torch.testing.assert_close(a, b)


def test_row_weights_and_leading_sizes() -> None:
    hidden, weight, _, labels = inputs(24, 8, 20)
    factors = torch.rand(24, dtype=torch.float64)
    each = F.cross_entropy(F.linear(hidden, weight), labels, reduction="none")
    ours = headwise.linear_cross_entropy(
        hidden.view(2, 12, 8), weight, labels.view(2, 12), row_weight=factors.view(2, 12)
    )
    theirs = (each * factors).sum() / factors.sum()
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradients(ours, [hidden]), gradients(theirs, [hidden]))


def divergences(scores: Tensor) -> Tensor:
    """(N / 2): KL(p, q) + KL(q, p) of rows 2n and 2n + 1."""
    p, q = scores.log_softmax(-1).view(-1, 2, scores.shape[-1]).unbind(1)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1)


@pytest.mark.parametrize(
    ("width", "classes", "weighted"), [(16, 130, False), (7, 1100, True), (16, 513, True)]
)
def test_consistency_equals_torch(width: int, classes: int, weighted: bool) -> None:
    hidden, weight, bias, labels = inputs(74, width, classes)
    labels[3] = labels[20] = labels[21] = -100
    factors = torch.rand(74, dtype=torch.float64) if weighted else torch.ones(74).double()
    counted = factors * (labels != -100)
    ours = headwise.linear_cross_entropy(
        hidden.view(37, 2, width),
        weight,
        labels.view(37, 2),
        bias=bias,
        label_smoothing=0.1,
        row_weight=factors.view(37, 2),
        reduction="sum",
        consistency=3.0,
    )
    scores = F.linear(hidden, weight, bias)
    each = F.cross_entropy(scores, labels, label_smoothing=0.1, reduction="none")
    pair = counted.view(37, 2)
    pair_weight = torch.where(pair.prod(1) > 0, pair.mean(1), 0.0)
    theirs = (each * factors).sum() + 1.5 * (pair_weight * divergences(scores)).sum()
    torch.testing.assert_close(ours, theirs)
    leaves = [hidden, weight, bias]
    for a, b in zip(gradients(ours, leaves), gradients(theirs, leaves), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("bfloat16_products", [False, True])
def test_consistency_in_single_precision(bfloat16_products: bool) -> None:
    hidden, weight, _, labels = inputs(200, 32, 700, torch.bfloat16)  # rounded already
    hidden, weight = ((x.detach().float() / 2).requires_grad_() for x in (hidden, weight))
    exact_leaves = [x.detach().double().requires_grad_() for x in (hidden, weight)]
    ours = headwise.linear_cross_entropy(
        hidden,
        weight,
        labels,
        label_smoothing=0.1,
        bfloat16_products=bfloat16_products,
        consistency=2.0,
    )
    scores = F.linear(*exact_leaves)
    exact = F.cross_entropy(scores, labels, label_smoothing=0.1) + divergences(scores).sum() / 200
    assert abs(ours.item() - exact.item()) < 1e-6 * exact.item()
    bound = 2**-8 if bfloat16_products else 2e-6
    for a, b in zip(gradients(ours, [hidden, weight]), gradients(exact, exact_leaves), strict=True):
        assert (a.double() - b).abs().max() <= bound * b.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_precision(dtype: torch.dtype) -> None:
    """As exact as one rounding of the results: sums are float32 whatever the inputs are."""
    hidden, weight, _, labels = inputs(300, 32, 500, dtype)
    exact_leaves = [x.detach().double().requires_grad_() for x in (hidden, weight)]
    ours = headwise.linear_cross_entropy(hidden, weight, labels, label_smoothing=0.1)
    exact = F.cross_entropy(F.linear(*exact_leaves), labels, label_smoothing=0.1)
    assert ours.dtype == torch.float32
    assert abs(ours.item() - exact.item()) < 1e-5
    bound = max(torch.finfo(dtype).eps, 1e-6)
    for a, b in zip(gradients(ours, [hidden, weight]), gradients(exact, exact_leaves), strict=True):
        assert a.dtype == dtype
        assert (a.double() - b).abs().max() <= bound * b.abs().max()


def test_hidden_and_weight_of_different_types() -> None:
    hidden, weight, _, labels = inputs(20, 16, 30, torch.float32)
    narrow = hidden.detach().bfloat16().requires_grad_()
    loss = headwise.linear_cross_entropy(narrow, weight, labels)
    a, b = gradients(loss, [narrow, weight])
    assert (a.dtype, b.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("consistency", [0.0, 1.5])
def test_gradcheck_and_opcheck(consistency: float) -> None:
    hidden, weight, bias, labels = inputs(6, 4, 7)
    labels[1] = -100

    def value(h: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return headwise.linear_cross_entropy(
            h, w, labels, bias=b, label_smoothing=0.2, consistency=consistency
        )

    assert torch.autograd.gradcheck(value, (hidden, weight, bias))
    op = torch.ops.headwise.linear_cross_entropy.default
    torch.library.opcheck(op, (hidden, weight, labels), {"bias": bias, "consistency": consistency})
    forward = torch.ops.headwise.linear_cross_entropy_forward.default
    torch.library.opcheck(forward, (hidden, weight, labels), {"differentiate": True})


def test_compiles_as_one_graph() -> None:
    hidden, weight, bias, labels = inputs(40, 16, 90, torch.float32)

    def step(h: Tensor) -> Tensor:
        return headwise.linear_cross_entropy(
            torch.tanh(h), weight, labels, bias=bias, reduction="sum"
        )

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    expected = step(hidden)
    torch.testing.assert_close(compiled(hidden), expected)
    leaves = [hidden, weight, bias]
    torch.testing.assert_close(
        gradients(compiled(hidden), leaves), gradients(expected, leaves), rtol=0, atol=0
    )


@pytest.mark.parametrize("consistency", [0.0, 1.5])
def test_threads_change_no_bit(consistency: float) -> None:
    hidden, weight, _, labels = inputs(900, 48, 1300, torch.float32)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            loss = headwise.linear_cross_entropy(
                hidden, weight, labels, label_smoothing=0.1, consistency=consistency
            )
            results.append([loss.detach(), *gradients(loss, [hidden, weight])])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_backward_may_run_twice_but_not_be_differentiated() -> None:
    hidden, weight, _, labels = inputs(6, 4, 5)
    loss = headwise.linear_cross_entropy(hidden, weight, labels)
    first = torch.autograd.grad(loss, hidden, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(loss, hidden, retain_graph=True)[0])
    (again,) = torch.autograd.grad(loss * loss, hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        again.sum().backward()


def test_no_rows_and_no_counted_rows() -> None:
    hidden, weight, _, labels = inputs(4, 4, 5)
    empty = headwise.linear_cross_entropy(hidden[:0], weight, labels[:0], reduction="sum")
    assert empty.item() == 0
    assert torch.equal(torch.autograd.grad(empty, weight)[0], torch.zeros_like(weight))
    none = torch.full_like(labels, -100)
    assert headwise.linear_cross_entropy(hidden, weight, none, reduction="sum").item() == 0
    assert headwise.linear_cross_entropy(hidden, weight, none).isnan()


def test_scores_are_never_all_in_memory() -> None:
    """16 MiB of scores at a time beside 114 MiB of all of them, forward and backward."""
    case = bench_loss.LossCase("memory", 3000, 16, 10000, 0.1)
    ours, eager = (
        peak_of(bench_loss.gradients_of(side(case), case), threads=1).c10
        for side in (bench_loss.ours, bench_loss.eager)
    )
    assert ours < 24 << 20
    assert eager > 114 << 20  # the measure sees scores where they exist


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"label": 9}, IndexError, "label of row 2 is 9; 0 to 4 are classes"),
        ({"label": -1}, IndexError, "label of row 2 is -1"),
        ({"width": 3}, ValueError, r"hidden \(N, E\) and weight \(V, E\)"),
        ({"weight_dtype": torch.float32}, TypeError, "float64 goes with float64 alone"),
        ({"label_smoothing": 1.5}, ValueError, "label_smoothing is 1.5"),
        ({"reduction": "none"}, ValueError, 'reduction is \'none\'; "mean" or "sum"'),
        ({"labels_dtype": torch.float32}, TypeError, "int64 or int32"),
        ({"rows": 5}, ValueError, "labels need all sizes of hidden but the last"),
        ({"row_weight": torch.ones(2)}, ValueError, "row_weight has sizes"),
        ({"bias": torch.ones(2, dtype=torch.float64)}, ValueError, "bias has sizes"),
        ({"consistency": -1.0}, ValueError, "consistency is -1; a finite number of at least 0"),
        ({"consistency": 1.0, "odd": True}, ValueError, "hidden has 3 rows; an even number"),
    ],
)
def test_bad_calls(change: dict[str, object], error: type[Exception], message: str) -> None:
    hidden, weight, _, labels = inputs(4, 4, 5)
    change = copy.copy(change)
    if "label" in change:
        labels[2] = change.pop("label")
    if "width" in change:
        weight = weight[:, : change.pop("width")]
    if "rows" in change:
        labels = torch.zeros(change.pop("rows"), dtype=torch.int64)
    if change.pop("odd", False):
        hidden, labels = hidden[:3], labels[:3]
    weight = weight.to(change.pop("weight_dtype", weight.dtype))
    labels = labels.to(change.pop("labels_dtype", labels.dtype))
    with pytest.raises(error, match=message):
        headwise.linear_cross_entropy(hidden, weight, labels, **change)

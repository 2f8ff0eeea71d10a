"""check_masks finds masks that leak, are inverted, inexact or NaN, and praises those that hold."""

import math

import headwise
import pytest
import torch
from headwise.mask_adapters import Masks

HIDDEN = "changing a hidden key changes no bit of the output"
VISIBLE = "changing a visible key changes the output"
FINITE = "the output is finite"
ZERO = "hidden weights are exactly 0"
SUM = "rows of weights sum to 1, or to 0 where nothing is seen"
RULES = {"the same input gives the same bits", HIDDEN, VISIBLE, FINITE, ZERO, SUM}
CASES = ["causal", "padding", "causal and padding", "rows that see nothing"]
WIDTH = 8


class Plain(torch.nn.Module):
    """Attention of two heads; how it hides is given as (scores, hide) -> weights."""

    def __init__(self, hiding):
        super().__init__()
        self.hiding = hiding
        self.q, self.k, self.v = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, query, key, value, hide):
        heads = [
            layer(x).unflatten(-1, (2, -1)).transpose(1, 2)
            for layer, x in zip((self.q, self.k, self.v), (query, key, value), strict=True)
        ]
        weights = self.hiding(heads[0] @ heads[1].mT, hide)
        return (weights @ heads[2]).transpose(1, 2).flatten(2), weights


def exact(scores, hide):
    return scores.masked_fill(hide, -math.inf).softmax(-1).nan_to_num(0.0)


def check(hiding, returns_weights=True, width=WIDTH):
    def call(module, query, key, value, masks):
        result = module(query, key, value, masks.hide)
        return result if returns_weights else result[0]

    return headwise.check_masks(Plain(hiding), call, width=width)


def failed(report, case=None):
    """Rules that failed; `case` is the beginning of the mask's name."""
    return {c.rule for c in report.failures if case is None or c.mask == case}


@pytest.mark.parametrize(
    "options",
    [{}, {"num_kv_heads": 2}, {"kdim": 6, "vdim": 10}, {"rotary": True}, {"dropout": 0.5}],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_our_module_holds(options, dtype):
    module = headwise.nn.MultiHeadAttention(16, 4, dtype=dtype, **options)
    report = headwise.check_masks(module)
    assert report.ok, report
    assert report.inverted == ()
    assert {c.rule for c in report.checks} == RULES
    assert len({c.mask for c in report.checks}) == 2 * len(CASES)
    assert all(c.ok is True for c in report.checks)
    assert str(report).startswith("headwise.nn.MultiHeadAttention: masks hold")


@pytest.mark.parametrize("options", [{}, {"kdim": 6, "vdim": 10}, {"batch_first": False}])
def test_torchs_module_fails_only_where_a_row_sees_nothing(options):
    module = torch.nn.MultiheadAttention(16, 4, **{"batch_first": True, **options})
    report = headwise.check_masks(module)
    assert {c.mask for c in report.failures} == {
        "rows that see nothing as attn_mask and key_padding_mask"
    }
    assert failed(report) <= {FINITE, ZERO, SUM}
    assert SUM in failed(report)  # the weights are NaN
    assert report.inverted == ()


def test_a_plain_module_that_hides_exactly_holds():
    report = check(exact)
    assert report.ok, report
    assert [c.mask for c in report.checks if c.rule == HIDDEN] == CASES
    without = check(exact, returns_weights=False)
    assert without.ok
    assert {c.rule for c in without.checks if c.ok is None} == {ZERO, SUM}


def test_an_inverted_mask_is_named():
    report = check(lambda scores, hide: exact(scores, ~hide))
    assert not report.ok
    assert list(report.inverted) == CASES
    assert {HIDDEN, VISIBLE, ZERO} <= failed(report, "causal")
    assert "INVERTED (causal, padding" in str(report)
    # Without weights and with NaN in rows that see nothing it is found all the same.
    bare = check(
        lambda scores, hide: scores.masked_fill(~hide, -math.inf).softmax(-1),
        returns_weights=False,
    )
    assert list(bare.inverted) == CASES


def test_only_the_inverted_one_of_two_masks_is_named():
    ours = headwise.nn.MultiHeadAttention(WIDTH, 2)

    def call(module, query, key, value, masks):
        padded = torch.zeros(3, 1, 1, 6, dtype=torch.bool)
        if masks.lengths is not None:
            padded = (torch.arange(6) >= masks.lengths[:, None])[:, None, None]
        keep = ~padded if masks.lengths is not None else padded
        return module(query, hide=keep, causal=masks.causal)

    report = headwise.check_masks(ours, call, width=WIDTH)
    assert "padding" in report.inverted
    assert "causal" not in report.inverted
    assert not failed(report, "causal")


@pytest.mark.parametrize("finite", [-1e9, -1e4, -60.0])
def test_an_additive_mask_is_not_exact(finite):
    report = check(lambda scores, hide: (scores + finite * hide).softmax(-1))
    assert not report.ok
    assert report.inverted == ()
    assert HIDDEN in failed(report, "causal")
    assert SUM in failed(report, "rows that see nothing")  # it attends to what does not exist
    assert VISIBLE not in failed(report)
    if finite < -100:  # exp gives 0, until the key is large enough to outweigh it
        assert ZERO not in failed(report, "causal")
        assert "outweighed" in next(c.detail for c in report.failures if c.rule == HIDDEN)
    else:
        assert ZERO in failed(report, "causal")


def test_a_leak_from_the_future_is_named():
    future = torch.ones(6, 6, dtype=torch.bool)
    one_late = future.triu(2)  # the next token is seen

    def hiding(scores, hide):
        causal = torch.equal(hide[0, 0], future.triu(1))  # the first sequence has no padding
        padded = hide & ~future.triu(1) if causal else hide
        return exact(scores, padded | one_late if causal else padded)

    report = check(hiding)
    causal = [c for c in report.failures if c.mask == "causal"]
    assert {c.rule for c in causal} == {HIDDEN, ZERO}
    assert "a leak from the future: row 0 of sequence 0 moves with key 1" in causal[0].detail
    assert "15 of 45" in causal[0].detail
    assert not failed(report, "padding")
    assert report.inverted == ()


def test_padding_that_is_seen_is_named():
    report = check(lambda scores, hide: exact(scores, hide[:1]))  # the first sequence's lengths
    details = {c.mask: c.detail for c in report.failures if c.rule == HIDDEN}
    assert details.keys() == {"padding", "causal and padding", "rows that see nothing"}
    assert details["padding"].startswith("padding is seen: row 0 of sequence 1 moves with key 3")


def test_nan_in_rows_that_see_nothing_is_named():
    report = check(lambda scores, hide: scores.masked_fill(hide, -math.inf).softmax(-1))
    assert {c.mask for c in report.failures} == {"rows that see nothing"}
    assert failed(report) == {FINITE, ZERO, SUM}
    details = {c.rule: c.detail for c in report.failures}
    assert details[FINITE].startswith("nan in row 0 of sequence 1, which sees no key; 6")


def test_weights_that_do_not_sum_to_one():
    report = check(lambda scores, hide: exact(scores, hide) * 1.01)
    assert failed(report) == {SUM}
    assert "the sum is 1.01" in report.failures[0].detail


def test_a_module_that_ignores_what_it_may_see():
    report = check(lambda scores, hide: torch.eye(6).expand_as(scores) * ~hide)
    assert VISIBLE in failed(report, "causal")
    assert HIDDEN not in failed(report)
    assert report.inverted == ()


def test_a_module_that_sees_little_and_leaks_little_is_not_inverted():
    next_one = torch.eye(6).roll(1, 1)
    report = check(lambda scores, hide: next_one.expand_as(scores))
    assert {HIDDEN, VISIBLE} <= failed(report, "causal")
    assert report.inverted == ()


def test_a_module_that_is_random_in_evaluation():
    report = check(lambda scores, hide: exact(scores, hide) * torch.rand(()))
    assert "the same input gives the same bits" in failed(report, "causal")


def test_modes_are_left_as_they_were_and_evaluation_is_used():
    module = headwise.nn.MultiHeadAttention(16, 4, dropout=0.9)
    module.k_proj.eval()
    state = torch.get_rng_state()
    assert headwise.check_masks(module).ok
    assert module.training
    assert module.v_proj.training
    assert not module.k_proj.training
    assert torch.equal(state, torch.get_rng_state())


def test_both_ways_to_say_a_mask_agree():
    seen = []

    def call(module, query, key, value, masks):
        assert isinstance(masks, Masks)
        seen.append(masks)
        return query

    headwise.check_masks(lambda: None, call, width=4)
    for masks in seen:
        hide = torch.zeros(3, 1, 6, 6, dtype=torch.bool)
        for b in range(3):
            for i in range(6):
                for j in range(6):
                    past_end = masks.lengths is not None and j >= masks.lengths[b]
                    hide[b, 0, i, j] = past_end or (masks.causal and j > i)
        assert torch.equal(masks.hide, hide)


def test_bad_calls_are_refused():
    with pytest.raises(TypeError, match=r"torch\.nn\.modules\.linear\.Linear .* call"):
        headwise.check_masks(torch.nn.Linear(3, 3))
    with pytest.raises(TypeError, match="width"):
        headwise.check_masks(torch.nn.Linear(3, 3), lambda *_: None)
    with pytest.raises(ValueError, match=r"output must be \(3, 6, any\); got \(6, 3, 8\)"):
        headwise.check_masks(
            torch.nn.Identity(), lambda module, query, *_: query.transpose(0, 1), width=8
        )
    with pytest.raises(ValueError, match=r"weights must be \(3, H, 6, 6\); got \(3, 6, 8\)"):
        headwise.check_masks(torch.nn.Identity(), lambda m, query, *_: (query, query), width=8)

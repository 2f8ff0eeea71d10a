"""Values of the op as Python sees them, against torch and a plain float64 formula."""

import itertools
import math

import headwise
import pytest
import torch
import torch.nn.functional as F
from attention_reference import causal_mask, close, inputs, plain


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_equals_sdpa_and_the_plain_formula(kv_heads):
    q, k, v = inputs(kv_heads=kv_heads)
    got = headwise.attention(q, k, v)
    close(got, plain(q, k, v)[0])
    close(got, F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    single = [x.float() for x in (q, k, v)]
    close(headwise.attention(*single), plain(q, k, v)[0].float(), 1e-5)


@pytest.mark.parametrize(("queries", "keys"), [(1, 8), (3, 8), (5, 2), (5, 5)])
@pytest.mark.parametrize("align", ["end", "start"])
def test_causal_alignment(queries, keys, align):
    q, k, v = inputs(queries=queries, keys=keys)
    got = headwise.attention(q, k, v, causal=True, align=align)
    close(got, plain(q, k, v, causal_mask(queries, keys, align))[0])


@pytest.mark.parametrize(
    "shape", [(5, 7), (1, 1, 5, 7), (2, 1, 1, 7), (2, 1, 5, 7), (1, 4, 5, 7), (2, 4, 5, 7)]
)
def test_masks_broadcast(shape):
    q, k, v = inputs()
    hide = torch.rand(shape) < 0.4
    want = plain(q, k, v, hide)[0]
    close(headwise.attention(q, k, v, hide=hide), want)
    close(headwise.attention(q, k, v, keep=~hide), want)
    close(headwise.attention(q, k, v, hide=hide.expand(2, 4, 5, 7)), want)
    minus_infinity = torch.zeros(shape, dtype=q.dtype).masked_fill(hide, -math.inf)
    close(headwise.attention(q, k, v, bias=minus_infinity), want)


@pytest.mark.parametrize("shape", [(2, 7), (7, 5), (2, 4, 5, 1, 1), (2, 5, 7), (3, 1, 5, 7)])
def test_masks_of_wrong_shape_are_refused(shape):
    with pytest.raises((RuntimeError, ValueError), match="hide"):
        headwise.attention(*inputs(), hide=torch.zeros(shape, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.uint8])
def test_only_bool_hides(dtype):
    with pytest.raises((RuntimeError, ValueError), match="hide"):
        headwise.attention(*inputs(), hide=torch.zeros(5, 7, dtype=dtype))


def test_all_rules_at_once():
    q, k, v = inputs(queries=7)
    lengths = torch.tensor([7, 4])
    hide, bias = torch.rand(2, 1, 7, 7) < 0.2, torch.randn(1, 4, 7, 7, dtype=torch.float64)
    past = torch.arange(7) >= lengths[:, None]
    distance = torch.arange(7) - torch.arange(7)[:, None]
    hidden = hide | past[:, None, None, :] | past[:, None, :, None] | (distance > 0)
    hidden = hidden | (distance < -3)
    got = headwise.attention(
        q,
        k,
        v,
        hide=hide,
        bias=bias,
        query_lengths=lengths,
        key_lengths=lengths,
        causal=True,
        window=(3, None),
        scale=0.3,
    )
    close(got, plain(q, k, v, hidden, bias, 0.3)[0])


def test_rows_without_keys_are_zero_and_do_no_harm():
    q, k, v = (x.requires_grad_() for x in inputs())
    hide = torch.zeros(5, 7, dtype=torch.bool)
    hide[2] = True
    output, lse = headwise.attention(q, k, v, hide=hide, return_lse=True)
    assert (output[:, :, 2] == 0).all()
    assert (lse[:, :, 2] == -math.inf).all()
    output.sum().backward()
    assert (q.grad[:, :, 2] == 0).all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))


def test_lse_and_weights():
    q, k, v = inputs(queries=7)
    rules = {"causal": True, "key_lengths": torch.tensor([7, 3])}
    rules["query_lengths"] = rules["key_lengths"]
    output, lse = headwise.attention(q, k, v, return_lse=True, **rules)
    weights = headwise.attention_weights(q, k, lse, **rules)
    past = torch.arange(7) >= rules["key_lengths"][:, None]
    hidden = causal_mask(7, 7) | past[:, None, None, :] | past[:, None, :, None]
    close(weights, plain(q, k, v, hidden)[1])
    assert (weights.masked_select(hidden.expand_as(weights)) == 0).all()
    close(weights @ v.repeat_interleave(2, 1), output)


def test_heads_merge_without_a_copy():
    output = headwise.attention(*inputs())
    merged = output.transpose(1, 2).flatten(2)
    assert merged.data_ptr() == output.data_ptr()
    assert merged.is_contiguous()


def test_packed_equals_padded():
    query_lengths, key_lengths = [3, 0, 5], [4, 2, 6]
    q, k, v = inputs(batch=3, queries=5, keys=6)
    padded, lse = headwise.attention(
        q,
        k,
        v,
        query_lengths=torch.tensor(query_lengths),
        key_lengths=torch.tensor(key_lengths),
        causal=True,
        dropout=0.3,
        seed=5,
        return_lse=True,
    )

    def pack(x, lengths):
        return torch.cat([row[:, :n].transpose(0, 1) for row, n in zip(x, lengths, strict=True)])

    def starts(lengths):
        return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)

    where = (starts(query_lengths), starts(key_lengths), 5, 6)
    packed_q, packed_k = pack(q, query_lengths), pack(k, key_lengths)
    packed, packed_lse = headwise.attention_packed(
        packed_q,
        packed_k,
        pack(v, key_lengths),
        *where,
        causal=True,
        dropout=0.3,
        seed=5,
        return_lse=True,
    )
    close(packed, pack(padded, query_lengths))
    close(packed_lse, pack(lse[..., None], query_lengths)[..., 0])
    weights = headwise.attention_weights_packed(packed_q, packed_k, packed_lse, *where, causal=True)
    close(weights[2, :, :5, :6], plain(q, k, v, causal_mask(5, 6))[1][2])


def test_decode_with_cache_equals_attention_at_once():
    q, k, v = inputs(queries=9, keys=9)
    want = headwise.attention(q, k, v, causal=True)
    key_cache, value_cache = torch.zeros(2, 2, 12, 8).double(), torch.zeros(2, 2, 12, 8).double()
    begin = 0
    for end in (3, 4, 9):
        headwise.cache_append(
            key_cache, value_cache, k[:, :, begin:end], v[:, :, begin:end], torch.full((2,), begin)
        )
        lengths = torch.full((2,), end)
        got = headwise.attention_decode(q[:, :, begin:end], key_cache, value_cache, lengths)
        close(got, want[:, :, begin:end])
        begin = end
    before = key_cache.clone()
    with pytest.raises((RuntimeError, ValueError), match="lengths"):
        headwise.cache_append(
            key_cache, value_cache, k[:, :, :4], v[:, :, :4], torch.tensor([9, 9])
        )
    assert torch.equal(key_cache, before)


def test_dropout_repeats_with_its_seed_and_differs_without():
    q, k, v = inputs()

    def run(**arguments):
        return headwise.attention(q, k, v, dropout=0.5, **arguments)

    assert torch.equal(run(seed=7), run(seed=torch.tensor(7)))
    assert torch.equal(run(seed=-1), run(seed=2**64 - 1))
    assert not torch.equal(run(seed=7), run(seed=8))
    assert not torch.equal(run(seed=7), run(seed=7, offset=1))
    torch.manual_seed(1)
    first, second = run(), run()
    torch.manual_seed(1)
    assert torch.equal(first, run())
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 2.0])
def test_dropout_outside_its_range_is_refused(dropout):
    with pytest.raises((RuntimeError, ValueError), match="dropout"):
        headwise.attention(*inputs(), dropout=dropout)

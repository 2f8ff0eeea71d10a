"""attention_statistics against plain torch in float64, its properties and its place in torch."""

import itertools
import math
import random

import headwise
import pytest
import torch
from attention_reference import causal_mask, inputs, plain

OFFSETS = range(-8, 9)


def columns(statistics):
    return dict(zip(headwise.STATISTICS, statistics.unbind(-1), strict=True))


def describe(weights, hidden, norm, center):
    """Columns of one sequence and head from (T_q, T_k) float64 weights."""
    if norm is not None:
        weights = weights * norm.where(~hidden, 0.0)
        weights = weights / weights.sum(-1, keepdim=True).where(weights.any(-1, keepdim=True), 1.0)
    queries, keys = weights.shape
    sees = weights.any(-1)
    n = (~hidden).sum(-1).double()
    entropy = -torch.xlogy(weights, weights).sum(-1)[sees]
    position = torch.arange(keys) - torch.arange(queries)[:, None] - center
    top = weights.argmax(-1)
    received = weights.sum(0).masked_fill(hidden.all(0), -1.0)
    best = received.argmax() if sees.any() else None
    relative = top.double() / keys - torch.arange(queries).double() / queries
    result = {
        "entropy": entropy.sum(),
        "normalised_entropy": (entropy / n[sees].log())[n[sees] > 1].sum(),
        "effective_keys": entropy.exp().sum(),
        "largest": weights.amax(-1).sum(),
        "distance": (weights * position.abs()).sum(),
        "misalignment": relative.abs()[sees].sum(),
        "first": weights[:, 0].sum(),
        "last": weights[:, -1].sum(),
        "coverage": received.clamp(0, 1).sum(),
        "top_column": 0 if best is None else received[best],
        "top_column_index": -1 if best is None else best,
    }
    for offset in OFFSETS:
        result[f"mass[{offset}]"] = weights[position == offset].sum()
        chosen = position.gather(1, top[:, None])[:, 0] == offset
        result[f"top_key[{offset}]"] = (chosen & sees).sum()
    return {("" if norm is None else "norm_") + name: float(x) for name, x in result.items()}


def describe_rows(hidden, center):
    n = (~hidden).sum(-1).double()
    position = torch.arange(hidden.size(1)) - torch.arange(hidden.size(0))[:, None] - center
    result = {
        "rows": n.count_nonzero(),
        "rows_with_choice": (n > 1).sum(),
        "keys": (~hidden).any(0).sum(),
        "chance": (1 / n[n > 0]).sum(),
    }
    for offset in OFFSETS:
        result[f"rows_at[{offset}]"] = ((position == offset) & ~hidden).sum()
    return {name: float(x) for name, x in result.items()}


def expected(q, k, v, hidden, lengths, bias=None, scale=None, align="end"):
    """(B, H, columns) in float64; lengths: (queries, keys) of each sequence."""
    weights = plain(q, k, v if v.size(1) == k.size(1) else k, hidden, bias, scale)[1]
    hidden = hidden.expand_as(weights)
    norms = v.double().norm(dim=-1).repeat_interleave(q.size(1) // v.size(1), 1)
    result = torch.zeros(q.size(0), q.size(1), len(headwise.STATISTICS), dtype=torch.float64)
    for b, h in itertools.product(range(q.size(0)), range(q.size(1))):
        queries, keys = lengths[b]
        center = keys - queries if align == "end" else 0
        here = (b, h, slice(queries), slice(keys))
        row = describe_rows(hidden[here], center)
        if queries and keys:
            row |= describe(weights[here], hidden[here], None, center)
            row |= describe(weights[here], hidden[here], norms[b, h, :keys], center)
        else:
            row["top_column_index"] = row["norm_top_column_index"] = -1.0
        numbers = [row.get(name, 0.0) for name in headwise.STATISTICS]
        result[b, h] = torch.tensor(numbers, dtype=torch.float64)
    return result


def close(got, want, tolerance):
    for name, a, b in zip(headwise.STATISTICS, got.unbind(-1), want.unbind(-1), strict=True):
        torch.testing.assert_close(
            a.double(), b, rtol=tolerance, atol=tolerance, msg=lambda m, name=name: f"{name}: {m}"
        )


def combination(seed):
    """(q, k, v), rules, hidden, lengths, bias: a random problem, in float64."""
    rng = random.Random(seed)
    batch, kv_heads, group = rng.randint(1, 3), rng.randint(1, 2), rng.randint(1, 3)
    queries, keys = rng.choice([1, 5, 20, 140]), rng.choice([1, 7, 20, 150, 300])
    heads = kv_heads * group
    q, k, v = inputs(batch, heads, kv_heads, queries, keys, rng.choice([1, 8, 19]))
    if rng.random() < 0.4:  # values of every query head
        v = torch.randn(batch, heads, keys, rng.choice([1, 6]), dtype=torch.float64)
    rules = {"align": rng.choice(["end", "start"]), "scale": rng.choice([None, 0.3])}
    lengths = [(queries, keys)] * batch
    if rng.random() < 0.5:
        lengths = [(rng.randint(0, queries), rng.randint(0, keys)) for _ in range(batch)]
        rules["query_lengths"] = torch.tensor([n for n, _ in lengths])
        rules["key_lengths"] = torch.tensor([n for _, n in lengths])
    position = torch.arange(keys) - torch.arange(queries)[:, None]
    hidden = torch.zeros(batch, heads, queries, keys, dtype=torch.bool)
    shift = torch.tensor([n - m if rules["align"] == "end" else 0 for m, n in lengths])
    position = position - shift[:, None, None, None]
    if rng.random() < 0.4:
        rules["causal"] = True
        hidden |= position > 0
    if rng.random() < 0.4:
        rules["window"] = (rng.randint(0, 9), rng.choice([None, 3]))
        hidden |= position < -rules["window"][0]
        if rules["window"][1] is not None:
            hidden |= position > rules["window"][1]
    if rng.random() < 0.4:
        hide = torch.rand(rng.choice([(queries, keys), (batch, 1, 1, keys)])) < 0.3
        rules[rng.choice(["hide", "keep"])] = hide
        hidden |= hide if "hide" in rules else ~hide
    bias = None
    if rng.random() < 0.4:
        bias = rules["bias"] = torch.randn(1, heads, queries, keys, dtype=torch.float64)
    for b, (m, n) in enumerate(lengths):
        hidden[b, :, m:] = True
        hidden[b, :, :, n:] = True
    return (q, k, v), rules, hidden, lengths, bias


def measure(q, k, v, **rules):
    _, lse = headwise.attention(q, k, k, return_lse=True, **rules)
    return headwise.attention_statistics(q, k, v, lse, **rules)


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_plain_torch(seed):
    tensors, rules, hidden, lengths, bias = combination(seed)
    want = expected(*tensors, hidden, lengths, bias, rules["scale"], rules["align"])
    close(measure(*tensors, **rules), want, 1e-10)
    single = [x.float() for x in tensors]
    if bias is not None:
        rules["bias"] = bias.float()
    close(measure(*single, **rules), want, 3e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtypes(dtype):
    q, k, v = inputs(queries=30, keys=150, dtype=dtype)
    got = measure(q, k, v, causal=True)
    assert got.dtype == torch.float32
    lengths = [(30, 150)] * 2
    close(got, expected(q, k, v, causal_mask(30, 150)[None, None], lengths), 3e-4)


def test_any_strides():
    q, k, v = inputs(queries=9, width=6)
    want = measure(q, k, v)
    strided = [x.transpose(1, 3).contiguous().transpose(1, 3) for x in (q, k, v)]
    assert torch.equal(measure(*strided), want)


def test_packed_equals_padded_bit_for_bit():
    lengths = [(3, 4), (0, 2), (140, 6), (5, 150)]
    q, k, v = inputs(batch=4, queries=140, keys=150)
    query_lengths, key_lengths = (torch.tensor(n) for n in zip(*lengths, strict=True))
    rules = {"causal": True, "hide": torch.rand(1, 4, 140, 150) < 0.2}
    want = measure(q, k, v, query_lengths=query_lengths, key_lengths=key_lengths, **rules)

    def pack(x, sizes):
        return torch.cat([row[:, :n].transpose(0, 1) for row, n in zip(x, sizes, strict=True)])

    q, k, v = pack(q, query_lengths), pack(k, key_lengths), pack(v, key_lengths)
    starts = [torch.tensor([0, *itertools.accumulate(n)]) for n in (query_lengths, key_lengths)]
    for hints in [(140, 150), (1, 1000)]:
        _, lse = headwise.attention_packed(q, k, v, *starts, *hints, return_lse=True, **rules)
        got = headwise.attention_statistics_packed(q, k, v, lse, *starts, *hints, **rules)
        assert torch.equal(got, want)


def test_threads_and_dropout_change_nothing():
    q, k, v = inputs(queries=300, keys=300, dtype=torch.float32)
    _, lse = headwise.attention(q, k, v, dropout=0.5, return_lse=True)
    threads = torch.get_num_threads()
    results = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        results.append(headwise.attention_statistics(q, k, v, lse))
    torch.set_num_threads(threads)
    assert torch.equal(results[0], measure(q, k, v))
    assert all(torch.equal(results[0], other) for other in results[1:])


def test_uniform_attention():
    q, k, v = inputs(queries=20, keys=20)
    got = columns(measure(q * 0, k, v, causal=True))
    assert (got["rows"] == 20).all()
    assert (got["rows_with_choice"] == 19).all()  # the first row has one key
    torch.testing.assert_close(got["normalised_entropy"], got["rows_with_choice"])
    torch.testing.assert_close(got["largest"], got["chance"])
    torch.testing.assert_close(got["first"], got["chance"])
    torch.testing.assert_close(got["top_column"], got["chance"])
    assert (got["top_column_index"] == 0).all()
    want = sum(math.log(n) for n in range(1, 21))
    torch.testing.assert_close(got["entropy"], torch.full_like(got["entropy"], want))
    assert (got["rows_at[-1]"] == 19).all()
    assert (got["mass[1]"] == 0).all()


def test_a_head_that_looks_at_the_previous_token():
    bias = torch.full((12, 12), -50.0).diagonal_scatter(torch.zeros(11), -1)
    q, k, v = (x.float() for x in inputs(queries=12, keys=12))
    got = columns(measure(q * 0.01, k, v, bias=bias, causal=True))
    for prefix in ("", "norm_"):
        torch.testing.assert_close(got[prefix + "mass[-1]"], got["rows_at[-1]"])
        torch.testing.assert_close(got[prefix + "top_key[-1]"], got["rows_at[-1]"])
        torch.testing.assert_close(got[prefix + "mass[0]"], torch.ones(2, 4))  # the first row
        torch.testing.assert_close(got[prefix + "distance"], got["rows_at[-1]"])
        assert (got[prefix + "normalised_entropy"] < 1e-4).all()


def test_norms_tell_parking_from_reading():
    q, k, v = inputs(queries=10, keys=10)
    bias = torch.zeros(10, 10, dtype=q.dtype)
    bias[:, 0] = 5
    v[:, :, 0] = 0
    got = columns(measure(q * 0.1, k, v, bias=bias))
    assert (got["top_column_index"] == 0).all()
    assert (got["top_column"] / got["rows"] > 0.9).all()
    assert (got["norm_first"] == 0).all()
    assert (got["norm_top_column"] / got["rows"] < 0.5).all()
    silent = columns(measure(q, k, v * 0))
    assert all((silent[name] == 0).all() for name in silent if name.startswith("norm_mass"))
    assert all(x.isfinite().all() for x in silent.values())


def test_norms_of_projected_values():
    """The norms may be given instead of the values, one set for each query head."""
    q, k, v = inputs(queries=6)
    projection = torch.randn(4, 8, 16, dtype=q.dtype)
    projected = v.repeat_interleave(2, 1) @ projection
    want = measure(q, k, projected)
    norms = projected.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(measure(q, k, norms), want)
    assert not torch.allclose(measure(q, k, v), want)


@pytest.mark.parametrize("seed", range(5))
def test_shares_stay_shares(seed):
    tensors, rules, *_ = combination(100 + seed)
    got = columns(measure(*tensors, **rules))
    limit = got["rows"] * (1 + 1e-9) + 1e-9
    for prefix in ("", "norm_"):
        near = torch.stack([got[f"{prefix}mass[{offset}]"] for offset in OFFSETS])
        assert (near >= 0).all()
        assert (near.sum(0) <= limit).all()
        for name in ("largest", "first", "last", "top_column", "normalised_entropy"):
            assert ((got[prefix + name] >= 0) & (got[prefix + name] <= limit)).all(), name
        assert (got[prefix + "coverage"] <= got["keys"]).all()


def test_hidden_values_never_show():
    q, k, v = inputs(queries=7)
    hide = torch.rand(7) < 0.4
    want = measure(q, k, v, hide=hide[None, None, None])
    k[:, :, hide] = math.nan
    v[:, :, hide] = math.inf
    assert torch.equal(measure(q, k, v, hide=hide[None, None, None]), want)


def test_sums_over_sequences_are_sums_over_batches():
    q, k, v = inputs(batch=6, queries=9, keys=9)
    whole = measure(q, k, v)
    parts = torch.cat([measure(*(x[i : i + 2] for x in (q, k, v))) for i in (0, 2, 4)])
    assert torch.equal(whole, parts)


def test_has_no_derivative_and_says_so():
    q, k, v = (x.requires_grad_() for x in inputs())
    with pytest.raises(RuntimeError, match=r"attention_statistics: .* no derivative"):
        measure(q, k, v).sum().backward()


def test_bad_values_are_refused():
    q, k, v = inputs()
    _, lse = headwise.attention(q, k, v, return_lse=True)
    for bad, words in [
        (v[:, :, :3], "rows"),
        (v[:1], "sequences"),
        (torch.cat([v, v[:, :1]], 1), "value has 3 heads"),
        (v.float(), "value is Float"),
    ]:
        with pytest.raises(ValueError, match=words):
            headwise.attention_statistics(q, k, bad, lse)
    with pytest.raises(ValueError, match="lse"):
        headwise.attention_statistics(q, k, v, lse[:, :, :2])


def test_opcheck():
    q, k, v = inputs(dtype=torch.float32)
    _, lse = headwise.attention(q, k, v, return_lse=True)
    rules = {"hide": torch.rand(5, 7) < 0.3, "causal": True}
    torch.library.opcheck(torch.ops.headwise.attention_statistics.default, (q, k, v, lse), rules)
    q, k, v, lse = (x.flatten(0, 1).transpose(0, 1) for x in (q[:1], k[:1], v[:1], lse[:1]))
    starts = torch.tensor([0, 2, 5]), torch.tensor([0, 3, 7])
    torch.library.opcheck(
        torch.ops.headwise.attention_statistics_packed.default, (q, k, v, lse, *starts, 3, 4)
    )

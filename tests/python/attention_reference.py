"""Random inputs for the op, and attention written down plainly in float64, which judges it."""

import math

import torch


def inputs(batch=2, heads=4, kv_heads=2, queries=5, keys=7, width=8, dtype=torch.float64):
    def random(h, t):
        return torch.randn(batch, h, t, width, dtype=dtype)

    return random(heads, queries), random(kv_heads, keys), random(kv_heads, keys)


def plain(q, k, v, hidden=None, bias=None, scale=None):
    """(output, weights) in float64; rows that see nothing are 0."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.size(1) // k.size(1), 1) for x in (k, v))
    scores = q @ k.mT * (1 / math.sqrt(q.size(-1)) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights @ v, weights


def close(got, want, tolerance=1e-11):
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def causal_mask(queries, keys, align="end"):
    shift = keys - queries if align == "end" else 0
    return torch.arange(keys) > torch.arange(queries)[:, None] + shift

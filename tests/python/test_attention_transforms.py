"""torch.func, forward mode, batched gradients: they work, or say in our words that they do not."""

import headwise
import pytest
import torch
from attention_reference import close, inputs
from torch.autograd import forward_ad

REFUSAL = r"attention: torch\.func\.grad, vjp, jvp .* not supported; use torch\.autograd"


def mapped(count=3):
    """Queries, keys, values with a leading axis to map over."""
    return [torch.stack(x) for x in zip(*(inputs() for _ in range(count)), strict=True)]


@pytest.mark.parametrize("dims", [(0, 0, 0), (0, None, None), (None, 0, 0)])
def test_vmap_equals_a_loop(dims):
    tensors = [x if d == 0 else x[0] for x, d in zip(mapped(), dims, strict=True)]
    got = torch.func.vmap(headwise.attention, dims)(*tensors)
    for i in range(3):
        each = [x[i] if d == 0 else x for x, d in zip(tensors, dims, strict=True)]
        close(got[i], headwise.attention(*each))


@pytest.mark.parametrize("form", ["hide", "bias", "key_lengths"])
@pytest.mark.parametrize("axis", [0, None])
def test_vmap_with_masks_mapped_and_not(form, axis):
    q, k, v = mapped()
    masks = {
        "hide": torch.rand(3, 5, 7) < 0.3,
        "bias": torch.randn(3, 4, 5, 7, dtype=q.dtype)[:, None],
        "key_lengths": torch.tensor([[7, 3], [1, 2], [5, 0]]),
    }
    mask = masks[form] if axis == 0 else masks[form][0]
    got = torch.func.vmap(
        lambda q, k, v, mask: headwise.attention(q, k, v, **{form: mask}), (0, 0, 0, axis)
    )(q, k, v, mask)
    for i in range(3):
        each = mask[i] if axis == 0 else mask
        close(got[i], headwise.attention(q[i], k[i], v[i], **{form: each}))


def test_vmap_packed_equals_a_loop():
    q, k, v = (torch.randn(3, 9, 2, 8).double() for _ in range(3))
    starts = torch.tensor([0, 4, 9])

    def call(q, k, v):
        return headwise.attention_packed(q, k, v, starts, starts, 5, 5, causal=True)

    got = torch.func.vmap(call)(q, k, v)
    for i in range(3):
        close(got[i], call(q[i], k[i], v[i]))


@pytest.mark.parametrize("mapped_inputs", [True, False])
def test_dropout_under_vmap_obeys_its_randomness(mapped_inputs):
    q, k, v = inputs()
    ones = torch.ones(3, dtype=q.dtype)

    def run(randomness):
        torch.manual_seed(5)

        def call(one):
            return headwise.attention(q * one if mapped_inputs else q, k, v, dropout=0.5) * one

        return torch.func.vmap(call, randomness=randomness)(ones)

    with pytest.raises(RuntimeError, match="randomness"):
        run("error")
    same, different = run("same"), run("different")
    assert torch.equal(same[0], same[1])
    assert torch.equal(same[0], same[2])
    assert not torch.equal(different[0], different[1])
    assert not torch.equal(different[1], different[2])
    torch.manual_seed(5)
    assert torch.equal(same[0], headwise.attention(q, k, v, dropout=0.5))


def test_vmap_with_a_mapped_seed_equals_a_loop():
    q, k, v = inputs()
    seeds = torch.tensor([3, 4, 3])
    got = torch.func.vmap(lambda seed: headwise.attention(q, k, v, dropout=0.5, seed=seed))(seeds)
    for i in range(3):
        assert torch.equal(got[i], headwise.attention(q, k, v, dropout=0.5, seed=seeds[i]))


def test_batched_gradients_equal_one_after_the_other():
    q, k, v = (x.requires_grad_() for x in inputs())
    output = headwise.attention(q, k, v, dropout=0.3, seed=1)
    incoming = torch.randn(4, *output.shape, dtype=output.dtype)
    got = torch.autograd.grad(output, (q, k, v), incoming, is_grads_batched=True, retain_graph=True)
    for i in range(4):
        want = torch.autograd.grad(output, (q, k, v), incoming[i], retain_graph=True)
        for a, b in zip(got, want, strict=True):
            close(a[i], b)


def derivatives():
    """Name, and a function that takes a derivative in every way of torch.func."""
    func = torch.func
    q, k, v = inputs()

    def scalar(q):
        return headwise.attention(q, k, v).pow(2).sum()

    yield "grad", lambda: func.grad(scalar)(q)
    yield "vjp", lambda: func.vjp(scalar, q)
    yield "jvp", lambda: func.jvp(scalar, (q,), (q,))
    yield "jacrev", lambda: func.jacrev(scalar)(q)
    yield "jacfwd", lambda: func.jacfwd(scalar)(q)
    yield "hessian", lambda: func.hessian(scalar)(q)
    yield "vmap of grad", lambda: func.vmap(func.grad(scalar))(torch.stack([q, q]))
    starts = torch.tensor([0, 5]), torch.tensor([0, 7])
    packed = [x[0].transpose(0, 1) for x in (q, k, v)]
    yield (
        "packed",
        lambda: func.grad(lambda q: headwise.attention_packed(q, *packed[1:], *starts, 5, 7).sum())(
            packed[0]
        ),
    )


@pytest.mark.parametrize("name", [name for name, _ in derivatives()])
def test_other_derivatives_are_refused_in_our_words(name):
    with pytest.raises(NotImplementedError, match=REFUSAL):
        dict(derivatives())[name]()


@pytest.mark.parametrize("which", range(4))
def test_forward_mode_is_refused_in_our_words(which):
    tensors = [*inputs(), torch.randn(5, 7, dtype=torch.float64)]
    with forward_ad.dual_level():
        tensors[which] = forward_ad.make_dual(tensors[which], torch.ones_like(tensors[which]))
        q, k, v, bias = tensors
        with pytest.raises(NotImplementedError, match=r"forward-mode .* not supported"):
            headwise.attention(q, k, v, bias=bias)


def test_gradients_still_flow_after_a_refusal():
    q, k, v = inputs()
    with pytest.raises(NotImplementedError):
        torch.func.grad(lambda q: headwise.attention(q, k, v).sum())(q)
    q.requires_grad_()
    assert torch.autograd.grad(headwise.attention(q, k, v).sum(), q)[0].shape == q.shape


def test_double_backward_of_the_packed_form_raises_too():
    q, k, v = (torch.randn(4, 2, 3).double().requires_grad_() for _ in range(3))
    starts = torch.tensor([0, 1, 4])
    output = headwise.attention_packed(q, k, v, starts, starts, 3, 3)
    (gradient,) = torch.autograd.grad(output.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        gradient.sum().backward()

"""How the op stands in torch: gradients, schemas, fake tensors, loading."""

import inspect
import subprocess
import sys

import headwise
import pytest
import torch
from attention_reference import close, inputs, plain


def test_gradcheck():
    q, k, v = (x.requires_grad_() for x in inputs(batch=1, queries=3, keys=4, width=3))
    bias = torch.randn(1, 4, 1, 4, dtype=torch.float64, requires_grad=True)

    def call(q, k, v, bias):
        return headwise.attention(
            q, k, v, bias=bias, causal=True, dropout=0.2, seed=3, return_lse=True
        )

    assert torch.autograd.gradcheck(call, (q, k, v, bias))


@pytest.mark.parametrize("which", [(0,), (1,), (2,), (3,), (0, 1, 2, 3)])
def test_a_gradient_for_each_input_that_wants_one(which):
    tensors = [*inputs(), torch.randn(5, 7, dtype=torch.float64)]
    for i in which:
        tensors[i].requires_grad_()
    q, k, v, bias = tensors
    headwise.attention(q, k, v, bias=bias).pow(2).sum().backward()
    for i, tensor in enumerate(tensors):
        assert (tensor.grad is not None) == (i in which)
        assert tensor.grad is None or tensor.grad.abs().max() > 0


def test_grouped_gradients_are_summed():
    q, k, v = (x.requires_grad_() for x in inputs(heads=8, kv_heads=2))
    output = headwise.attention(q, k, v)
    got = torch.autograd.grad(output.pow(2).sum(), (q, k, v))
    want = torch.autograd.grad(plain(q, k, v)[0].pow(2).sum(), (q, k, v))
    for a, b in zip(got, want, strict=True):
        close(a, b)


def test_the_incoming_gradient_may_have_any_strides():
    q, k, v = (x.requires_grad_() for x in inputs())

    def gradients(through):
        return torch.autograd.grad(through(headwise.attention(q, k, v)), (q, k, v))

    ones = gradients(lambda x: (x * torch.ones_like(x)).sum())
    for through in (
        lambda x: x.sum(),
        lambda x: torch.cat([x, x.detach()], -1).sum(),
        lambda x: x.transpose(1, 3).contiguous().sum(),
    ):
        for a, b in zip(ones, gradients(through), strict=True):
            assert torch.equal(a, b)


def test_double_backward_raises():
    q, k, v = (x.requires_grad_() for x in inputs(batch=1, queries=3, keys=3, width=2))
    output = headwise.attention(q, k, v)
    (gradient,) = torch.autograd.grad(output.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.pow(2).sum().backward()


@pytest.mark.parametrize("transposed", [False, True])
def test_opcheck(transposed):
    q, k, v = inputs(dtype=torch.float32)
    if transposed:
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    for x in (q, k, v):
        x.requires_grad_()
    rules = {"hide": torch.rand(5, 7) < 0.3, "dropout": 0.2, "seed": torch.tensor(4)}
    torch.library.opcheck(torch.ops.headwise.attention_forward.default, (q, k, v), rules)
    _, lse = headwise.attention(q, k, v, return_lse=True)
    plain_inputs = (q.detach(), k.detach(), lse.detach())
    torch.library.opcheck(
        torch.ops.headwise.attention_weights.default, plain_inputs, {"causal": True}
    )


def test_defaults_of_python_and_schema_agree():
    for name in set(headwise.__all__) - {
        "STATISTICS",
        "check_masks",
        "load",
        "nn",
        "scaled_dot_product_attention",
    }:
        parameters = inspect.signature(getattr(headwise, name)).parameters
        schema = getattr(torch.ops.headwise, name).default._schema
        arguments = {argument.name: argument for argument in schema.arguments}
        assert set(parameters) - {"return_lse", "reduction"} == set(arguments)
        for key, argument in arguments.items():
            if argument.has_default_value():
                assert parameters[key].default == argument.default_value, (name, key)
            else:
                assert parameters[key].default is inspect.Parameter.empty, (name, key)


def test_every_argument_by_name_under_fake_tensors():
    q, k, v = inputs(dtype=torch.float32)
    everything = {
        "hide": torch.zeros(5, 7, dtype=torch.bool),
        "bias": torch.zeros(5, 7),
        "query_lengths": torch.tensor([5, 5]),
        "key_lengths": torch.tensor([7, 7]),
        "causal": True,
        "align": "start",
        "window": (3, -1),
        "scale": 0.5,
        "dropout": 0.1,
        "seed": torch.tensor(3),
        "offset": 2,
        "return_lse": True,
    }
    real = headwise.attention(q, k, v, **everything)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        q, k, v = (mode.from_tensor(x) for x in (q, k, v))
        fake = headwise.attention(q, k, v, **everything)
    for a, b in zip(real, fake, strict=True):
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)


def in_new_process(code, folder):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


def test_import_alone_in_a_new_process(tmp_path):
    code = "import headwise; print(headwise.attention.__module__)"
    result = in_new_process(code, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "headwise.functional"


def test_another_torch_is_refused_in_one_sentence(tmp_path):
    result = in_new_process("import torch; torch.__version__ = '2.0.1'; import headwise", tmp_path)
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: headwise")
    assert "2.0.1" in last
    assert torch.__version__ in last


def test_loading_the_library_twice_is_harmless(tmp_path):
    code = (
        "import headwise, torch, pathlib;"
        "folder = pathlib.Path(headwise.__file__).parent;"
        "torch.ops.load_library(str(folder / 'libheadwise_ops.so'))"
    )
    result = in_new_process(code, tmp_path)
    assert result.returncode == 0, result.stderr

"""What happens around the op: checkpointing, copies, pickles, forked workers, imports."""

import copy
import io
import os
import pickle
import subprocess
import sys
import threading

import headwise
import pytest
import torch
from attention_reference import close, inputs
from torch.utils.checkpoint import checkpoint


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_checkpointed_call_drops_what_it_dropped_before(reentrant, compiled):
    if reentrant and compiled:
        pytest.skip("torch compiles no reentrant checkpoint")
    q, k, v = (x.requires_grad_() for x in inputs())

    def attend(q, k, v):
        return headwise.attention(q, k, v, dropout=0.5)

    def saving(q, k, v):
        return checkpoint(attend, q, k, v, use_reentrant=reentrant)

    if compiled:
        saving = torch.compile(saving, fullgraph=True, backend="aot_eager")

    def run(function):
        torch.manual_seed(3)
        output = function(q, k, v)
        torch.rand(5)  # so that a seed drawn again would be another
        return (
            [output, *torch.autograd.grad(output.pow(2).sum(), (q, k, v))]
            if not reentrant
            else [
                output,
                *backward(output, (q, k, v)),
            ]
        )

    for a, b in zip(run(saving), run(attend), strict=True):
        assert torch.equal(a, b)


def backward(output, tensors):
    """Gradients by .backward(), which a reentrant checkpoint asks for."""
    for x in tensors:
        x.grad = None
    output.pow(2).sum().backward()
    return [x.grad.clone() for x in tensors]


def test_a_checkpointed_module_trains_as_a_plain_one():
    module = headwise.nn.MultiHeadAttention(12, 3, dropout=0.4)
    x = torch.randn(2, 5, 12, requires_grad=True)

    def gradients(function):
        torch.manual_seed(4)
        return torch.autograd.grad(function(x).sum(), [x, *module.parameters()])

    def saving(x):
        return checkpoint(module, x, use_reentrant=False, causal=True)

    for a, b in zip(gradients(saving), gradients(lambda x: module(x, causal=True)), strict=True):
        assert torch.equal(a, b)


def copies():
    yield "deepcopy", copy.deepcopy
    yield "pickle", lambda module: pickle.loads(pickle.dumps(module))
    yield "torch.save", saved_and_loaded


def saved_and_loaded(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("way", [name for name, _ in copies()])
def test_copies_compute_the_same_and_share_nothing(way):
    module = headwise.nn.MultiHeadAttention(12, 4, num_kv_heads=2, rotary=False, dropout=0.3).eval()
    x = torch.randn(2, 5, 12)
    want = module(x, causal=True)
    module(x).sum().backward()
    twin = dict(copies())[way](module)
    assert torch.equal(twin(x, causal=True), want)
    assert repr(twin) == repr(module)
    assert (twin.training, twin.dropout, twin.num_kv_heads) == (False, 0.3, 2)
    with torch.no_grad():
        module.q_proj.weight.zero_()
    assert torch.equal(twin(x, causal=True), want)


def test_a_state_dict_goes_through_a_file(tmp_path):
    module, other = (headwise.nn.MultiHeadAttention(12, 4) for _ in range(2))
    torch.save(module.state_dict(), tmp_path / "weights")
    other.load_state_dict(torch.load(tmp_path / "weights", weights_only=True))
    x = torch.randn(2, 5, 12)
    assert torch.equal(module(x), other(x))


FORKED = """
import sys
import torch, headwise

torch.set_num_threads(2)

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        q = x.clone().requires_grad_()
        output = headwise.attention(q, x, x, causal=True)
        output.sum().backward()
        return output.detach(), q.grad

torch.manual_seed(0)
x = torch.randn(4, 8, 64, 32)  # enough for both threads
want = Items()[0]  # the threads of the parent exist now
loader = torch.utils.data.DataLoader(
    Items(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60
)
for got in loader:
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])
print("every worker agrees")
"""


def in_new_process(code, folder, timeout=120):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def test_forked_workers_use_the_op_after_their_parent_did(tmp_path):
    done = in_new_process(FORKED, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "every worker agrees"


@pytest.mark.parametrize(
    "imports", ["import torch, headwise", "import headwise, torch", "import headwise.nn"]
)
def test_imports_in_any_order(imports, tmp_path):
    code = f"{imports}\nm = headwise.nn.MultiHeadAttention(8, 2)\nimport torch\n"
    code += "print(m(torch.ones(1, 3, 8)).shape)"
    done = in_new_process(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "torch.Size([1, 3, 8])"


def test_importing_takes_none_of_the_packages_that_only_load_needs(tmp_path):
    code = "import sys, headwise; print({'sentencepiece', 'safetensors'} & set(sys.modules))"
    assert in_new_process(code, tmp_path).stdout.strip() == "set()"


def test_threads_of_python_train_side_by_side():
    """The interpreter is not held while kernels run, and a hook may take it back in backward."""
    results = {}

    def train(name):
        torch.manual_seed(0)
        q, k, v = (x.requires_grad_() for x in shared)
        hooked = q * 1.0
        hooked.register_hook(lambda g: g * 1.0)
        output = headwise.attention(hooked, k, v, causal=True)
        results[name] = torch.autograd.grad(output.pow(2).sum(), (q, k, v))

    shared = [x.detach() for x in inputs(queries=7)]
    threads = [threading.Thread(target=train, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    for i in range(1, 4):
        for a, b in zip(results[0], results[i], strict=True):
            close(a, b)


@pytest.mark.parametrize(
    ("given", "warning"),
    [("0", ""), ("32", ""), ("lots", 'HEADWISE_KEPT_MEMORY is "lots"; a whole number of MiB')],
)
def test_kept_memory_is_set_by_a_variable_and_nonsense_is_named(given, warning):
    program = """
import torch, headwise
q = torch.randn(4, 8, 256, 64)
first = headwise.attention(q, q, q)
address = first.data_ptr()
expected = first.sum().item()
del first
again = headwise.attention(q, q, q)
print(again.data_ptr() == address, again.sum().item() == expected)
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HEADWISE_KEPT_MEMORY": given, "MALLOC_MMAP_THRESHOLD_": "65536"},
    )
    found, right = run.stdout.split()
    assert right == "True"
    if given != "0":  # without it the system may give the same address again
        assert found == "True"
    assert (warning in run.stderr) if warning else "HEADWISE" not in run.stderr

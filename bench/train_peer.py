"""The same model trained in eager PyTorch, at its best: one of the other sides of `bench train`.

    python -m bench.train_peer FILE FORM THREADS

Reads FILE (written by bench/train.py: shapes, rates and the ids of all pairs), then answers every
line on standard input with one line of JSON: seconds and tokens of that many updates. Needs torch
alone, so that another interpreter's torch can be the peer.
"""

import json
import math
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD = 0
Pair = tuple[list[int], list[int]]


class ByteDropout(torch.autograd.Function):
    """One random byte a number: bernoulli costs an eager step more than its layer norms."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        """Drop where the byte is below threshold."""
        factors = (torch.empty_like(x, dtype=torch.uint8).random_() >= threshold).to(x.dtype)
        factors *= 256 / (256 - threshold)
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Through what was kept."""
        (factors,) = ctx.saved_tensors
        return gradient * factors, None


class ChunkedLoss(torch.autograd.Function):
    """Output layer and smoothed cross-entropy, a chunk of rows at a time, gradients on the way."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float
    ) -> Tensor:
        """Sum over the rows."""
        hidden_gradient, weight_gradient = torch.empty_like(hidden), torch.zeros_like(weight)
        total = hidden.new_zeros(())
        for begin in range(0, len(hidden), 256):
            rows, own = hidden[begin : begin + 256], labels[begin : begin + 256, None]
            scores = rows @ weight.T
            largest = scores.amax(-1, keepdim=True)
            log_sum = scores.sub(largest).exp_().sum(-1, keepdim=True).log_().add_(largest)
            nll = log_sum - scores.gather(1, own)
            mean = log_sum - scores.mean(-1, keepdim=True)
            total += (1 - smoothing) * nll.sum() + smoothing * mean.sum()
            gradient = scores.sub_(log_sum).exp_().sub_(smoothing / len(weight))
            gradient.scatter_add_(1, own, torch.full_like(nll, smoothing - 1))
            torch.mm(gradient, weight, out=hidden_gradient[begin : begin + 256])
            weight_gradient.addmm_(gradient.T, rows)
        ctx.save_for_backward(hidden_gradient, weight_gradient)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Scale what the forward made."""
        hidden_gradient, weight_gradient = ctx.saved_tensors
        return hidden_gradient * gradient, weight_gradient * gradient, None, None


class Attention(nn.Module):
    """Projections around torch's scaled_dot_product_attention, those of self-attention as one."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.input = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor | None, **rules: Any) -> Tensor:
        """Take x (B, T, E); memory (B, S, E) or None for self-attention."""
        width = x.shape[-1]
        if memory is None:
            parts = self.input(x).chunk(3, -1)
        else:
            weight, bias = self.input.weight, self.input.bias
            query = F.linear(x, weight[:width], bias[:width])
            parts = (query, *F.linear(memory, weight[width:], bias[width:]).chunk(2, -1))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        heads = F.scaled_dot_product_attention(q, k, v, **rules)
        return self.output(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Pre- or post-norm, of the encoder or, with cross-attention, of the decoder."""

    def __init__(self, model: dict[str, Any], cross: bool, drop: Callable[[Tensor], Tensor]):
        super().__init__()
        width, inner = model["width"], model["feed_forward"]
        self.pre, self.drop = model["norm"] == "pre", drop
        heads = model["decoder_heads"] if cross else model["encoder_heads"]
        self.own = Attention(width, heads)
        self.cross = Attention(width, model["cross_heads"]) if cross else None
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))

    def forward(self, x: Tensor, memory: Tensor | None, own: dict, cross: dict) -> Tensor:
        """Take x (B, T, E)."""
        branches = [lambda y: self.own(y, None, **own)]
        if self.cross is not None:
            branches.append(lambda y: self.cross(y, memory, **cross))
        branches.append(lambda y: self.outer(F.relu(self.inner(y))))
        for norm, branch in zip(self.norms, branches, strict=True):
            x = x + self.drop(branch(norm(x))) if self.pre else norm(x + self.drop(branch(x)))
        return x


class Translator(nn.Module):
    """Encoder and decoder, one embedding for both sides and the output."""

    def __init__(self, job: dict[str, Any], tuned: bool) -> None:
        super().__init__()
        model = job["model"]
        self.tuned, self.rate, self.smoothing = tuned, model["dropout"], job["smoothing"]
        width = model["width"]
        self.embedding = nn.Embedding(job["vocabulary"], width)
        nn.init.normal_(self.embedding.weight, 0, width**-0.5)
        self.encoder = nn.ModuleList(
            Layer(model, False, self.drop) for _ in range(model["encoder_layers"])
        )
        self.decoder = nn.ModuleList(
            Layer(model, True, self.drop) for _ in range(model["decoder_layers"])
        )
        pre = model["norm"] == "pre"
        self.ends = nn.ModuleList(nn.LayerNorm(width) if pre else nn.Identity() for _ in "es")
        angles = torch.arange(512.0)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("table", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def drop(self, x: Tensor) -> Tensor:
        """Dropout of branches and embeddings."""
        if self.tuned:
            return ByteDropout.apply(x, round(256 * self.rate))
        return F.dropout(x, self.rate)

    def embed(self, ids: Tensor) -> Tensor:
        """(B, T) ids to (B, T, E)."""
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.drop(x + self.table[: ids.shape[1]])

    def forward(self, source: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        """The smoothed loss, mean over the labels."""
        real = source.ne(PAD)[:, None, None, :]
        see = {} if self.tuned else {"attn_mask": real}  # tuned: no source has padding
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, None, see, {})
        memory = self.ends[0](x)
        x = self.embed(inputs)
        for layer in self.decoder:
            x = layer(x, memory, {"is_causal": True}, see)
        x = self.ends[1](x)
        weight = self.embedding.weight
        if self.tuned:
            rows = labels.ne(PAD)
            loss = ChunkedLoss.apply(x[rows], weight, labels[rows], self.smoothing)
            return loss / rows.sum()
        return F.cross_entropy(
            F.linear(x, weight).flatten(0, 1),
            labels.flatten(),
            ignore_index=PAD,
            label_smoothing=self.smoothing,
        )


def padded(rows: list[list[int]]) -> Tensor:
    """(B, longest)."""
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def batches(pairs: list[Pair], budget: int, form: str) -> list[list[Pair]]:
    """Pairs of at most `budget` target pieces: drawn at random, or of similar lengths."""
    order = list(pairs)
    random.Random(1).shuffle(order)
    if form != "padded":
        order.sort(key=lambda pair: (len(pair[0]), len(pair[1])))
    result: list[list[Pair]] = [[]]
    tokens = 0
    for pair in order:
        other = form == "tuned" and result[-1] and len(result[-1][0][0]) != len(pair[0])
        if result[-1] and (tokens + len(pair[1]) > budget or other):
            result.append([])
            tokens = 0
        result[-1].append(pair)
        tokens += len(pair[1])
    random.Random(2).shuffle(result)
    return result


class Run:
    """A training run that is asked for a number of updates at a time."""

    def __init__(self, job: dict[str, Any], form: str) -> None:
        torch.manual_seed(1)
        self.job = job
        self.model = Translator(job, form == "tuned")
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.Adam(
            self.parameters, lr=job["learning_rate"], betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        self.average = [p.detach().clone() for p in self.parameters]
        self.batches = batches(job["pairs"], job["batch_tokens"], form)

    def update(self, pairs: list[Pair]) -> tuple[int, float]:
        """Source and target pieces it learnt from, and the loss."""
        begin, end = self.job["begin"], self.job["end"]
        source = padded([pair[0] + [end] for pair in pairs])
        inputs = padded([[begin] + pair[1] for pair in pairs])
        labels = padded([pair[1] + [end] for pair in pairs])
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(source, inputs, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, self.job["clip_norm"])
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.average, self.parameters, 1 - self.job["ema"])
        return sum(len(a) + len(b) + 2 for a, b in pairs), loss.item()


def main() -> None:
    """Answer until the input ends."""
    file, form, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    run = Run(json.loads(Path(file).read_text()), form)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for request in sys.stdin:
        begin = time.perf_counter()
        done = [run.update(pairs) for pairs in run.batches[: int(request)]]  # always the same work
        answer = {
            "seconds": time.perf_counter() - begin,
            "tokens": sum(tokens for tokens, _ in done),
            "loss": done[-1][1],
            "peak_bytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10,
            "torch": str(torch.__version__),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

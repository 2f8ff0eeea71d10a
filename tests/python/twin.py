"""The model of a checkpoint once more, in plain PyTorch on padded batches.

It shares no code with Headwise: it reads config.toml, model.safetensors and the SentencePiece
models, and follows the papers (Vaswani et al. 2017; Su et al. 2021; Ainslie et al. 2023).
"""

import math
from pathlib import Path

import sentencepiece
import tomllib
import torch
import torch.nn.functional as F
from safetensors.torch import load_file


class Twin:
    def __init__(self, checkpoint: Path, dtype: torch.dtype = torch.float64):
        self.config = tomllib.loads((checkpoint / "config.toml").read_text("utf-8"))
        self.model = self.config["model"]
        self.weights = {
            name: tensor.to(dtype).requires_grad_()
            for name, tensor in load_file(checkpoint / "model.safetensors").items()
        }
        self.source = sentencepiece.SentencePieceProcessor(
            model_file=str(checkpoint / "source.spm")
        )
        target = checkpoint / "target.spm"
        self.target = (
            sentencepiece.SentencePieceProcessor(model_file=str(target))
            if target.exists()
            else self.source
        )
        shared = self.model["embeddings"] == "shared"
        self.source_table = "embedding" if shared else "source_embedding"
        self.target_table = "embedding" if shared else "target_embedding"

    def source_ids(self, lines: list[str]) -> list[list[int]]:
        return [[*self.source.encode(line), self.source.eos_id()] for line in lines]

    def target_ids(self, lines: list[str]) -> list[list[int]]:
        """Labels; the decoder's input is the same, shifted behind the begin token."""
        return [[*self.target.encode(line), self.target.eos_id()] for line in lines]

    def logits(self, sources: list[str], targets: list[str]) -> list[torch.Tensor]:
        """Scores (T, V) of each target, from one padded batch."""
        source, source_real = padded(self.source_ids(sources), self.source.pad_id())
        labels = self.target_ids(targets)
        inputs = [[self.target.bos_id(), *ids[:-1]] for ids in labels]
        target, _ = padded(inputs, self.target.pad_id())

        x = self.embed(self.source_table, source)
        see_source = source_real[:, None, None, :]
        for i in range(self.model["encoder_layers"]):
            x = self.encoder_layer(x, i, see_source)
        memory = self.final_norm("encoder_norm", x)

        x = self.embed(self.target_table, target)
        length = target.shape[1]
        see_past = torch.ones(length, length, dtype=torch.bool).tril()
        for i in range(self.model["decoder_layers"]):
            x = self.decoder_layer(x, memory, i, see_past, see_source)
        x = self.final_norm("decoder_norm", x)
        output = self.target_table if self.model["tied_output"] else "output"
        scores = x @ self.weights[f"{output}.weight"].T
        return [row[: len(ids)] for row, ids in zip(scores, labels, strict=True)]

    def losses(self, sources: list[str], targets: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Sums over all labels: with label smoothing, and without."""
        scores = torch.cat(self.logits(sources, targets))
        labels = torch.tensor([label for ids in self.target_ids(targets) for label in ids])
        smoothing = self.config["train"]["label_smoothing"]
        return (
            F.cross_entropy(scores, labels, reduction="sum", label_smoothing=smoothing),
            F.cross_entropy(scores, labels, reduction="sum"),
        )

    def gradients(self, sources: list[str], targets: list[str]) -> dict[str, torch.Tensor]:
        """Of the smoothed loss per label."""
        smoothed, _ = self.losses(sources, targets)
        count = sum(map(len, self.target_ids(targets)))
        names = sorted(self.weights)
        values = torch.autograd.grad(smoothed / count, [self.weights[name] for name in names])
        return dict(zip(names, values, strict=True))

    def embed(self, table: str, ids: torch.Tensor) -> torch.Tensor:
        width = self.model["width"]
        x = F.embedding(ids, self.weights[f"{table}.weight"]) * math.sqrt(width)
        if self.model["positions"] == "sinusoidal":
            x = x + sinusoids(ids.shape[1], width).to(x.dtype)
        return x

    def encoder_layer(self, x, i, see_source):
        name = f"encoder_{i}"
        heads = self.heads("encoder", i)
        rotary = self.model["positions"] == "rotary"

        def attend(y):
            return self.attention(f"{name}.self_attention", heads, y, y, see_source, rotary)

        x = self.residual(f"{name}.self_attention_norm", x, attend)
        return self.residual(f"{name}.feed_forward_norm", x, lambda y: self.feed_forward(name, y))

    def decoder_layer(self, x, memory, i, see_past, see_source):
        name = f"decoder_{i}"
        own, cross = self.heads("decoder", i), self.heads("cross", i)
        rotary = self.model["positions"] == "rotary"

        def attend(y):
            return self.attention(f"{name}.self_attention", own, y, y, see_past, rotary)

        def attend_source(y):
            return self.attention(f"{name}.cross_attention", cross, y, memory, see_source, False)

        x = self.residual(f"{name}.self_attention_norm", x, attend)
        x = self.residual(f"{name}.cross_attention_norm", x, attend_source)
        return self.residual(f"{name}.feed_forward_norm", x, lambda y: self.feed_forward(name, y))

    def heads(self, kind: str, layer: int) -> tuple[int, int]:
        """Query heads and key/value heads of a layer."""

        def of_layer(value):
            if not isinstance(value, list):
                return value
            return value[0] if len(value) == 1 else value[layer]

        query = of_layer(self.model[f"{kind}_heads"])
        key_value = self.model[f"{kind}_kv_heads"]
        return query, of_layer(key_value) if key_value != [] else query

    def attention(self, name, heads, x, memory, see, rotary):
        query_heads, kv_heads = heads
        q = split(self.linear(f"{name}.q_proj", x), query_heads)
        k = split(self.linear(f"{name}.k_proj", memory), kv_heads)
        v = split(self.linear(f"{name}.v_proj", memory), kv_heads)
        if rotary:
            q, k = rotated(q), rotated(k)
        group = query_heads // kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~see, -math.inf).softmax(-1)
        merged = (weights @ v).transpose(1, 2).flatten(2)
        return (
            self.linear(f"{name}.out_proj", merged) if self.model["output_projection"] else merged
        )

    def feed_forward(self, name, x):
        active = {"relu": F.relu, "gelu": F.gelu}[self.model["activation"]]
        inner = active(self.linear(f"{name}.feed_forward.in", x))
        return self.linear(f"{name}.feed_forward.out", inner)

    def residual(self, norm, x, branch):
        if self.model["norm"] == "pre":
            return x + branch(self.layer_norm(norm, x))
        return self.layer_norm(norm, x + branch(x))

    def final_norm(self, name, x):
        return self.layer_norm(name, x) if self.model["norm"] == "pre" else x

    def layer_norm(self, name, x):
        return F.layer_norm(
            x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        )

    def linear(self, name, x):
        return F.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))


def padded(sequences: list[list[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids (B, longest), and which of them are real."""
    longest = max(map(len, sequences))
    ids = torch.tensor([ids + [pad] * (longest - len(ids)) for ids in sequences])
    lengths = torch.tensor(list(map(len, sequences)))
    return ids, torch.arange(longest) < lengths[:, None]


def split(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(B, T, H·D) to (B, H, T, D)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def sinusoids(length: int, width: int) -> torch.Tensor:
    table = torch.zeros(length, width, dtype=torch.float64)
    for position in range(length):
        for column in range(width):
            angle = position / 10000 ** (2 * (column // 2) / width)
            table[position, column] = math.sin(angle) if column % 2 == 0 else math.cos(angle)
    return table


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Channels i and i + D/2 as a complex number, times e^(i·position·frequency)."""
    half = x.shape[-1] // 2
    positions = torch.arange(x.shape[-2], dtype=torch.float64)
    frequencies = 10000 ** (-torch.arange(half, dtype=torch.float64) / half)
    turn = torch.polar(torch.ones(()).double(), positions[:, None] * frequencies)
    pairs = torch.complex(x[..., :half].double(), x[..., half:].double()) * turn
    return torch.cat([pairs.real, pairs.imag], -1).to(x.dtype)

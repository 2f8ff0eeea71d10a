"""A trained model with its vocabularies: text in, text out."""

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from headwise.model_config import ModelConfig, TranslateConfig
from headwise.subword import Subword
from headwise.transformer import Transformer

__all__ = ["TranslationModel"]


class TranslationModel(Transformer):
    """A `Transformer` that knows its SentencePiece models; made by `headwise.load`.

    >>> model = headwise.load("runs/quickstart")                          # doctest: +SKIP
    >>> model.translate(["a small dog"])                                  # doctest: +SKIP
    >>> source, _ = model.batch(sources)                                  # doctest: +SKIP
    >>> labels, _ = model.batch(targets, "target")                        # doctest: +SKIP
    >>> scores = model(source, model.decoder_input(labels))               # doctest: +SKIP

    Args:
        config: the section [model].
        translation: limits of a translation.
        source_vocabulary, target_vocabulary: one and the same where they are joint.
    """

    def __init__(
        self,
        config: ModelConfig,
        translation: TranslateConfig,
        source_vocabulary: Subword,
        target_vocabulary: Subword,
    ) -> None:
        pads = (source_vocabulary.pad, target_vocabulary.pad)
        super().__init__(config, source_vocabulary.size, target_vocabulary.size, pads)
        self.translation = translation
        self.source_vocabulary = source_vocabulary
        self.target_vocabulary = target_vocabulary

    def encode(self, text: str, side: str = "source") -> list[int]:
        """Give the ids of a line, the end token last; `side` is "source" or "target"."""
        vocabulary = self._vocabulary(side)
        return [*vocabulary.encode(text), vocabulary.eos]

    def decode(self, ids: Iterable[int], side: str = "target") -> str:
        """Give the text of ids; begin, end and padding are skipped.

        Raises:
            IndexError: for an id outside the vocabulary.
        """
        return self._vocabulary(side).decode(ids)

    def batch(self, texts: Sequence[str], side: str = "source") -> tuple[Tensor, Tensor]:
        """Encode lines into one padded batch.

        Returns:
            ids (B, longest) int64 with end tokens, and lengths (B,) int64, on the model's device.
        """
        return self._padded([self.encode(text, side) for text in texts], side)

    def decoder_input(self, labels: Tensor) -> Tensor:
        """Shift labels (B, T) of `batch(..., "target")` behind the begin token: (B, T)."""
        begin = labels.new_full((labels.size(0), 1), self.target_vocabulary.bos)
        return torch.cat([begin, labels[:, :-1]], 1)

    @torch.no_grad()
    def translate(self, lines: Iterable[str], batch_size: int = 64) -> list[str]:
        """Translate line by line with greedy search: the likeliest piece at every step.

        Blank lines stay empty. Outputs are cut off where `headwise translate --beam 1` cuts them.

        Args:
            lines: one sentence each; for beam search use the program.
            batch_size: sentences decoded together; changes speed and memory only.

        Raises:
            RuntimeError: in training mode.
            ValueError: naming a line with more pieces than the model was trained for.
        """
        if self.training:
            raise RuntimeError("dropout would spoil the translations: call model.eval() first")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {batch_size}")
        sources = list(self._sources(lines))
        order = sorted((i for i, ids in enumerate(sources) if ids), key=lambda i: -len(sources[i]))
        results = [""] * len(sources)
        for begin in range(0, len(order), batch_size):
            places = order[begin : begin + batch_size]
            for place, ids in zip(places, self._greedy([sources[i] for i in places]), strict=True):
                results[place] = self.decode(ids)
        return results

    def _sources(self, lines: Iterable[str]) -> Iterator[list[int]]:
        """Ids of each line with end; nothing for a blank one."""
        most = self.translation.max_length
        for number, line in enumerate(lines, 1):
            ids = self.encode(line)
            if len(ids) > most:
                raise ValueError(
                    f"line {number} has {len(ids)} pieces, the end token included; the model was "
                    f"trained for at most {most} (data.max_length): split the line, or use "
                    "`headwise translate`, which does"
                )
            yield [] if _is_blank(line) or len(ids) == 1 else ids

    def _greedy(self, sources: list[list[int]]) -> list[list[int]]:
        """Give the pieces of each output, end token left out."""
        vocabulary, limits = self.target_vocabulary, self.translation
        most = [
            math.floor(limits.max_length_factor * (len(ids) - 1)) + limits.max_length_extra
            for ids in sources
        ]
        state = self.start(self.run_encoder(*self._padded(sources, "source")), max(1, *most))
        forbidden = [vocabulary.pad, vocabulary.bos, vocabulary.unk]
        outputs: list[list[int]] = [[] for _ in sources]
        rows = [i for i in range(len(sources)) if most[i] > 0]  # sentence of each live row
        parents = torch.tensor(rows, device=state.sentences.device)
        tokens = torch.full_like(parents, vocabulary.bos)
        while rows:
            scores = self.step(state, tokens, parents)
            scores[:, forbidden] = -math.inf
            best = scores.argmax(-1).tolist()
            live = []
            for place, (row, token) in enumerate(zip(rows, best, strict=True)):
                if token == vocabulary.eos:
                    continue
                outputs[row].append(token)
                if len(outputs[row]) < most[row]:
                    live.append(place)
            parents = torch.tensor(live, dtype=torch.int64, device=parents.device)
            tokens = torch.tensor([best[i] for i in live], dtype=torch.int64, device=parents.device)
            rows = [rows[i] for i in live]
        return outputs

    def _padded(self, rows: list[list[int]], side: str) -> tuple[Tensor, Tensor]:
        longest = max(map(len, rows), default=0)
        pad = self._vocabulary(side).pad
        device = self._table(side).weight.device
        ids = [row + [pad] * (longest - len(row)) for row in rows]
        return (
            torch.tensor(ids, dtype=torch.int64, device=device).view(len(rows), longest),
            torch.tensor(list(map(len, rows)), dtype=torch.int64, device=device),
        )

    def _vocabulary(self, side: str) -> Subword:
        if side not in ("source", "target"):
            raise ValueError(f'side is "{side}"; it must be "source" or "target"')
        return self.source_vocabulary if side == "source" else self.target_vocabulary


def _is_blank(line: str) -> bool:
    """Whether a reader would see nothing."""
    return all(
        c.isspace()
        or unicodedata.category(c) in ("Cc", "Cf")
        or c in "\N{REPLACEMENT CHARACTER}\u2581"
        for c in line
    )

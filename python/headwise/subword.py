"""SentencePiece behind a small face: text to ids and back."""

from collections.abc import Iterable
from pathlib import Path

__all__ = ["Subword"]


class Subword:
    """One SentencePiece model; special ids are read from it, never assumed.

    Args:
        path: of the model file.

    Raises:
        ValueError: naming the file, if it is no SentencePiece model or has no piece for padding,
            unknown, begin or end.
        ImportError: without the package sentencepiece.
    """

    def __init__(self, path: Path) -> None:
        try:
            from sentencepiece import SentencePieceProcessor
        except ModuleNotFoundError:
            raise ImportError(
                "headwise.load needs the package sentencepiece: pip install sentencepiece"
            ) from None
        content = path.read_bytes()
        self._processor = SentencePieceProcessor()
        try:
            whole = self._processor.LoadFromSerializedProto(content)
        except RuntimeError:
            whole = False
        if not whole:
            raise ValueError(f"{path}: is no SentencePiece model")
        self.size: int = self._processor.get_piece_size()
        self.pad: int = self._processor.pad_id()
        self.unk: int = self._processor.unk_id()
        self.bos: int = self._processor.bos_id()
        self.eos: int = self._processor.eos_id()
        if min(self.pad, self.unk, self.bos, self.eos) < 0:
            raise ValueError(
                f"{path}: the SentencePiece model must have pieces for padding, unknown, begin and "
                f"end; their ids are {self.pad}, {self.unk}, {self.bos} and {self.eos}"
            )

    def encode(self, text: str) -> list[int]:
        """Give the ids of a line, without begin and end."""
        return self._processor.encode(text)

    def piece(self, number: int) -> str:
        """Give the text of a piece of the vocabulary."""
        return self._processor.id_to_piece(number)

    def decode(self, ids: Iterable[int]) -> str:
        """Give the text of ids; control ids are skipped.

        Raises:
            IndexError: for an id outside the vocabulary.
        """
        return self._processor.decode([int(i) for i in ids])

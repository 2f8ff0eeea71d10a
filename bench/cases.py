"""The rows of the attention table: what is computed, against what, and what is asked of it."""

from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = ["CASES", "Case", "Demand", "select"]


def _wide(capability: str) -> bool:
    return capability.upper().startswith("AVX512")


@dataclass(frozen=True)
class Demand:
    """Ratios, baseline's time / ours: `bar` is the least, `goal` what is aimed at."""

    bar: float | None = None
    goal: float | None = None
    bar_avx512: float | None = None  # where the baseline's products use AVX-512; None: as `bar`
    bandwidth_avx512: float | None = None  # there, the least share of the read bandwidth

    def bar_for(self, capability: str) -> float | None:
        """The bar for a baseline with this instruction set (torch's name)."""
        return self.bar if self.bar_avx512 is None or not _wide(capability) else self.bar_avx512

    def bandwidth_for(self, capability: str) -> float | None:
        """The least share of the read bandwidth, for the same."""
        return self.bandwidth_avx512 if _wide(capability) else None


@dataclass(frozen=True)
class Case:
    """One piece of work. B batch, H heads, G key/value heads, T length, D head width."""

    name: str
    batch: int
    heads: int
    length: int
    width: int
    kv_heads: int = 0  # 0: as many as `heads`
    form: str = "padded"  # padded, packed, decode
    shortest: int = 0  # > 0: lengths drawn from shortest..length
    causal: bool = False
    window: int = 0  # > 0: a row sees this many keys, its own the last (with causal)
    dropout: float = 0.0
    dtype: str = "float32"
    backward: bool = False
    mask: str = ""  # hide: (B, 1, T, T) bool; bias: (1, H, T, T), with gradient
    sliced: bool = False  # query, key, value are slices of one projection (B, T, 3, H, D)
    against: str = "sdpa"  # sdpa, folded, cast, headwise float32
    demand: Demand = Demand()

    @property
    def groups(self) -> int:
        """G, the number of key/value heads."""
        return self.kv_heads or self.heads

    @property
    def query_length(self) -> int:
        """T_q: one new token in decoding."""
        return 1 if self.form == "decode" else self.length

    def tiny(self) -> "Case":
        """The same work at a size for tests."""
        return replace(
            self,
            batch=min(self.batch, 3),
            heads=4 if self.kv_heads else 2,
            kv_heads=2 if self.kv_heads else 0,
            length=min(self.length, 20),
            shortest=min(self.shortest, 4),
            window=min(self.window, 7),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `from_dict` reads them."""
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Case":
        """The inverse of `to_dict`."""
        return Case(**{**values, "demand": Demand(**values["demand"])})


_SHORT = Case("", 128, 4, 24, 32, shortest=12, backward=True)
_T512 = Case("", 4, 8, 512, 64, backward=True)
_T512_CAUSAL = replace(_T512, causal=True)
_T2048 = Case("", 1, 8, 2048, 64)
_DECODE = Case("", 8, 32, 4096, 128, kv_heads=4, form="decode")
_ODD = Demand(1.0, 2.0)

CASES = [
    replace(_SHORT, name="short, lengths, dropout", dropout=0.1, demand=Demand(4, 6)),
    replace(_SHORT, name="short, lengths", demand=Demand(3, 5)),
    replace(_T512_CAUSAL, name="T512 causal, dropout", dropout=0.1, demand=Demand(6, 8)),
    replace(_T512_CAUSAL, name="T512 causal", demand=Demand(2.3, 3)),
    Case(
        *("T1024 causal, grouped", 1, 32, 1024, 64),
        kv_heads=4,
        causal=True,
        backward=True,
        demand=Demand(2, 3),
    ),
    replace(_T2048, name="T2048 forward", demand=Demand(1.15, 1.3, bar_avx512=1.0)),
    replace(
        _T2048, name="T2048 causal forward", causal=True, demand=Demand(1.4, 1.7, bar_avx512=1.0)
    ),
    replace(_DECODE, name="decode fp32", demand=Demand(4.5, 7, bandwidth_avx512=0.6)),
    replace(
        _DECODE, name="decode bf16", dtype="bfloat16", demand=Demand(8, 20, bandwidth_avx512=0.6)
    ),
    Case(
        *("packed 4-40, dropout", 128, 4, 40, 32),
        form="packed",
        shortest=4,
        dropout=0.1,
        backward=True,
        demand=Demand(5, 8),
    ),
    replace(
        _T2048,
        name="T2048 forward bf16 / own fp32",
        dtype="bfloat16",
        against="headwise float32",
        demand=Demand(1 / 1.1, 1.0),
    ),
    replace(_T512_CAUSAL, name="T512 causal D80", width=80, demand=_ODD),
    replace(_T512, name="T512 hide (B,1,T,T)", mask="hide", demand=_ODD),
    replace(_T512, name="T512 bias, its gradient", mask="bias", demand=_ODD),
    replace(_T512_CAUSAL, name="T512 window 64", window=64, demand=_ODD),
    replace(_T512_CAUSAL, name="T512 causal fp16", dtype="float16", demand=_ODD),
    replace(_T512_CAUSAL, name="T512 causal sliced", sliced=True, demand=_ODD),
    replace(_DECODE, name="decode fp32 / folded by hand", against="folded"),
    replace(_DECODE, name="decode bf16 / cast by hand", dtype="bfloat16", against="cast"),
    replace(_T512_CAUSAL, name="T512 causal fp16 / cast by hand", dtype="float16", against="cast"),
]


def select(text: str) -> list[Case]:
    """The cases whose name contains the text, upper and lower case being the same."""
    return [case for case in CASES if text.lower() in case.name.lower()]

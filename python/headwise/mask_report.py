"""What `check_masks` found, to read and to ask."""

from dataclasses import dataclass

__all__ = ["MaskCheck", "MaskReport"]


@dataclass(frozen=True)
class MaskCheck:
    """One property under one mask.

    Attributes:
        mask: which mask was in force.
        rule: what should hold.
        ok: whether it does; None where it could not be tried.
        detail: what was found.
    """

    mask: str
    rule: str
    ok: bool | None
    detail: str = ""

    def __str__(self) -> str:
        """Give one line."""
        mark = {True: "ok    ", False: "FAILED", None: "-     "}[self.ok]
        return f"{mark}  {self.mask}: {self.rule}" + f" ({self.detail})" * bool(self.detail)


@dataclass(frozen=True)
class MaskReport:
    """All checks of one module; `print` it.

    Attributes:
        name: of what was checked.
        checks: in the order they were made.
        inverted: the masks that hide what they should show and show what they should hide.
    """

    name: str
    checks: tuple[MaskCheck, ...]
    inverted: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[MaskCheck, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.ok is False)

    def __str__(self) -> str:
        """Give the verdict, a line for each mask that holds, and one for each check that failed."""
        verdict = f"{self.name}: " + (
            "masks hold" if self.ok else f"{len(self.failures)} of {len(self.checks)} checks failed"
        )
        lines = [verdict]
        for mask in dict.fromkeys(check.mask for check in self.checks):
            failed = [check for check in self.failures if check.mask == mask]
            tried = [c for c in self.checks if c.mask == mask and c.ok is not None]
            holds = MaskCheck(mask, f"{len(tried)} checks hold", True)
            lines += [f"  {check}" for check in failed or [holds]]
        if self.inverted:
            lines.append(
                f"  The mask is INVERTED ({', '.join(self.inverted)}): what should be hidden is "
                "seen, and what should be seen is hidden. Negate it."
            )
        return "\n".join(lines)

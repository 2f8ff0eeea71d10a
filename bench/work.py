"""What one side does for one case: a function to time, and its results in comparable form."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Work", "attend"]


@dataclass(frozen=True)
class Work:
    """`run` is what gets timed: it returns the output, then the gradients asked for.

    `comparable` turns one of these into the numbers the other side has too.
    """

    run: Callable[[], list[Tensor]]
    comparable: Callable[[Tensor], Tensor]

    def results(self) -> list[Tensor]:
        """Results of one run, comparable with the other side's."""
        output, *gradients = self.run()
        return [self.comparable(output), *(self.comparable(x) for x in gradients)]


def attend(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], output_gradient: Tensor | None
) -> Callable[[], list[Tensor]]:
    """One attention as training or inference calls it.

    Args:
        function: takes the inputs, gives the output.
        inputs: query, key, value and, where there is one, the bias.
        output_gradient: None: forward only.
    """
    if output_gradient is None:

        def forward() -> list[Tensor]:
            with torch.no_grad():
                return [function(*inputs)]

        return forward

    leaves = [x.detach().requires_grad_() for x in inputs]

    def forward_backward() -> list[Tensor]:
        output = function(*leaves)
        return [output, *torch.autograd.grad(output, leaves, output_gradient)]

    return forward_backward

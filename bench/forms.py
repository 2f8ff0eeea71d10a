"""Ways to train in eager PyTorch that `bench train` compares with. Torch-free."""

__all__ = ["FORMS"]

FORMS = {
    "padded": "eager, random padded batches",
    "sorted": "eager, batches of similar lengths",
    "tuned": "eager, tuned by hand (see docs/benchmarks.md)",
}

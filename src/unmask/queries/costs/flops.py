"""What a row of a model takes in arithmetic, and its weights in memory: counted, not guessed."""

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader, Rows
from unmask.settings import Settings

# rows that are run to count those of a batch: with fewer a model does not spare itself anything
_ROWS_COUNTED = 16


class _Whole(ModuleTracker):
    """The model as a whole: per module, the counter needs gradients of its inputs."""

    def __enter__(self) -> "_Whole":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was entered."""


def row_flop(model: MaskedLM, length: int, batch: int = 1) -> int | None:
    """The FLOP of a row of so many tokens, a multiply-add as two; None if there are none to see.

    Runs a few rows and counts their matrix products, whatever the architecture and whatever of it
    a batch leaves out. The output layer is not counted: elicitation does not run it.
    """
    module = _module(model)
    if module is None:
        return None
    rows = min(batch, _ROWS_COUNTED)
    reader = RowReader(model, Settings(batch_size=rows, progress=False))
    # any tokens: some models make nothing of a row of masks
    ids = (torch.arange(rows * length) % model.vocabulary_size).view(rows, length)
    # the counter knows no fused attention on CPUs: spelled out, its two products are counted
    spelled_out = sdpa_kernel(SDPBackend.MATH)

    def run() -> None:
        reader.each_batch(Rows.of(ids), [length // 2], lambda batch, readouts: None)

    # before it counts: the first rows of a length find out what can be left out, and check it
    run()
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _Whole()
    with torch.inference_mode(), spelled_out, counter:
        run()
    return int(counter.get_total_flops()) // rows or None


def weight_bytes(model: MaskedLM) -> int | None:
    """What the weights of the model take in memory, each shared one once."""
    module = _module(model)
    if module is None:
        return None
    kept = [*module.parameters(), *module.buffers()]
    embedding = model.output_embedding
    if embedding is not None:
        # in float32 it is the model's own; of a smaller type a copy in float32 is kept beside it
        kept.append(embedding.weight)
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
    return sum(storages.values())


def _module(model: MaskedLM) -> nn.Module | None:
    inner = getattr(model, "model", None)
    return inner if isinstance(inner, nn.Module) else None

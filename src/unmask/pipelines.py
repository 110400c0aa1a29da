"""The transformers pipeline `joint-fill-mask`: fill-mask, with blanks filled together.

Importing this module registers the task.
"""

from typing import Any

from transformers import AutoModelForMaskedLM, Pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from unmask.arguments import whole_number
from unmask.errors import PiecesWarning, SupportError, warn
from unmask.language_model import LanguageModel
from unmask.lazy import computed_once
from unmask.loading import load
from unmask.printable import quoted
from unmask.settings import Settings
from unmask.text.cloze import Cloze
from unmask.text.pieces import one_blank_for_each

TASK = "joint-fill-mask"
_FILLS = 5
# its steps are annotated for tensors, which texts and fills are not
_Pipeline: Any = Pipeline


class JointFillMaskPipeline(_Pipeline):  # type: ignore[misc]
    """Fill all blanks of a text together, with the interface of transformers' fill-mask.

    A text gives a list of dictionaries with `score`, `token`, `token_str`, `sequence`,
    `log_prob` and `method`, best first; with several blanks `token` and `token_str` are lists. A
    list of texts gives a list of such lists, but a list of one text gives just the list for that
    text, as in fill-mask.
    Generators and datasets are answered one by one. One blank has the model's own probabilities, as
    in fill-mask, and `mlm` for its method.

    Parameters, when the pipeline is made or in a call: `top_k` (5), `targets` and `piece_prior`,
    `method`, `support`, `blanks`, and the options of the method, all as in `LanguageModel.fill`;
    `batch_size` is the number of inputs that the model runs at once. The default method is that of
    `LanguageModel.fill`, and every fill names its method; `orders` needs no whole tables. Unlike in
    fill-mask, `targets` are words as you would type them in that place, never cut, and a text that
    cannot be used raises an `UnmaskError`, a `ValueError` with a one-line message.
    """

    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    @computed_once
    def language_model(self) -> LanguageModel:
        """The model and tokenizer of this pipeline."""
        return load((self.model, self.tokenizer))

    def __call__(self, inputs: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        """Ranked fills of a text, or of each of several."""
        if isinstance(inputs, list) and not inputs:
            return []
        rows = self._batch_size if batch_size is None else batch_size
        # texts run one by one; their rows are batched
        answers = super().__call__(inputs, batch_size=1, rows=rows, **options)
        return answers[0] if isinstance(inputs, list) and len(inputs) == 1 else answers

    def _sanitize_parameters(
        self, *, rows: int | None = None, blanks: Any = None, **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Split parameters by step; those that are None are as if they were not given."""
        if (top_k := options.pop("top_k", None)) is not None:
            options["top"] = whole_number(top_k)
            if (options["top"] or 0) < 1:
                raise SupportError(f"top_k is a number of fills from 1, not {quoted(top_k)}")
        fill_options = {name: value for name, value in options.items() if value is not None}
        if rows is not None:
            fill_options["settings"] = Settings(batch_size=rows)
        return ({} if blanks is None else {"blanks": blanks}), fill_options, {}

    def preprocess(self, input_: Any, *, blanks: Any = None) -> dict[str, Cloze]:
        """Read a text."""
        return {"cloze": self.language_model.cloze(input_, blanks=blanks)}

    def _forward(
        self,
        input_tensors: dict[str, Cloze],
        *,
        method: str | None = None,
        top: int = _FILLS,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Rank its fills."""
        cloze, note = input_tensors["cloze"], None
        if options.get("targets") is None:
            cloze, note = one_blank_for_each(cloze)
        if note is not None:
            warn(note, PiecesWarning)
        if len(cloze.blank_widths) == 1 and options.get("targets") is None:
            # as in fill-mask, outputs that no token names have their share
            options.setdefault("support", "vocabulary")
        return self.language_model.fill(cloze, top=top, method=method, **options)

    def postprocess(self, model_outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Nothing: fills are ready as they are."""
        return model_outputs


def _register() -> None:
    # transformers would warn of a task that is there already
    PIPELINE_REGISTRY.supported_tasks.pop(TASK, None)
    PIPELINE_REGISTRY.register_pipeline(
        TASK, pipeline_class=JointFillMaskPipeline, pt_model=AutoModelForMaskedLM, type="text"
    )
    # with it, a saved pipeline would hold a copy of this file and be rejected as remote code
    del JointFillMaskPipeline._registered_impl


_register()

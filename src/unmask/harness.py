"""Masked LMs in EleutherAI's lm-evaluation-harness: its model `unmask`.

Importing this module registers it; `python -m unmask.harness` is the harness's own command line
with it. A likelihood is a score of `LanguageModel.score`. Knows nothing of tasks and metrics.
"""

import atexit
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed

from unmask import __version__
from unmask.errors import ClozeError, UnmaskError, UnmaskWarning, warn
from unmask.language_model import LanguageModel
from unmask.loading import load
from unmask.model.devices import gpu_of_process
from unmask.printable import printable, quoted
from unmask.sequences.scores import TextScore
from unmask.sequences.scoring import score_texts
from unmask.sequences.texts import (
    TEXTS_PER_WINDOW,
    TokenisedText,
    in_context,
    tokenised_or_reasons,
)
from unmask.settings import Settings

try:
    from lm_eval.api.model import LM
    from lm_eval.api.registry import model_registry
    from lm_eval.utils import (
        get_rolling_token_windows,
        make_disjoint_window,
        simple_parse_args_string,
    )
except ImportError:
    _WHY = "this needs lm-evaluation-harness: pip install 'unmask[harness]'"
    if __name__ == "__main__":
        sys.exit(f"unmask: {_WHY}")
    raise UnmaskError(_WHY) from None

# what the harness's command line has by default suits other models: one row at a time, on a GPU
_OWN_DEFAULTS = {"--model": "unmask", "--batch_size": "auto", "--device": "auto"}
# processes may wait for the slowest of them for days
_PATIENCE = timedelta(weeks=52)
_NO_TEXT_BEFORE = -1


class UnmaskLM(LM):  # type: ignore[misc]  # the harness has no types
    """A masked LM as lm-evaluation-harness asks it.

    A log-likelihood is the score of a continuation given its context, between the model's special
    tokens. By `unmasking` that is a log-probability among all continuations with equally many
    tokens. `is_greedy` is whether every token was the likeliest where it was scored. A context that
    does not fit loses its beginning.

    Args:
        pretrained: What `unmask.load` takes, or a `LanguageModel`.
        method: How texts are scored, as in `LanguageModel.score`.
        batch_size: Rows that the model runs at once, or "auto"; it changes no number.
        device: Where the model runs. Default: a CUDA GPU if there is one, one per process.
        texts_per_unit: Requests that are scored together, then kept in the harness's cache.
        **options: Options of `unmask.load` (`dtype=`, `revision=`) and of the method (`order=`).
    Raises:
        UnmaskError: There is no such option, or the model cannot be used.
    Examples:
        >>> from unmask.harness import UnmaskLM
        >>> model = UnmaskLM("models/tiny-english", order="surest")
        >>> model.tokenizer_name
        'models__tiny-english'
    """

    def __init__(
        self,
        pretrained: Any,
        *,
        method: str = "unmasking",
        batch_size: int | str | None = None,
        device: str | None = None,
        texts_per_unit: int = 4096,
        **options: Any,
    ) -> None:
        super().__init__()
        self._rank, self._world_size = _place_among_processes()
        scoring = {name: options.pop(name) for name in _SCORING_OPTIONS & set(options)}
        self.lm = _loaded(pretrained, options, _device(device, self._world_size))
        self._device = self.lm.model.device
        self.tokenizer, self.max_length = self.lm.tokenizer, self.lm.max_length
        self._texts_per_unit = max(1, int(texts_per_unit))
        self._batch_size = _batch_size(batch_size)
        self._scoring = {"method": method, **scoring}
        # what cannot be asked for is rejected before any task is built
        score_texts(self.lm, [], settings=Settings(progress=False), **self._scoring)

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: Mapping[str, Any] | None = None
    ) -> "UnmaskLM":
        """From `model_args` as they are written on the command line."""
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: Mapping[str, Any], additional_config: Mapping[str, Any] | None = None
    ) -> "UnmaskLM":
        """From `model_args`, which come before options of the harness."""
        if "pretrained" not in arg_dict:
            raise UnmaskError("model_args name no model; begin them with pretrained=NAME or FOLDER")
        defaults = {k: v for k, v in (additional_config or {}).items() if v is not None}
        # the harness's default, one row at a time, only costs time: no number depends on it
        if str(defaults.get("batch_size")) == "1":
            defaults["batch_size"] = "auto"
        return cls(**{**defaults, **arg_dict})

    # --- what is asked ---------------------------------------------------------------------------

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """The log-likelihood of each continuation given its context, and whether it is greedy."""

        def answer(scores: Sequence[TextScore]) -> tuple[float, bool]:
            (score,) = scores
            return score.score, score.likeliest_tokens == score.tokens

        # without a context it is a whole text, after what begins a text
        texts = self._read(
            [
                in_context([continuation], [context])[0] if context else continuation
                for context, continuation in (request.args for request in requests)
            ]
        )
        parts = [self._shortened(text) for text in texts]
        cut = sum(part is not text for part, text in zip(parts, texts, strict=True))
        if cut:
            warn(
                f"{cut} of {len(texts)} requests are longer than the {self.max_length} tokens that "
                "this model takes: the beginnings of their contexts are left out",
                UnmaskWarning,
            )
        windows = [[part] for part in parts]
        return self._answers("loglikelihood", requests, windows, answer, disable_tqdm)

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """The log-likelihood of each whole text; the windows of one that is too long add up."""

        def answer(scores: Sequence[TextScore]) -> float:
            return float(sum(score.score for score in scores))

        texts = [request.args[0] for request in requests]
        read = iter(self._read([text for text in texts if text]))
        windows = [self._windows(next(read)) if text else [] for text in texts]
        return self._answers("loglikelihood_rolling", requests, windows, answer, disable_tqdm)

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Refused: how many tokens to fill in is not known."""
        raise UnmaskError(
            "a masked language model fills in a number of tokens that is known beforehand, and a "
            "task that generates until a stop does not say how many; choose tasks of likelihoods "
            "(multiple_choice, loglikelihood, loglikelihood_rolling)"
        )

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Refused: masked LMs have no chat template."""
        raise UnmaskError("a masked language model has no chat template; leave it out")

    @property
    def tokenizer_name(self) -> str:
        """The name under which the harness keeps requests."""
        return self.lm.name.replace("/", "__")

    def get_model_info(self) -> dict[str, Any]:
        """Facts of the model for the results, beside its arguments."""
        return {
            "model_revision": self.lm.revision or "",
            "model_dtype": str(getattr(getattr(self.lm.model, "model", None), "dtype", "")),
            "unmask_version": __version__,
            **self._scoring,
        }

    # --- texts that are too long -----------------------------------------------------------------

    def _read(self, texts: list[str]) -> list[TokenisedText]:
        """Every text, of any length; the first that cannot be used is named."""
        read: list[TokenisedText] = []
        for start in range(0, len(texts), TEXTS_PER_WINDOW):
            window = texts[start : start + TEXTS_PER_WINDOW]
            for text, tokenised in zip(
                window, tokenised_or_reasons(self.lm, window, any_length=True), strict=True
            ):
                if isinstance(tokenised, str):
                    raise ClozeError(f"request {len(read)}: {tokenised}: {quoted(text)}")
                read.append(tokenised)
        return read

    def _body(self, text: TokenisedText) -> tuple[range, int]:
        """The positions between the special tokens, and how many the model takes there."""
        special = set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id}
        ordinary = [place for place, token in enumerate(text.ids) if token not in special]
        body = range(ordinary[0], ordinary[-1] + 1)
        beyond = 0 if self.max_length is None else len(text.ids) - self.max_length
        return body, len(body) - max(0, beyond)

    def _shortened(self, text: TokenisedText) -> TokenisedText:
        """The text without as much of its beginning as does not fit."""
        if self.max_length is None or len(text.ids) <= self.max_length:
            return text
        body, room = self._body(text)
        places = body[-room:]
        if places.start > text.places[0]:
            raise ClozeError(
                f"a continuation of {len(text.places)} tokens is longer than the {room} that this "
                f"model takes: {quoted(text.text)}"
            )
        return _part(text, body, places, text.places)

    def _windows(self, text: TokenisedText) -> list[TokenisedText]:
        """The rolling windows of the harness: each token is scored once, the last window is full.

        Where more than one is needed, the first has room for one token less, so that those after it
        can begin with the token before what they score.
        """
        body, room = self._body(text)
        longest = room if len(body) == room else room - 1
        scored, windows = set(text.places), []
        for pair in get_rolling_token_windows(list(body), _NO_TEXT_BEFORE, longest, 1):
            before, scored_here = make_disjoint_window(pair)
            places = [place for place in scored_here if place in scored]
            if places:
                context = [place for place in (*before, *scored_here) if place != _NO_TEXT_BEFORE]
                windows.append(_part(text, body, context, places))
        return windows

    # --- scores ----------------------------------------------------------------------------------

    def _answers(
        self,
        kind: str,
        requests: Sequence[Any],
        windows: Sequence[Sequence[TokenisedText]],
        answer: Callable[[Sequence[TextScore]], Any],
        disable_tqdm: bool,
    ) -> list[Any]:
        """An answer from the scores of each request's windows; those of a unit are kept at once.

        The longest come first, so that texts of one length stand in one unit.
        """
        progress = False if disable_tqdm or self._rank else None
        settings = Settings(batch_size=self._batch_size, progress=progress)
        sizes = [max((len(text.ids) for text in window), default=0) for window in windows]
        numbers = sorted(range(len(requests)), key=sizes.__getitem__, reverse=True)
        answers: dict[int, Any] = {}
        for start in range(0, len(numbers), self._texts_per_unit):
            unit = numbers[start : start + self._texts_per_unit]
            texts = [text for number in unit for text in windows[number]]
            scores = iter(score_texts(self.lm, texts, settings=settings, **self._scoring))
            for number in unit:
                answers[number] = answer([next(scores) for _ in windows[number]])
                self.cache_hook.add_partial(kind, requests[number].args, answers[number])
        return [answers[number] for number in range(len(requests))]

    # --- several processes -----------------------------------------------------------------------

    def all_gather(self, tensor: Tensor) -> Tensor:
        """The tensors of all processes, one after the other."""
        if self._world_size == 1:
            return tensor
        parts: list[Any] = [None] * self._world_size
        distributed.all_gather_object(parts, tensor.cpu())
        return torch.cat([torch.atleast_1d(part) for part in parts]).to(tensor.device)

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        """The objects of all processes, in one of them."""
        if self._world_size == 1:
            return [obj]
        objects: list[Any] | None = [None] * self._world_size if self._rank == dst else None
        distributed.gather_object(obj, objects, dst=dst)
        return objects

    def barrier(self) -> None:
        """Wait for all processes."""
        if self._world_size > 1:
            distributed.barrier()


def _part(
    text: TokenisedText, body: range, inner_places: Sequence[int], scored: Iterable[int]
) -> TokenisedText:
    """Some tokens of a text between its special ones, of which those at `scored` are scored."""
    around = range(body.start), range(body.stop, len(text.ids))
    places = [*around[0], *inner_places, *around[1]]
    rank_at = {place: rank for rank, place in enumerate(text.places)}
    ranks = [rank_at[place] for place in scored]
    low, high = ranks[0], ranks[-1] + 1
    inside = set(text.places[low:high])
    words = (
        replace(word, first=max(word.first, low) - low, last=min(word.last, high) - low)
        for word in text.words
        if word.first < high and word.last > low
    )
    return replace(
        text,
        ids=tuple(text.ids[place] for place in places),
        places=tuple(number for number, place in enumerate(places) if place in inside),
        words=tuple(words),
        unknown_words=(),
    )


# where the harness has scanned entry points, the name already leads to this class
if "unmask" not in model_registry:
    model_registry.register("unmask", target=UnmaskLM)


# --- arguments of a model ------------------------------------------------------------------------


def _options_of(function: Callable[..., Any], *others: str) -> set[str]:
    return set(inspect.signature(function).parameters) - set(others)


_SCORING_OPTIONS = _options_of(score_texts, "lm", "texts", "method", "settings")


def _loaded(pretrained: Any, options: dict[str, Any], device: str | None) -> LanguageModel:
    options = options if device is None else {**options, "device": device}
    allowed = set() if isinstance(pretrained, LanguageModel) else _options_of(load, "model")
    for name in sorted(set(options) - allowed):
        names = sorted({"method", "batch_size", *allowed, *_SCORING_OPTIONS})
        raise UnmaskError(f"no model argument {quoted(name)} here; there are {', '.join(names)}")
    return pretrained if isinstance(pretrained, LanguageModel) else load(pretrained, **options)


def _batch_size(size: int | str | None) -> int | None:
    """A number of rows; None is what suits the device."""
    if size is None or str(size).startswith("auto"):
        return None
    try:
        return Settings(batch_size=int(size)).batch_size
    except ValueError:
        raise UnmaskError(f"batch_size is a number from 1 or auto, not {quoted(size)}") from None


def _device(name: str | None, processes: int) -> str | None:
    """The device that is named, or of several processes each its own GPU."""
    if name not in (None, "auto"):
        return name
    return None if processes == 1 else gpu_of_process(int(os.environ.get("LOCAL_RANK", "0")))


def _place_among_processes() -> tuple[int, int]:
    """The rank of this process and how many there are, as torchrun and accelerate set them."""
    is_launched = {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= set(os.environ)
    if not distributed.is_available() or not (is_launched or distributed.is_initialized()):
        return 0, 1
    if not distributed.is_initialized():
        distributed.init_process_group("gloo", timeout=_PATIENCE)
        atexit.register(distributed.destroy_process_group)
    return distributed.get_rank(), distributed.get_world_size()


# --- the command line ----------------------------------------------------------------------------


def main() -> int:
    """Run the harness's command line, with this model unless another is named."""
    from lm_eval.__main__ import cli_evaluate

    sys.argv = [sys.argv[0], *_with_own_defaults(sys.argv[1:])]
    try:
        cli_evaluate()
    except UnmaskError as error:
        print(f"unmask: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


def _with_own_defaults(arguments: Sequence[str]) -> list[str]:
    """The arguments of an evaluation, with what suits a masked LM where they say nothing."""
    typed_options = {argument.partition("=")[0] for argument in arguments}
    short = {"--model": "-M", "--batch_size": "-b"}
    if not typed_options & {"--tasks", "-t"} or "--config" in typed_options:
        return [*arguments]
    defaults = {
        name: value
        for name, value in _OWN_DEFAULTS.items()
        if not typed_options & {name, short.get(name, name)}
    }
    return [*arguments, *(part for pair in defaults.items() for part in pair)]


if __name__ == "__main__":
    sys.exit(main())

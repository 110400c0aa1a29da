"""A tokenizer that has read some texts before it is asked: together they take less time."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any


class ReadAhead:
    """Answers like the tokenizer; for the texts that were read ahead, at once.

    All other calls go to the tokenizer, whose attributes are looked up once each.
    """

    def __init__(self, tokenizer: Any, texts: Iterable[str]) -> None:
        self._tokenizer, distinct = tokenizer, list(dict.fromkeys(texts))
        self._ids: dict[str, list[int]] = {}
        if tokenizer.is_fast and distinct:
            unread = {"return_attention_mask": False, "return_token_type_ids": False}
            # a text that it cannot read fails again, on its own, and is explained there
            with suppress(Exception):
                ids = tokenizer(distinct, verbose=False, **unread)["input_ids"]
                self._ids = dict(zip(distinct, ids, strict=True))

    def __call__(self, text: str, **options: Any) -> Mapping[str, Any]:
        ids = None if any(options.values()) else self._ids.get(text)
        return self._tokenizer(text, **options) if ids is None else {"input_ids": ids}

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._tokenizer, name)
        self.__dict__[name] = attribute
        return attribute

"""A masked LM with its tokenizer: texts become clozes, words become places on an axis."""

from collections.abc import Sequence
from functools import cached_property

from unmask import unknown_tokens
from unmask.cloze import Blank, Cloze, Tokenizer, parse_cloze
from unmask.errors import ClozeError, PiecesWarning, UnknownTokenWarning, warn
from unmask.masked_lm import MaskedLM
from unmask.pieces import wide_blanks
from unmask.printable import printable, quoted
from unmask.support import Support
from unmask.vocabulary import (
    Candidates,
    CandidatesByBlank,
    choose,
    choose_each,
    whole_vocabulary,
)


class TokenizedModel:
    """A masked LM that reads texts; what is asked about them is `LanguageModel`'s."""

    def __init__(
        self,
        model: MaskedLM,
        tokenizer: Tokenizer,
        *,
        name: str = "masked LM",
        revision: str | None = None,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.name, self.revision = name, revision

    def __repr__(self) -> str:
        """Name, vocabulary and place."""
        kept = "factored" if self.model.output_embedding is not None else "dense"
        return (
            f"<LanguageModel {printable(self.name)}: {self.model.vocabulary_size:,} tokens, "
            f"{kept} tables, {self.model.device}>"
        )

    def cloze(self, text: str, *, blanks: Sequence[Blank] | None = None) -> Cloze:
        """Read a text with mask tokens, or an ordinary text with `blanks`.

        What the vocabulary has no token for is named in an `UnknownTokenWarning`; a text of which
        it knows nothing is rejected, for an answer would be to any text of that length.
        """
        cloze = self.read(text, blanks=blanks)
        if said := unknown_tokens.note(self.tokenizer, cloze):
            warn(said, UnknownTokenWarning)
        return cloze

    def read(self, text: str, *, blanks: Sequence[Blank] | None = None) -> Cloze:
        """As `cloze`, for callers that say themselves what is unknown: `Cloze.unknown` has it."""
        return self._checked(
            parse_cloze(text, self.tokenizer, blanks=blanks, max_length=self.max_length)
        )

    def _checked(self, cloze: Cloze) -> Cloze:
        """Refuse a cloze that this model cannot run, wherever it was made."""
        places = cloze.positions
        if not places or len(set(places)) < len(places) or max(places) >= len(cloze.ids):
            raise ClozeError(
                f"the positions of a cloze are distinct places of its {len(cloze.ids)} tokens, not "
                f"{quoted(places)}"
            )
        beyond = [
            t for t in cloze.ids if t >= self.model.vocabulary_size and t != self.model.mask_id
        ]
        if beyond:
            raise ClozeError(
                f"the tokenizer gives token id {beyond[0]}, but the model knows "
                f"{self.model.vocabulary_size}; they do not belong together"
            )
        return cloze

    def support(self, candidates: Candidates = "vocabulary") -> Support:
        """The tokens of a blank: a named set, or the given tokens or ids in their order."""
        return choose(candidates, self._vocabulary, self.model.special_ids)

    def _supports(self, spec: CandidatesByBlank, blanks: int) -> tuple[Support, ...]:
        return choose_each(spec, blanks, self._vocabulary, self.model.special_ids)

    def _provenance(self, cloze: Cloze) -> dict[str, object]:
        return {
            "model": self.name,
            "revision": self.revision,
            "text": cloze.text,
            "positions": list(cloze.positions),
            "pieces": list(cloze.blank_widths),
            "unknown_tokens": list(cloze.unknown),
        }

    def _as_cloze(
        self,
        text: str | Cloze,
        blanks: Sequence[Blank] | None = None,
        *,
        words_as_blanks: bool = False,
    ) -> Cloze:
        """A text as a cloze, with a warning where a blank is several pieces.

        Whoever makes the cloze first has seen how many blanks there are, and with words to fill in
        (`words_as_blanks`) each is one, however wide.
        """
        if isinstance(text, Cloze):
            return self._given(text, blanks)
        cloze = self.cloze(text, blanks=blanks)
        if not words_as_blanks and (said := wide_blanks(cloze, self.tokenizer)):
            warn(said, PiecesWarning)
        return cloze

    def _given(self, cloze: Cloze, blanks: Sequence[Blank] | None = None) -> Cloze:
        if blanks is not None:
            raise ClozeError("a cloze has its blanks already; give blanks= with a plain text")
        checked = self._checked(cloze)
        if any(cloze.ids[p] != self.model.mask_id for p in cloze.positions):
            raise ClozeError("the cloze was made for a model with another mask token")
        return checked

    @cached_property
    def max_length(self) -> int | None:
        """The longest text in tokens, special ones included; None if there is no limit."""
        # tokenizers that know no limit say so with an absurdly large number
        said = getattr(self.tokenizer, "model_max_length", None)
        limits = [self.model.max_length, said if isinstance(said, int) and said < 10**6 else None]
        return min((limit for limit in limits if limit), default=None)

    @cached_property
    def _vocabulary(self) -> Support:
        return whole_vocabulary(self.tokenizer, self.model.vocabulary_size)

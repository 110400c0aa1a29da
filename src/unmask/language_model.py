"""What a person holds: a masked LM with its tokenizer, and the questions it answers."""

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from jaxtyping import Float
from torch import Tensor

from unmask.cloze import Blank, Cloze, Tokenizer, parse_cloze
from unmask.constructions import (
    CONSTRUCTIONS,
    DEFAULT_METHOD,
    check_methods,
    construct,
    method_name,
)
from unmask.constructions.besag import check_pivot
from unmask.costs.cost import Cost
from unmask.costs.estimate import FEW_PASSES, estimate
from unmask.costs.needs import Options, by_appetite
from unmask.elicit import ElicitedSource, Settings
from unmask.errors import ClozeError
from unmask.joint import Joint
from unmask.masked_lm import MaskedLM
from unmask.printable import printable
from unmask.questions import Clozes, places_of
from unmask.scoring import pair_log_probs, rows_per_text
from unmask.single import own_distribution
from unmask.support import Support, Token
from unmask.tables import PairTables
from unmask.vocabulary import (
    Candidates,
    CandidatesByBlank,
    choose,
    choose_each,
    whole_vocabulary,
)

# a run longer than this announces its cost first
_LONG_SECONDS = 10.0


class LanguageModel:
    """A masked LM and its tokenizer: texts with blanks in, joints out."""

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
        """Read a text with mask tokens, or an ordinary text with `blanks`."""
        return self._checked(
            parse_cloze(text, self.tokenizer, blanks=blanks, max_length=self.max_length)
        )

    def _checked(self, cloze: Cloze) -> Cloze:
        """Refuse a cloze that this model cannot run, wherever it was made."""
        if len(cloze.positions) > 2:
            raise ClozeError(f"the text has {len(cloze.positions)} blanks; joints take one or two")
        beyond = [
            t for t in cloze.ids if t >= self.model.vocabulary_size and t != self.model.mask_id
        ]
        if beyond:
            raise ClozeError(
                f"the tokenizer gives token id {beyond[0]}, but the model knows "
                f"{self.model.vocabulary_size}; they do not belong together"
            )
        return cloze

    def joint(
        self,
        text: str | Cloze,
        *,
        method: str = DEFAULT_METHOD,
        blanks: Sequence[Blank] | None = None,
        support: CandidatesByBlank = "vocabulary",
        settings: Settings | None = None,
        **options: Any,
    ) -> Joint:
        """The joint distribution over the blanks of a text, by one construction.

        `support` is "vocabulary" (every output of the model, as in the paper), "no-special",
        a list of tokens or ids, or a dictionary of those by blank. `options` go to the
        construction (`pivot=`, `steps=`, `contexts=`). Axes follow mask tokens left to right, and
        `blanks` in the order given. One blank is the model's own distribution.
        """
        name = method_name(method)
        return self.joints(
            text,
            methods=[name],
            blanks=blanks,
            support=support,
            settings=settings,
            options={name: options},
        )[name]

    def joints(
        self,
        text: str | Cloze,
        *,
        methods: Sequence[str] = tuple(CONSTRUCTIONS),
        blanks: Sequence[Blank] | None = None,
        support: CandidatesByBlank = "vocabulary",
        settings: Settings | None = None,
        options: Options | None = None,
    ) -> dict[str, Joint]:
        """Joints by several constructions from one elicitation.

        `options` are those of each method, by its name. With one blank there is nothing to
        construct: every name stands for the model's own distribution.
        """
        names, chosen = check_methods(methods, options)
        cloze = self._as_cloze(text, blanks)
        axes = self._supports(support, len(cloze.positions))
        check_pivot(chosen.get("hcb", {}), axes)
        if len(cloze.positions) == 1:
            return dict.fromkeys(
                names, own_distribution(self.model, cloze, axes[0], self._provenance(cloze))
            )
        tables = self.tables(cloze, support=support, settings=settings)
        self._announce(cloze, names, axes, settings or Settings(), chosen)
        if not self._is_whole(axes):
            # how much of the model's mass the candidates hold belongs beside their probabilities
            tables.masked  # noqa: B018
        built = {n: construct(n, tables, **chosen.get(n, {})) for n in by_appetite(names, chosen)}
        return {name: built[name] for name in names}

    def tables(
        self,
        text: str | Cloze,
        *,
        blanks: Sequence[Blank] | None = None,
        support: CandidatesByBlank = "vocabulary",
        settings: Settings | None = None,
    ) -> PairTables:
        """Both conditional tables of two blanks; nothing runs until a part is asked for."""
        cloze = self._as_cloze(text, blanks)
        if len(cloze.positions) != 2:
            raise ClozeError(f"tables take two blanks; the text has {len(cloze.positions)}")
        axes = self._supports(support, 2)
        how, about = settings or Settings(), self._provenance(cloze)
        source = ElicitedSource(self.model, cloze, (axes[0], axes[1]), how, provenance=about)
        limit, half = how.memory_limit, how.half_tables
        return PairTables(source, memory_limit=limit, half_copies=half, progress=how.progress)

    def fill(
        self,
        text: str | Cloze,
        *,
        top: int = 5,
        method: str = DEFAULT_METHOD,
        blanks: Sequence[Blank] | None = None,
        support: CandidatesByBlank = "vocabulary",
        settings: Settings | None = None,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Ranked joint fills with the keys of transformers' fill-mask; lists for two blanks."""
        cloze = self._as_cloze(text, blanks)
        joint = self.joint(cloze, method=method, support=support, settings=settings, **options)
        return self.ranked(cloze, joint, top)

    def log_prob(
        self,
        texts: Sequence[str | Cloze],
        pairs: Sequence[Sequence[Token]],
        *,
        method: str = "orders",
        support: CandidatesByBlank = "vocabulary",
        settings: Settings | None = None,
        **options: Any,
    ) -> Float[Tensor, " texts"]:
        """The log-probability of a pair of tokens in every text, in float64: the way for millions.

        `method` is "orders" (3 forward passes a text), "sweep" (2 * contexts + 3, options
        `contexts=`, `floor=`) or "mlm" (1): the joints that need no tables. Rows of all texts run
        together, in batches of equal length.
        """
        axes, name = self._supports(support, 2), method_name(method)
        rows_per_text(name, (axes[0], axes[1]), options)
        return pair_log_probs(
            self.model,
            pairs=places_of(pairs, (axes[0], axes[1])),
            clozes=Clozes(texts, pairs, self._as_cloze),
            supports=(axes[0], axes[1]),
            settings=settings or Settings(),
            method=name,
            options=options,
        )

    def ranked(self, cloze: Cloze, joint: Joint, top: int = 5) -> list[dict[str, Any]]:
        """The likeliest fills of a joint, written into its text."""
        single = len(cloze.positions) == 1
        results = []
        for fill in joint.top(top):
            texts = [self.tokenizer.decode([token]) for token in fill.ids]
            results.append(
                {
                    "score": fill.probability,
                    "token": fill.ids[0] if single else list(fill.ids),
                    "token_str": texts[0] if single else texts,
                    "sequence": self.sequence(cloze, fill.ids),
                }
            )
        return results

    def sequence(self, cloze: Cloze, tokens: Sequence[int]) -> str:
        """The text of a cloze with tokens written into its blanks."""
        return self.tokenizer.decode(cloze.filled(tokens), skip_special_tokens=True)

    def cost(
        self,
        text: str | Cloze,
        *,
        methods: Sequence[str] = (DEFAULT_METHOD,),
        blanks: Sequence[Blank] | None = None,
        support: CandidatesByBlank = "vocabulary",
        settings: Settings | None = None,
        options: Options | None = None,
        examples: int = 1,
    ) -> Cost:
        """What `joints` would cost a text, one of `examples`; times the model for a second."""
        cloze = self._as_cloze(text, blanks)
        axes = self._supports(support, len(cloze.positions))
        names, chosen = check_methods(methods, options)
        how = settings or Settings()
        return estimate(self.model, cloze, names, axes, how, chosen, examples=examples)

    def support(self, candidates: Candidates = "vocabulary") -> Support:
        """The tokens of a blank: a named set, or the given tokens or ids in their order."""
        return choose(candidates, self._vocabulary, self.model.special_ids)

    def _supports(self, spec: CandidatesByBlank, blanks: int) -> tuple[Support, ...]:
        return choose_each(spec, blanks, self._vocabulary, self.model.special_ids)

    def _is_whole(self, axes: tuple[Support, ...]) -> bool:
        return all(axis.is_whole(self.model.vocabulary_size) for axis in axes)

    def _provenance(self, cloze: Cloze) -> dict[str, object]:
        return {
            "model": self.name,
            "revision": self.revision,
            "text": cloze.text,
            "positions": list(cloze.positions),
        }

    def _announce(
        self,
        cloze: Cloze,
        methods: list[str],
        axes: tuple[Support, ...],
        settings: Settings,
        options: Options,
    ) -> None:
        """Say what a long run costs before it starts, on whatever stderr is."""
        if not settings.announce or settings.progress is False:
            return
        cost = estimate(
            self.model, cloze, methods, axes, settings, options, measured_above=FEW_PASSES
        )
        if cost.seconds is not None and cost.seconds > _LONG_SECONDS:
            print(f"{', '.join(methods)}: {cost}", file=sys.stderr)

    def _as_cloze(self, text: str | Cloze, blanks: Sequence[Blank] | None = None) -> Cloze:
        if isinstance(text, Cloze):
            if blanks is not None:
                raise ClozeError("a cloze has its blanks already; give blanks= with a plain text")
            if any(text.ids[p] != self.model.mask_id for p in text.positions):
                raise ClozeError("the cloze was made for a model with another mask token")
            return self._checked(text)
        return self.cloze(text, blanks=blanks)

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

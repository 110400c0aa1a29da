"""A masked LM with its tokenizer, and the queries that it answers: the main class."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, SupportsIndex

from jaxtyping import Float
from torch import Tensor

from unmask.arguments import Options, whole_number
from unmask.constructions import (
    DEFAULT_METHOD,
    METHOD_WITHOUT_TABLES,
    check_methods,
    check_options,
    construction,
    method_name,
)
from unmask.errors import (
    ClozeError,
    MethodError,
    PiecesWarning,
    SupportError,
    UnknownTokenWarning,
    warn,
)
from unmask.joints.fill import Fill
from unmask.joints.joint import Joint
from unmask.lazy import computed_once
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader
from unmask.names import ALPHABETS
from unmask.printable import printable, quoted
from unmask.queries import fill_mask_output as fill_results
from unmask.queries.costs.cost import Cost
from unmask.queries.dependence.dependence_map import DependenceMap
from unmask.queries.dependence.mapping import dependence_maps
from unmask.queries.dependence.question import (
    DEFAULT_MEASURE,
    DEFAULT_SAMPLES,
    DependenceOptions,
    DependenceQuestion,
    check_support,
    question_of,
)
from unmask.queries.dependence.together import (
    SAMPLES_WHEN_FILLING,
    check_bound,
    fill_together,
    independent_groups,
)
from unmask.queries.joints import (
    JointRequest,
    build_joints,
    cost,
    default_method,
    default_methods,
    joint_request,
)
from unmask.queries.pair_log_probs import (
    checked_clozes,
    pair_log_probs,
    places_of,
    rows_per_text,
)
from unmask.queries.sampling.gibbs import (
    DEFAULT_CHAINS,
    DEFAULT_WARM_UP,
    check_counts,
    sample_blanks,
)
from unmask.queries.sampling.samples import Samples
from unmask.queries.word_targets import PiecePrior, Targets, WordFill, WordQuestion, fill_targets
from unmask.settings import Settings, Sketch
from unmask.tables.elicited import ElicitedSource
from unmask.tables.pair_tables import PairTables
from unmask.tables.proposals import AUTO, choose_axes, is_auto, resolved
from unmask.text import unknown_tokens
from unmask.text.candidates import (
    Candidates,
    CandidatesByBlank,
    choose,
    choose_each,
    whole_vocabulary,
)
from unmask.text.cloze import Blank, Cloze, Tokenizer, checked_text, parse_cloze
from unmask.text.pieces import blanks_of, one_blank_for_each
from unmask.text.residues import residues_as_blanks
from unmask.text.support import Support, Token
from unmask.text.words import every_word

# candidates, or how many of them the model is to propose: for all blanks, or by blank
Proposed = Candidates | SupportsIndex
# or a sketch of the vocabulary
Axes = Proposed | Mapping[int, Proposed] | Sketch


def _check_no_sketch(support: object, why: str) -> None:
    if isinstance(support, Sketch):
        raise SupportError(
            f"{why}; a Sketch is for joint and fill: give 'vocabulary', a number of candidates or "
            "a list"
        )


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
        """Read a text with mask tokens, or an ordinary text with `blanks`.

        A word of several pieces becomes one blank per piece, so the original word has a
        probability; in a text given to `joint` with `blanks`, it becomes one blank.

        An `UnknownTokenWarning` names the parts that the vocabulary has no token for. A text that
        consists only of such parts is rejected, since any other text of that length would get the
        same answer.
        """
        cloze = self.read(text, blanks=blanks)
        if message := unknown_tokens.note(self.tokenizer, cloze):
            warn(message, UnknownTokenWarning)
        return cloze

    def read(self, text: str, *, blanks: Sequence[Blank] | None = None) -> Cloze:
        """Like `cloze`, but without a warning: `Cloze.unknown` has the unknown parts."""
        cloze = parse_cloze(text, self.tokenizer, blanks=blanks, max_length=self.max_length)
        return self._checked(cloze)

    def support(self, candidates: Candidates = "vocabulary") -> Support:
        """The tokens of a blank: a named set, or the given tokens or ids in their order."""
        return choose(candidates, self._vocabulary, self.model.special_ids)

    @computed_once
    def max_length(self) -> int | None:
        """The longest text in tokens, special ones included; None if there is no limit."""
        # tokenizers that know no limit say so with an absurdly large number
        said = getattr(self.tokenizer, "model_max_length", None)
        limits = [self.model.max_length, said if isinstance(said, int) and said < 10**6 else None]
        return min((limit for limit in limits if limit), default=None)

    def joint(
        self,
        text: str | Cloze,
        *,
        method: str | None = None,
        blanks: Sequence[Blank] | None = None,
        support: Axes = AUTO,
        settings: Settings | None = None,
        **options: Any,
    ) -> Joint:
        """The joint distribution over the blanks of a text, by one construction.

        `support` is "vocabulary" (every output of the model, as in the paper), "tokens" (those that
        the tokenizer names), "no-special", an alphabet ("amino-acids"), a list of tokens or ids, a
        number of candidates that the model proposes, or a dictionary of those by blank. "auto" is
        "tokens"; for two blanks, unless it is small, it is estimated from a few hundred forward
        passes, with error bars (a `Sketch`, whose precision you can set). For more blanks it is as
        many candidates as a few thousand forward passes allow. The default `method` is log-pool, or
        `orders` if there are too many blanks for a table. `options` go to the construction
        (`pivot=`, `steps=`, `contexts=`). Axes follow mask tokens left to right, and `blanks` in
        the order given. One blank is the model's own distribution.
        """
        name = None if method is None else method_name(method)
        cloze = self._as_cloze(text, blanks)
        count = len(cloze.positions)
        name = name or default_method(count, support)
        check_options(name, options, max(2, count))
        axes = resolved(support, count, self.model.vocabulary_size)
        request = joint_request(cloze, {name: options}, axes, settings, self._provenance(cloze))
        return build_joints(request, self.model, self._vocabulary)[name]

    def joints(
        self,
        text: str | Cloze,
        *,
        methods: Sequence[str] | None = None,
        blanks: Sequence[Blank] | None = None,
        support: Axes = AUTO,
        settings: Settings | None = None,
        options: Options | None = None,
    ) -> dict[str, Joint]:
        """Joints by several constructions from the same forward passes; by default, by all.

        `options` are those of each method, by its name. With one blank there is nothing to
        construct: every name gives the model's own distribution.
        """
        cloze = self._as_cloze(text, blanks)
        request = self._request(cloze, methods, support, settings, options)
        return build_joints(request, self.model, self._vocabulary)

    def tables(
        self,
        text: str | Cloze,
        *,
        blanks: Sequence[Blank] | None = None,
        support: Axes = AUTO,
        settings: Settings | None = None,
    ) -> PairTables:
        """Both conditional tables of two blanks, over the `support` that `joint` takes.

        If the model should propose candidates, it does so now; nothing else runs until a part is
        read.
        """
        cloze, how = self._as_cloze(text, blanks), settings or Settings()
        if len(cloze.positions) != 2:
            raise ClozeError(f"tables take two blanks; the text has {blanks_of(cloze)}")
        _check_no_sketch(support, "tables are whole")
        axes = choose_axes(self.model, self._vocabulary, cloze, support, how)
        reader = RowReader(self.model, how, forward_passes=axes.forward_passes)
        about = {**self._provenance(cloze), **axes.diagnostics()}
        return PairTables(ElicitedSource(reader, cloze, axes.supports, about), how)

    def fill(
        self,
        text: str | Cloze,
        *,
        top: int = 5,
        method: str | None = None,
        blanks: Sequence[Blank] | None = None,
        support: Axes = AUTO,
        targets: Targets | None = None,
        piece_prior: PiecePrior | None = None,
        together: float | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Ranked joint fills with the keys of transformers' fill-mask; lists for several blanks.

        Each fill also names its `method`, since constructions give different probabilities. With
        one blank it is `mlm`, the model's own distribution, whatever the method.

        `targets` are words: one list for all blanks, a list per blank, or a dictionary by blank.
        They are tokenised in their place in the text and never cut; a word of several pieces has
        the probability of all of them together (the default `method` is then `orders`). Words with
        different numbers of pieces can be ranked only with a `piece_prior`. Blanks without targets
        range over single tokens that the model proposes.

        `together` is a number of bits: instead of ranking fills, it fills the blanks group by
        group, as `independent_blanks` finds them with this bound, each blank with its likeliest
        token given the groups before. One fill comes back, with its `groups`.
        """
        cloze = self._as_cloze(text, blanks, words_as_blanks=targets is not None)
        if together is not None:
            others = {"method": method, "targets": targets, "piece_prior": piece_prior, **options}
            for name, given in others.items():
                if given is not None:
                    raise MethodError(f"together fills blank by blank and takes no {name}")
            return [self._filled_together(cloze, together, support, settings or Settings())]
        if whole_number(top) is None or top < 1:
            raise SupportError(f"top takes a number of fills from 1, not {quoted(top)}")
        if targets is not None:
            if not is_auto(support):
                raise SupportError(
                    "support and targets both restrict what a blank may hold; give one of them"
                )
            name = METHOD_WITHOUT_TABLES if method is None else method_name(method)
            fills = self._word_fills(cloze, targets, piece_prior, name, settings, options)
            return fill_results.of_words(self.tokenizer, fills[:top], name)
        if piece_prior is not None:
            raise ClozeError("a piece prior ranks targets of several numbers of pieces; give both")
        joint = self.joint(cloze, method=method, support=support, settings=settings, **options)
        return self.ranked(cloze, joint, top)

    def sample(
        self,
        text: str | Cloze,
        n: int,
        *,
        method: str | None = None,
        blanks: Sequence[Blank] | None = None,
        support: Axes = "vocabulary",
        chains: int = DEFAULT_CHAINS,
        warm_up: int = DEFAULT_WARM_UP,
        thin: int = 1,
        seed: int = 0,
        settings: Settings | None = None,
        **options: Any,
    ) -> Samples:
        """`n` draws of all blanks together, with effective sample size and R-hat.

        One blank is drawn from the model's own distribution, two from their exact joint over
        `support`, independently. That takes two forward passes per token of the vocabulary, unless
        you give candidates or `method="orders"`. More are drawn two at a time from their joint
        given the others (block Gibbs), by default by `orders`, two forward passes per update over
        the whole vocabulary; another construction needs a smaller `support`. `Samples.method` names
        it.
        """
        cloze, how = self._as_cloze(text, blanks), settings or Settings()
        several = len(cloze.positions) > 2
        check_counts(n=(n, 1), chains=(chains, 1), warm_up=(warm_up, 0), thin=(thin, 1))
        _check_no_sketch(support, "samples are drawn from a whole joint")
        axes = choose_axes(self.model, self._vocabulary, cloze, support, how)
        drawn = sample_blanks(
            self.model,
            cloze,
            axes.supports,
            n,
            method=method or (METHOD_WITHOUT_TABLES if several else DEFAULT_METHOD),
            chains=chains,
            warm_up=warm_up,
            thin=thin,
            seed=seed,
            settings=how,
            options=options,
        )
        passes = drawn.forward_passes + axes.forward_passes
        return replace(drawn, forward_passes=passes, unknown_tokens=cloze.unknown)

    def log_prob(
        self,
        texts: Sequence[str | Cloze],
        pairs: Sequence[Sequence[Token]],
        *,
        method: str | None = None,
        support: CandidatesByBlank = "vocabulary",
        settings: Settings | None = None,
        **options: Any,
    ) -> Float[Tensor, " texts"]:
        """The log-probability, in nats, of a pair of tokens in every text; suits millions of texts.

        You name the `method`, because the default of `joint` is too expensive here: "orders" (3
        forward passes per text), "sweep" (2 * contexts + 3, options `contexts=`, `floor=`) or "mlm"
        (1), the joints that need no tables. `joint(text, method="orders")` gives the same numbers.
        In float64. The forward passes of all texts run together, in batches of equal length.
        """
        if method is None:
            raise MethodError(
                "no construction is affordable for many texts by default: name a method, "
                "'orders' (3 forward passes per text), 'sweep' or 'mlm'"
            )
        name = method_name(method)
        first, second = choose_each(support, 2, self._vocabulary, self.model.special_ids)
        rows_per_text(name, (first, second), options)
        return pair_log_probs(
            self.model,
            pairs=places_of(pairs, (first, second)),
            clozes=checked_clozes(texts, pairs, self._read_quietly, self.tokenizer),
            supports=(first, second),
            settings=settings or Settings(),
            method=name,
            options=options,
        )

    def dependence(
        self,
        text: str | Cloze,
        *,
        measure: str = DEFAULT_MEASURE,
        places: Sequence[Blank] | None = None,
        support: Candidates = "vocabulary",
        samples: int = DEFAULT_SAMPLES,
        window: int | None = None,
        seed: int = 0,
        settings: Settings | None = None,
    ) -> DependenceMap:
        """How strongly every two words of a text depend on each other, in this model.

        - "mutual-information", in bits: with both words masked, how far filling one moves the
          model's distribution of the other, averaged over `samples` fills and both directions.
          Exact if the support has no more tokens than that, otherwise with standard errors.
        - "pmi", in nats: of the two words that stand there, how much likelier each becomes when the
          other is known. The cheapest: one forward pass per pair.
        - "jacobian", in nats: with the text as it stands, how far writing each of `samples` tokens
          at one place moves the log-probabilities at all others, read in the same forward pass.

        `places` are what `blanks` are in `joint`: words, spans or token indices; by default all
        words. A word of several pieces is one place. In a text with mask tokens the blanks are the
        places, and stay masked. "amino-acids", "nucleotides" or "rna" as `support` makes the text a
        sequence of residues. `window` leaves out pairs that are further apart.
        """
        return next(
            self.dependence_maps(
                [text],
                measure=measure,
                places=None if places is None else [places],
                support=support,
                samples=samples,
                window=window,
                seed=seed,
                settings=settings,
            )
        )

    def independent_blanks(
        self,
        text: str | Cloze,
        *,
        at_most: float = 0.05,
        support: Candidates = "vocabulary",
        samples: int = DEFAULT_SAMPLES,
        seed: int = 0,
        settings: Settings | None = None,
    ) -> list[tuple[int, ...]]:
        """Which blanks may be filled at the same time: groups of them, the surest first.

        No two blanks of a group share more than `at_most` bits, by the `dependence` of the text
        with all blanks masked. Groups are made greedily, so that each is as large as it can be
        after those before it.
        """
        bound = check_bound(at_most)
        how = DependenceOptions("mutual-information", self.support(support), samples, seed=seed)
        question = question_of(replace(self._as_cloze(text), gold=None), self.tokenizer)
        reader = RowReader(self.model, settings or Settings())
        return independent_groups(reader, question, how, bound)[0]

    def dependence_maps(
        self,
        texts: Iterable[str | Cloze],
        *,
        measure: str = DEFAULT_MEASURE,
        places: Iterable[Sequence[Blank]] | None = None,
        support: Candidates = "vocabulary",
        samples: int = DEFAULT_SAMPLES,
        window: int | None = None,
        seed: int = 0,
        settings: Settings | None = None,
    ) -> Iterator[DependenceMap]:
        """`dependence` of many texts, in their order: forward passes of several run together.

        Texts are read as you iterate, so there may be any number of them. `places` are those of
        each text.
        """
        how = DependenceOptions(measure, self.support(support), samples, window, seed)
        check_support(how.measure, support)

        def questions() -> Iterator[DependenceQuestion]:
            each = iter(repeat(None) if places is None else places)
            for number, text in enumerate(texts):
                if (chosen := next(each, ())) == ():
                    raise ClozeError(f"text {number} has no places; give those of each text")
                question = self.dependence_question(text, places=chosen, support=support)
                how.check(question, f"text {number}")
                yield question
            if places is not None and next(each, None) is not None:
                raise ClozeError("there are more places than texts; give those of each text")

        return dependence_maps(self.model, questions(), how, settings or Settings(), name=self.name)

    def dependence_question(
        self,
        text: str | Cloze,
        *,
        places: Sequence[Blank] | None = None,
        support: Candidates = "vocabulary",
    ) -> DependenceQuestion:
        """A text with the places that `dependence` is between, checked; the model does not run."""
        if isinstance(text, Cloze):
            # its blanks were chosen, as places are
            return question_of(self._given(text, places), self.tokenizer, is_chosen=True)
        is_whole = self.tokenizer.mask_token not in checked_text(text)
        if is_whole and isinstance(support, str) and support in ALPHABETS and support != "digits":
            written, blanks, names = residues_as_blanks(
                self.tokenizer, text, self._vocabulary.names, places
            )
            cloze = self.cloze(written, blanks=blanks)
            return question_of(cloze, self.tokenizer, names, is_chosen=places is not None)
        every = every_word(text, self.tokenizer) if places is None and is_whole else places
        cloze = self.cloze(text, blanks=every)
        return question_of(cloze, self.tokenizer, is_chosen=places is not None)

    def ranked(self, cloze: Cloze, joint: Joint, top: int = 5) -> list[dict[str, Any]]:
        """The likeliest fills of a joint, written into its text."""
        return fill_results.of_tokens(self.tokenizer, cloze, joint.top(top), joint.method)

    def cost(
        self,
        text: str | Cloze,
        *,
        methods: Sequence[str] | None = None,
        blanks: Sequence[Blank] | None = None,
        support: Axes = AUTO,
        settings: Settings | None = None,
        options: Options | None = None,
        examples: int = 1,
        timed: bool = True,
    ) -> Cost:
        """What joints would cost per text, out of `examples`; times the model for a second.

        By default the `methods` are that of `joint`. Unless `timed`, nothing runs, and neither FLOP
        nor seconds are known.
        """
        cloze = self._as_cloze(text, blanks)
        named = methods or [default_method(len(cloze.positions), support)]
        request = self._request(cloze, named, support, settings, options)
        return cost(request, self.model, self._vocabulary, examples=examples, timed=timed)

    def _request(
        self,
        cloze: Cloze,
        methods: Sequence[str] | None,
        support: Axes,
        settings: Settings | None,
        options: Options | None,
    ) -> JointRequest:
        """Constructions by their names, all that fit where none are named."""
        blanks = len(cloze.positions)
        axes = resolved(support, blanks, self.model.vocabulary_size)
        named = default_methods(blanks, axes) if methods is None else methods
        checked = check_methods(named, options, max(2, blanks))[1]
        return joint_request(cloze, checked, axes, settings, self._provenance(cloze))

    def _word_fills(
        self,
        cloze: Cloze,
        targets: Targets,
        piece_prior: PiecePrior | None,
        method: str,
        settings: Settings | None,
        options: Mapping[str, Any],
    ) -> list[WordFill]:
        check_options(method, options)
        if options and not construction(method).needs((2, 2), {}).whole:
            raise MethodError(f"{method} of targets takes no option {quoted(next(iter(options)))}")
        how, size = settings or Settings(), self.max_length
        return fill_targets(
            WordQuestion(self.model, self.tokenizer, self._vocabulary, cloze, how, size),
            targets,
            method=method,
            piece_prior=piece_prior,
            joint_of=lambda wide: self.joint(
                wide, method=method, support="vocabulary", settings=settings, **options
            ),
        )

    def _filled_together(
        self, cloze: Cloze, at_most: float, support: Axes, settings: Settings
    ) -> dict[str, Any]:
        bound = check_bound(at_most)
        if isinstance(support, Mapping | Sketch) or whole_number(support) is not None:
            raise SupportError(
                "together takes one support for all blanks: 'vocabulary', 'tokens', 'no-special', "
                f"an alphabet or a list of tokens, not {quoted(support)}"
            )
        given = "tokens" if is_auto(support) else support
        axis = choose(given, self._vocabulary, self.model.special_ids)
        how = DependenceOptions("mutual-information", axis, SAMPLES_WHEN_FILLING)
        question = question_of(replace(cloze, gold=None), self.tokenizer)
        found = fill_together(RowReader(self.model, settings), question, how, bound)
        ids = tuple(int(axis.ids[place]) for place in found.tokens)
        fill = Fill(tuple(axis.names[place] for place in found.tokens), ids, found.log_prob)
        (ranked,) = fill_results.of_tokens(self.tokenizer, cloze, [fill], "together")
        return ranked | {"groups": found.groups, "forward_passes": found.forward_passes}

    def _read_quietly(self, text: str | Cloze) -> Cloze:
        return self._given(text) if isinstance(text, Cloze) else self.read(text)

    def _checked(self, cloze: Cloze) -> Cloze:
        """Reject a cloze that this model cannot run, wherever it was made."""
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
        """A text as a cloze: a word of several pieces is one blank, and a warning says so.

        With words to fill in (`words_as_blanks`) a blank is as wide as each of them. A cloze that
        the caller has made is taken as it is.
        """
        if isinstance(text, Cloze):
            return self._given(text, blanks)
        cloze = self.cloze(text, blanks=blanks)
        if words_as_blanks:
            return cloze
        narrow, said = one_blank_for_each(cloze)
        if said is not None:
            warn(said, PiecesWarning)
        return narrow

    def _given(self, cloze: Cloze, blanks: Sequence[Blank] | None = None) -> Cloze:
        if blanks is not None:
            raise ClozeError("a cloze has its blanks already; give blanks with a plain text")
        checked = self._checked(cloze)
        if any(cloze.ids[p] != self.model.mask_id for p in cloze.positions):
            raise ClozeError("the cloze was made for a model with another mask token")
        return checked

    @computed_once
    def _vocabulary(self) -> Support:
        return whole_vocabulary(self.tokenizer, self.model.vocabulary_size)

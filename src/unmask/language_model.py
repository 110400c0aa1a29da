"""A masked LM with its tokenizer, and the queries that it answers: the main class."""

# signatures in `help` name types, in place of all that these stand for
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, overload

from unmask.arguments import Options, as_list, check_flags, check_numbers, whole_number
from unmask.constructions import METHOD_WITHOUT_TABLES, method_name
from unmask.errors import ClozeError, MethodError, SupportError
from unmask.lazy import computed_once
from unmask.names import CONSISTENCY_PASSES, DRAWS, ORDERS_DRAWN
from unmask.printable import quoted
from unmask.queries import fill_mask_output as fill_results
from unmask.queries.cost import Cost
from unmask.queries.decode.decoding import Decoding, decoded, one_support
from unmask.queries.decode.head import DependenceHead, place_of, required
from unmask.queries.decode.rules import Rule, checked_rule
from unmask.queries.dependence.dependence_map import DependenceMap
from unmask.queries.dependence.mapping import dependence_maps
from unmask.queries.dependence.question import (
    DEFAULT_MEASURE,
    DEFAULT_SAMPLES,
    MapOptions,
    MapQuestion,
    check_support,
    read_question,
)
from unmask.queries.joint_model import Axes, JointModel
from unmask.queries.joints import cost, default_method
from unmask.queries.word_targets import PiecePrior, Targets, fill_targets
from unmask.sequences.scores import LogRatio, TextScore
from unmask.sequences.scoring import log_ratios, score_texts
from unmask.sequences.texts import Given, in_context, read_text
from unmask.sequences.word_pairs import PairScore, score_pairs
from unmask.settings import Settings, Sketch
from unmask.tables.proposals import AUTO, is_auto
from unmask.text.candidates import Candidates
from unmask.text.cloze import Blank, Cloze

if TYPE_CHECKING:
    from unmask.sequences.consistency.result import Consistency

# options of `decode` that `fill` is asked for
_STEPS = {"together", "passes", "rule", "threshold"}


class LanguageModel(JointModel):
    """A masked LM and its tokenizer: joints of texts with blanks, scores of whole texts.

    `load` makes one from a name or a folder.

    Args:
        model: What turns ids into log-probabilities: the protocol `MaskedLM`.
        tokenizer: The model's tokenizer, as transformers makes it.
        name: How results and errors name the model.
        revision: Commit of the weights, for results.
    Examples:
        >>> lm = unmask.load("models/tiny-english")
        >>> lm.fill("Two [MASK] are [MASK].", top=1, support=20)[0]["sequence"]
        'Two people are outside.'
        >>> round(lm.score("Two dogs are running.").score, 2)
        -4.73
    """

    HINTS: ClassVar[Mapping[str, str]] = {
        "dependence_maps": "dependence(texts)",
        "fill_together": "decode(texts)",
        "independent_blanks": "dependence(text).groups(at_most=0.05)",
        "log_prob": "score(text, method='unmasking') for a sentence, pairs(items) for two words",
        "train_head": "unmask.DependenceHead.train(lm, texts)",
    }

    def fill(
        self,
        text: str | Cloze,
        *,
        top: int = 10,
        method: str | None = None,
        blanks: Sequence[Blank] | None = None,
        support: Axes = AUTO,
        targets: Targets | None = None,
        piece_prior: PiecePrior | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Ranked joint fills with the keys of transformers' fill-mask; lists for several blanks.

        Each fill also names its `method`, since constructions give different probabilities. With
        one blank it is `mlm`, the model's own distribution, whatever the method.

        Args:
            text: A text with mask tokens or without, or a `Cloze`.
            top: How many fills, best first.
            method: Name of a construction. Default: log-pool; orders for targets or many blanks.
            blanks: Words, character spans or token indices to mask in a text without mask tokens.
            support: Tokens that blanks range over, as in `joint`.
            targets: Words to rank: a list for one blank; for several a list per blank, or a
                dictionary by blank, from 0. They are tokenised in their place in the text and never
                cut; a word of several pieces has the probability of all of them together. Blanks
                without targets range over single tokens that the model proposes.
            piece_prior: How likely numbers of pieces are, to rank words that differ in it.
            settings: How to run the model: batch size, memory limit, progress.
            **options: Options of the construction: `pivot=`, `steps=`, `mean=`.
        Returns:
            A dictionary per fill: `score`, `token`, `token_str`, `sequence`, `log_prob` and
            `method`. `score` is the exponential of `log_prob`, and may underflow to 0.
        Raises:
            ClozeError: The text or its blanks cannot be read.
            MethodError: There is no such construction or option, or not for so many blanks.
            SupportError: A token or set of tokens does not exist.
        Examples:
            >>> targets = [["dogs", "cats"], ["running", "playing"]]
            >>> for fill in lm.fill("Two [MASK] are [MASK].", targets=targets, top=2):
            ...     print(round(fill["score"], 4), fill["sequence"])
            0.0115 Two dogs are running.
            0.0055 Two dogs are playing.
        """
        for name in _STEPS & options.keys():
            raise MethodError(
                f"fill ranks joint fills and takes no {name}; lm.decode(text, ...) fills blanks "
                "step by step"
            )
        if whole_number(top) is None or top < 1:
            raise SupportError(f"top takes a number of fills from 1, not {quoted(top)}")
        cloze = self._as_cloze(text, blanks, words_as_blanks=targets is not None)
        if targets is not None:
            if not is_auto(support):
                raise SupportError(
                    "support and targets both restrict what a blank may hold; give one of them"
                )
            name = METHOD_WITHOUT_TABLES if method is None else method_name(method)
            fills = fill_targets(
                self,
                cloze,
                targets,
                method=name,
                piece_prior=piece_prior,
                settings=settings,
                options=options,
            )
            return fill_results.of_words(self.tokenizer, fills[:top], name)
        if piece_prior is not None:
            raise ClozeError("a piece prior ranks targets of several numbers of pieces; give both")
        joint = self.joint(cloze, method=method, support=support, settings=settings, **options)
        return fill_results.of_tokens(self.tokenizer, cloze, joint.top(top), joint.method)

    @overload
    def decode(  # type: ignore[overload-overlap]  # a str is a sequence of them
        self,
        texts: str | Cloze,
        *,
        rule: str | Rule | None = ...,
        threshold: float | None = ...,
        passes: float | None = ...,
        draw: bool = ...,
        seed: int = ...,
        support: Axes = ...,
        settings: Settings | None = ...,
    ) -> dict[str, Any]: ...

    @overload
    def decode(
        self,
        texts: Sequence[str | Cloze],
        *,
        rule: str | Rule | None = ...,
        threshold: float | None = ...,
        passes: float | None = ...,
        draw: bool = ...,
        seed: int = ...,
        support: Axes = ...,
        settings: Settings | None = ...,
    ) -> list[dict[str, Any]]: ...

    def decode(
        self,
        texts: str | Cloze | Sequence[str | Cloze],
        *,
        rule: str | Rule | None = None,
        threshold: float | None = None,
        passes: float | None = None,
        draw: bool = False,
        seed: int = 0,
        support: Axes = AUTO,
        settings: Settings | None = None,
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """One fill of a text, or of each text of a list, its blanks filled step by step.

        A `rule` decides after each forward pass which of the blanks that are left are filled in
        the same step; they are filled independently of each other, at least one per step.

        - "entropy-bound" (EB-Sampler), the default: the surest whose entropies without the largest
          add up to the threshold, in nats. "confidence": all that are as sure as the threshold.
        - "surest", "left-to-right", "margin": one at a time. "all-at-once": in one step.
        - "mutual-information": blanks whose mutual information, in bits, adds up to less. It is
          measured before every step, in 12 forward passes per blank: a check on the others.
          "head": the same as the model's dependence head predicts it, in the same pass.
        - A function of one step, which has `log_probs`, those of the step `before`, and a
          `generator`, and returns which open blanks to fill. With a parameter `attention` it is
          handed the attention between blanks too, for which the model runs unfused.

        Args:
            texts: A text with mask tokens, or a `Cloze`; or a list of them.
            rule: One of the names above, or a function.
            threshold: The named rule's threshold; "entropy-bound" has one by default. Larger ones
                fill more blanks per step, except those of "confidence", which fill fewer.
            passes: For the rule "head" instead of a threshold: how many forward passes a text may
                take on average. The bound depends on how many blanks it has.
            draw: Draw every token from its distribution, instead of taking the likeliest.
            seed: Seed of everything that is drawn.
            support: Tokens that all blanks range over.
            settings: How to run the model: batch size, memory limit, progress.
        Returns:
            A dictionary with the keys of `fill`, the `rule` and its `threshold` (None without
            one), the blanks of each step as `groups`, and `forward_passes`; for a list, a list.
            `log_prob` adds up the log-probabilities that the tokens had when they were filled in.
        Raises:
            MethodError: There is no such rule, or its threshold is missing.
            ModelError: The rule is "head", and the model has none.
            ClozeError: A text has no blanks, or blanks of several tokens.
        Examples:
            >>> text = "Two [MASK] are playing [MASK] on the [MASK]."
            >>> fill = lm.decode(text, rule="confidence", threshold=0.3)
            >>> fill["sequence"], fill["groups"], fill["forward_passes"]
            ('Two men are playing soccer on the beach.', [(2,), (1,), (0,)], 3)
        """
        rule_name, bound = checked_rule(rule, threshold, passes)
        check_numbers(seed=seed)
        check_flags(draw=draw)
        axis = one_support(self, support)
        head = required(self.head, self.name) if rule_name == "head" else None
        if not isinstance(texts, Iterable | Cloze):
            raise ClozeError(f"texts is a text or a list of texts, not {quoted(texts)}")
        text_list = [texts] if isinstance(texts, str | Cloze) else texts
        clozes = [self._as_cloze(text) for text in text_list]
        bounds = [bound] * len(clozes)
        if head is not None and passes is not None:
            bounds = [head.threshold_for(passes, len(cloze.positions)) for cloze in clozes]
        decodings = [Decoding(rule_name, each, axis, draw, seed, head) for each in bounds]
        results = decoded(self, clozes, decodings, Settings.of(settings))
        return results[0] if isinstance(texts, str | Cloze) else results

    @computed_once
    def head(self) -> DependenceHead | None:
        """The model's dependence head: in its folder or in the user's cache; None without one.

        Set it to use another one.

        Examples:
            >>> lm.head is None
            True
        """
        place = place_of(self.name)
        if not place.is_file():
            return None
        head = DependenceHead.load(place)
        head.check(self.model, self.name)
        return head

    @overload
    def dependence(  # type: ignore[overload-overlap]  # a str is an iterable of them
        self,
        texts: str | Cloze,
        *,
        measure: str = ...,
        places: Sequence[Blank] | None = ...,
        support: Candidates = ...,
        samples: int = ...,
        window: int | None = ...,
        seed: int = ...,
        settings: Settings | None = ...,
    ) -> DependenceMap: ...

    @overload
    def dependence(
        self,
        texts: Iterable[str | Cloze],
        *,
        measure: str = ...,
        places: Iterable[Sequence[Blank]] | None = ...,
        support: Candidates = ...,
        samples: int = ...,
        window: int | None = ...,
        seed: int = ...,
        settings: Settings | None = ...,
    ) -> list[DependenceMap]: ...

    def dependence(
        self,
        texts: str | Cloze | Iterable[str | Cloze],
        *,
        measure: str = DEFAULT_MEASURE,
        places: Any = None,
        support: Candidates = "vocabulary",
        samples: int = DEFAULT_SAMPLES,
        window: int | None = None,
        seed: int = 0,
        settings: Settings | None = None,
    ) -> DependenceMap | list[DependenceMap]:
        """The dependence between every two words of a text, or of each of a list of texts.

        - "mutual-information", in bits: with both words masked, how far filling one moves the
          model's distribution of the other, averaged over `samples` fills and both directions.
          Exact if the support has no more tokens than that, otherwise with standard errors.
        - "pmi", in nats: of the two words in the text, how much likelier each becomes when the
          other is known. The cheapest: one forward pass per pair.
        - "jacobian", in nats: how far writing each of `samples` tokens at one place moves the
          log-probabilities at all others, read in the same forward pass.
        - "head", in bits: the mutual information that the model's dependence `head` predicts, in
          one forward pass for the blanks of a text, and one per pair of words of a whole text.

        Forward passes of several texts run together.

        Args:
            texts: A text with mask tokens or without, or a `Cloze`; or a list of those.
            measure: One of the names above.
            places: Words, spans or token indices; for a list, those of each text. Default: all
                words, or the blanks of the text.
            support: Tokens to average over; an alphabet makes the text a sequence of residues.
            samples: How many tokens are tried at a place.
            window: Leave out pairs that are further apart than this.
            seed: Seed of everything that is drawn.
            settings: How to run the model: batch size, memory limit, progress.
        Returns:
            A symmetric map, with names, trees, pictures and data frames; for a list, a list in its
            order.
        Raises:
            ClozeError: A text has fewer than two places.
            MethodError: There is no such measure.
        Examples:
            >>> dependence = lm.dependence("Two dogs are running.", measure="pmi")
            >>> dependence
            <DependenceMap pmi: 5 places, strongest dogs - running 1.167 nats>
            >>> texts = ["Two dogs are running.", "A man sings."]
            >>> [pairs.top(1)[0].names for pairs in lm.dependence(texts, measure="pmi")]
            [('dogs', 'running'), ('sings', '.')]
        """
        alone = isinstance(texts, (str, Cloze)) or not isinstance(texts, Iterable)
        text_list: Any = [texts] if alone else texts
        of_texts = repeat(None) if places is None else iter([places] if alone else places)
        by_head = required(self.head, self.name).measure if measure == "head" else None
        axis = self.support(support)
        options = MapOptions(measure, axis, samples, window, seed, by_head, self.name)
        check_support(options.measure, support)

        def questions() -> Iterator[MapQuestion]:
            for number, text in enumerate(text_list):
                of_text = next(of_texts, ())
                if isinstance(of_text, str) and not alone:
                    raise ClozeError(
                        f"places of several texts are a list per text, not {quoted(of_text)}"
                    )
                if of_text == ():
                    raise ClozeError(f"text {number} has no places; give those of each text")
                question = read_question(self, text, places=of_text, support=support)
                options.check(question, f"text {number}")
                yield question
            if places is not None and next(of_texts, None) is not None:
                raise ClozeError("there are more places than texts; give those of each text")

        settings = Settings.of(settings)
        maps = list(dependence_maps(self.model, questions(), options, settings))
        return maps[0] if alone else maps

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
        """The cost of joints per text; times the model for a second.

        Args:
            text: A text with mask tokens or without, or a `Cloze`.
            methods: Names of constructions. Default: that of `joint`.
            blanks: Words, character spans or token indices to mask in a text without mask tokens.
            support: Tokens that blanks range over, as in `joint`.
            settings: How to run the model: batch size, memory limit, progress.
            options: Options of each method, by its name.
            examples: How many such texts there are, over which fixed costs are spread.
            timed: Whether to time the model; otherwise nothing runs, and seconds are None.
        Returns:
            Forward passes, memory and time.
        Raises:
            MethodError: There is no such construction or option, or not for so many blanks.
        Examples:
            >>> lm.cost("Two [MASK] are [MASK].", support=20, timed=False).forward_passes
            93
        """
        cloze = self._as_cloze(text, blanks)
        method_names = methods or [default_method(len(cloze.positions), support)]
        request = self._request(cloze, method_names, support, settings, options)
        check_flags(timed=timed)
        return cost(request, self.model, self._vocabulary, examples=examples, timed=timed)

    @overload
    def score(  # type: ignore[overload-overlap]  # a str is a sequence of them
        self,
        texts: str,
        *,
        method: str = ...,
        order: str | None = ...,
        draws: int = ...,
        seed: int = ...,
        given: Given | Sequence[Given] | None = ...,
        separator: str = ...,
        settings: Settings | None = ...,
    ) -> TextScore: ...

    @overload
    def score(
        self,
        texts: Sequence[str],
        *,
        method: str = ...,
        order: str | None = ...,
        draws: int = ...,
        seed: int = ...,
        given: Given | Sequence[Given] | None = ...,
        separator: str = ...,
        settings: Settings | None = ...,
    ) -> list[TextScore]: ...

    def score(
        self,
        texts: str | Sequence[str],
        *,
        method: str = "pll",
        order: str | None = None,
        draws: int = DRAWS,
        seed: int = 0,
        given: Given | Sequence[Given] | None = None,
        separator: str = "",
        settings: Settings | None = None,
    ) -> TextScore | list[TextScore]:
        """The score of a text, or of each text of a list.

        - `pll`: the sum of every token's log-probability given all others, one forward pass per
          token. A score for comparisons, not a log-probability.
        - `pll-word-l2r`: the same, but the later pieces of the token's word are masked with it.
        - `unmasking`: the log-probability of the text among all texts with equally many tokens. All
          tokens start masked and are revealed one by one, each scored just before, in one forward
          pass per token.
        - `elbo`: the mean of that log-probability over all orders of the tokens, as
          masked-diffusion models are evaluated (LLaDA). It is estimated, with a standard error,
          from random masks that depend on the text and the seed alone, one forward pass each.

        With `given`, a text is a continuation: its own tokens are scored, in the context of those
        before and after it. By `unmasking` that is its log-probability among all continuations with
        equally many tokens, so those of different lengths do not compare.

        What the vocabulary has no token for is scored as the unknown token, with a warning, and
        counted in `unknown_tokens`.

        Args:
            texts: One text, or a list.
            method: One of the names above.
            order: Order of `unmasking`: "left-to-right" (the default), "surest" (next is the
                position whose likeliest token is most probable) or "margin" (furthest ahead of the
                second).
            draws: How many random masks `elbo` averages over.
            seed: Seed of everything that is drawn.
            given: What precedes the text, or a tuple of what precedes and follows it; a list of
                those for a list of texts.
            separator: What joins them; by default nothing, so that the texts hold their spaces.
            settings: How to run the model: batch size, memory limit, progress.
        Returns:
            The score of the text in nats, with its words; for a list, a list in its order.
        Raises:
            ClozeError: A text is empty, too long, or has mask tokens.
            MethodError: There is no such method or order.
        Examples:
            >>> score = lm.score("Two dogs are running.")
            >>> [(word.text, round(word.log_prob, 1)) for word in score.words]
            [('Two', -1.2), ('dogs', -1.2), ('are', -0.0), ('running', -2.2), ('.', -0.1)]
            >>> prefix = "Two dogs are"
            >>> round(lm.score(" running.", given=prefix, method="unmasking").score, 2)
            -2.46
            >>> score = lm.score("Two dogs are running.", method="elbo", draws=32)
            >>> round(score.score, 1), round(score.standard_error, 1)
            (-9.9, 0.6)
        """
        text_list: Sequence[Any] = [texts] if isinstance(texts, str) else as_list(texts)
        text_list = in_context(text_list, given, separator)
        if isinstance(texts, str):
            text_list = [read_text(self, text_list[0])]
        scores = score_texts(
            self,
            text_list,
            method=method,
            order=order,
            draws=draws,
            seed=seed,
            settings=settings,
        )
        return scores[0] if isinstance(texts, str) else scores

    def log_ratios(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        method: str = "hcb-path",
        order: str | None = None,
        draws: int | None = None,
        seed: int = 0,
        given: Given | Sequence[Given] | None = None,
        separator: str = "",
        settings: Settings | None = None,
    ) -> list[LogRatio]:
        """The logarithm of p(first) / p(second) for every pair of texts.

        - `hcb-path`: one forward pass per step along random orders of the positions where the texts
          differ; for texts with equally many tokens.
        - `unmasking`: the difference of two log-probabilities. Texts with different numbers of
          tokens are each compared with others of their own length only.
        - `elbo`: the difference of two estimates, each from masks of its own, with a standard
          error.
        - `pll`, `pll-word-l2r`: the difference of two scores, whatever the lengths: the convention
          of minimal pairs, not a log-ratio of probabilities.

        Args:
            pairs: A list of two texts each.
            method: One of the names above.
            order: Order of `unmasking`, as in `score`.
            draws: How many random orders `hcb-path` averages over (default: 8), or random masks of
                each text `elbo` (default: 128).
            seed: Seed of everything that is drawn.
            given: What stands before both texts, or before and after them, as in `score`; a list
                has one for each pair.
            separator: What joins them, as in `score`.
            settings: How to run the model: batch size, memory limit, progress.
        Returns:
            A ratio in nats per pair, in the order given; one that has none has a `reason`.
        Raises:
            ClozeError: A text is empty, too long, or has mask tokens.
            MethodError: There is no such method or order.
        Examples:
            >>> pairs = [("Two dogs are running.", "Two dogs is running.")]
            >>> round(lm.log_ratios(pairs)[0].log_ratio, 2)
            7.48
        """
        return log_ratios(
            self,
            pairs,
            method=method,
            order=order,
            draws=draws,
            seed=seed,
            given=given,
            separator=separator,
            settings=settings,
        )

    def consistency(
        self,
        texts: Sequence[str],
        *,
        contrasts: Sequence[str | None] | None = None,
        orders: int = ORDERS_DRAWN,
        max_passes: int = CONSISTENCY_PASSES,
        exact: bool = False,
        seed: int = 0,
        settings: Settings | None = None,
    ) -> Consistency:
        """The contradictions of the model on texts, by blanks and orders of unmasking.

        Of every text two pairs of words are masked, neighbours and any two, and all its tokens are
        revealed in several random orders. A model with one joint distribution would answer alike.

        Args:
            texts: A list of texts without mask tokens.
            contrasts: For each text the other one of a minimal pair, or None; one with another
                number of tokens gives no verdict.
            orders: Random orders of unmasking per text.
            max_passes: Forward passes per pair of blanks over a large vocabulary.
            exact: Whether to run every token of it instead.
            seed: Seed of everything that is drawn.
            settings: How to run the model: batch size, memory limit, progress.
        Returns:
            The answers, with `statistics`, a `card` and `plot`.
        Raises:
            ClozeError: A text is empty, too long, has mask tokens or no two neighbouring words.
            MethodError: There are fewer than two orders.
        Examples:
            >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
            >>> len(answers.rows)
            4
        """
        from unmask.sequences.consistency.measuring import ConsistencyOptions
        from unmask.sequences.consistency.result import consistency_of

        options = ConsistencyOptions(orders=orders, max_passes=max_passes, exact=exact, seed=seed)
        return consistency_of(self, texts, contrasts, options, settings)

    def pairs(
        self,
        items: Iterable[Sequence[object]],
        *,
        method: str = METHOD_WITHOUT_TABLES,
        support: str | Sketch = AUTO,
        settings: Settings | None = None,
    ) -> list[PairScore]:
        """The log-probability of two words together in the two blanks of a text, for every item.

        - `orders`: three forward passes per item, more where a word has several pieces.
          Conditionals are the model's with the other word filled in, and `association` is against
          the words with the other one masked. No tables, so neither `pmi` nor `incompatibility`.
        - `mlm`: one forward pass per item. The words are independent of each other.
        - `log-pool` and others: words of one piece, over the whole vocabulary. By default from a
          sketch of it, with standard errors, precise at the item's own words.

        Args:
            items: A text and two words each. The text has two mask tokens, or contains both words
                once.
            method: Name of a construction.
            support: "auto", "vocabulary" for exact numbers, or a `Sketch` with the precision you
                want.
            settings: How to run the model: batch size, memory limit, progress.
        Returns:
            A score per item, in the order given; one that cannot be scored has a `reason`.
        Raises:
            MethodError: There is no such construction, or it cannot be estimated from a sketch.
            ClozeError: An item is not a text and two words.
        Examples:
            >>> (score,) = lm.pairs([("Two [MASK] are [MASK].", "dogs", "running")])
            >>> round(score.log_p, 2), round(score.association, 2)
            (-4.47, 1.28)
        """
        return score_pairs(self, items, method=method, support=support, settings=settings)

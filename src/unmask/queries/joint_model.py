"""A masked LM with its tokenizer: texts become clozes, tables and joints."""

# signatures in `help` name types, in place of all that these stand for
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from unmask.arguments import Options
from unmask.constructions import check_methods, method_name
from unmask.errors import ClozeError, PiecesWarning, SupportError, warn
from unmask.joints.joint import Joint
from unmask.lazy import Guessable, computed_once
from unmask.model.masked_lm import FIRST_IS_NO_BLANK, MaskedLM, first_blank
from unmask.model.row_reader import RowReader
from unmask.printable import printable, quoted
from unmask.queries.joints import (
    JointRequest,
    build_joints,
    default_method,
    default_methods,
)
from unmask.settings import Settings, Sketch
from unmask.tables.blank_reader import BlankReader
from unmask.tables.pair_tables import PairTables
from unmask.tables.proposals import AUTO, choose_axes, resolved
from unmask.text.candidates import Candidates, choose, whole_vocabulary
from unmask.text.cloze import Blank, Cloze, Tokenizer, parse_cloze
from unmask.text.pieces import blanks_of, one_blank_for_each
from unmask.text.support import Support
from unmask.text.unknown_tokens import check_known, warn_of_texts

# candidates, or how many of them the model is to propose: for all blanks, or by blank
Proposed = Candidates | SupportsIndex
# or a sketch of the vocabulary
Axes = Proposed | Mapping[int, Proposed] | Sketch


class JointModel(Guessable):
    """A masked LM and its tokenizer: the part of `LanguageModel` that makes joints."""

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
        storage = "factored" if self.model.output_embedding is not None else "dense"
        return (
            f"<{type(self).__name__} {printable(self.name)}: "
            f"{self.model.vocabulary_size:,} tokens, "
            f"{storage} tables, {self.model.device}>"
        )

    def cloze(self, text: str, *, blanks: Sequence[Blank] | None = None) -> Cloze:
        """Read a text with mask tokens, or an ordinary text with `blanks`.

        A word of several pieces becomes one blank per piece, so the original word has a
        probability; in a text given to `joint` with `blanks`, it becomes one blank. An
        `UnknownTokenWarning` names the parts that the vocabulary has no token for.

        Args:
            text: A text with mask tokens or without.
            blanks: Words, character spans or token indices to mask in a text without mask tokens.
        Returns:
            The token ids, and the positions of the blanks.
        Raises:
            ClozeError: The text has no blank, is too long, or has only unknown tokens: any other
                text of that length would get the same answer.
        Examples:
            >>> cloze = lm.cloze("Two dogs are running.", blanks=["dogs", "running"])
            >>> cloze.positions
            (2, 4)
        """
        return self._as_cloze(text, blanks, words_as_blanks=True)

    def support(self, candidates: Candidates = "vocabulary") -> Support:
        """The tokens that a blank ranges over.

        Args:
            candidates: A named set ("vocabulary", "tokens", "no-special", an alphabet such as
                "amino-acids"), or tokens or ids in their order.
        Returns:
            An axis of a joint: ids and names.
        Raises:
            SupportError: There is no such set or token.
        Examples:
            >>> lm.support(["dog", "cat"]).names
            ['dog', 'cat']
        """
        return choose(candidates, self._vocabulary, self.model.special_ids)

    @computed_once
    def max_length(self) -> int | None:
        """The longest text in tokens, special ones included; None if there is no limit.

        Examples:
            >>> lm.max_length
            128
        """
        # tokenizers that know no limit say so with an absurdly large number
        tokenizer_limit = getattr(self.tokenizer, "model_max_length", None)
        if not isinstance(tokenizer_limit, int) or tokenizer_limit >= 10**6:
            tokenizer_limit = None
        return min(filter(None, [self.model.max_length, tokenizer_limit]), default=None)

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

        The default `support`, "auto", is "tokens". For two blanks over a large vocabulary, the
        joint is then estimated from at most 2,000 forward passes, with error bars: a `Sketch`,
        whose precision you can set. For more blanks, "auto" is as many candidates as a few thousand
        forward passes allow. Axes follow mask tokens left to right, and `blanks` in the order
        given. One blank has the model's own distribution.

        Args:
            text: A text with mask tokens or without, or a `Cloze`.
            method: Name of a construction. Default: log-pool; orders if a table would be too large.
            blanks: Words, character spans or token indices to mask in a text without mask tokens.
            support: "vocabulary" (every output, as in the paper), "tokens" (those that the
                tokenizer names), "no-special", an alphabet, a list of tokens or ids, a number of
                candidates that the model proposes, a dictionary of those by blank, or a `Sketch`.
            settings: How to run the model: batch size, memory limit, progress.
            **options: Options of the construction: `pivot=`, `steps=`, `mean=`.
        Returns:
            The joint, with one axis per blank.
        Raises:
            ClozeError: The text or its blanks cannot be read.
            MethodError: There is no such construction or option, or not for so many blanks.
            SupportError: A token or set of tokens does not exist.
            MemoryLimitError: The tables of several blanks exceed the memory limit of the settings.
        Examples:
            >>> lm.joint("Two [MASK] are [MASK].", support=20)
            <Joint over 2 blanks (20 x 20 tokens) by log-pool>
            0.0376  people  outside
            0.0321  men     outside
            0.0242  dogs    running
            0.0184  people  walking
            0.0174  people  dancing
        """
        name = None if method is None else method_name(method)
        cloze = self._as_cloze(text, blanks)
        name = name or default_method(len(cloze.positions), support)
        request = self._request(cloze, [name], support, settings, {name: options})
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
        """Joints by several constructions from the same forward passes.

        Args:
            text: A text with mask tokens or without, or a `Cloze`.
            methods: Names of constructions. Default: all that can be computed so.
            blanks: Words, character spans or token indices to mask in a text without mask tokens.
            support: Tokens that blanks range over, as in `joint`.
            settings: How to run the model: batch size, memory limit, progress.
            options: Options of each method, by its name.
        Returns:
            A joint by the name of each method; with one blank, all are the model's own
            distribution.
        Raises:
            MethodError: There is no such construction or option, or not for so many blanks.
        Examples:
            >>> text = "Two [MASK] are [MASK]."
            >>> joints = lm.joints(text, methods=["mlm", "log-pool"], support=20)
            >>> {name: round(one.log_prob("dogs", "running"), 2) for name, one in joints.items()}
            {'mlm': -4.95, 'log-pool': -3.72}
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
        """Both conditional tables of two blanks; nothing runs until a part is read.

        If the model should propose candidates, it does so now.

        Args:
            text: A text with mask tokens or without, or a `Cloze`.
            blanks: Words, character spans or token indices to mask in a text without mask tokens.
            support: Tokens that blanks range over, as in `joint`, but no `Sketch`.
            settings: How to run the model: batch size, memory limit, progress.
        Returns:
            The tables, which `construct` makes joints from.
        Raises:
            ClozeError: The text does not have two blanks.
            SupportError: The support is a `Sketch`, or does not exist.
        Examples:
            >>> tables = lm.tables("Two [MASK] are [MASK].", support=20)
            >>> unmask.construct("log-pool", tables).top(1)
            [Fill('people' 'outside', probability=0.03755)]
        """
        cloze, run_settings = self._as_cloze(text, blanks), Settings.of(settings)
        if len(cloze.positions) != 2:
            raise ClozeError(f"tables take two blanks; the text has {blanks_of(cloze)}")
        if isinstance(support, Sketch):
            raise SupportError(
                "tables are whole; a Sketch is for joint and fill: give 'vocabulary', a number of "
                "candidates or a list"
            )
        axes = choose_axes(self.model, self._vocabulary, cloze, support, run_settings)
        reader = RowReader(self.model, run_settings, forward_passes=axes.forward_passes)
        facts = {**self._provenance(cloze), **axes.diagnostics}
        return PairTables(BlankReader(reader, cloze, axes.supports, facts))

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
        method_names = default_methods(blanks, axes) if methods is None else methods
        checked = check_methods(method_names, options, max(2, blanks))[1]
        facts = self._provenance(cloze)
        return JointRequest(cloze, blanks, checked, axes, Settings.of(settings), facts)

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
        cloze = read_cloze(self, text, blanks=blanks)
        if cloze is text:
            return cloze
        if cloze.unknown:
            check_known(self.tokenizer, cloze.unknown, cloze.ids, "the text")
            warn_of_texts(self.tokenizer, [cloze.unknown])
        if words_as_blanks or cloze.widths is None:
            return cloze
        narrow, message = one_blank_for_each(cloze)
        if message is not None:
            warn(message, PiecesWarning)
        return narrow

    @computed_once
    def _vocabulary(self) -> Support:
        return whole_vocabulary(self.tokenizer, self.model.vocabulary_size)


def read_cloze(
    lm: JointModel, text: str | Cloze, *, blanks: Sequence[Blank] | None = None
) -> Cloze:
    """Like `JointModel.cloze`, but without a warning: `Cloze.unknown` has the unknown parts.

    A cloze that the caller has made is returned as it is, if this model can run it.
    """
    if not isinstance(text, Cloze):
        cloze = parse_cloze(text, lm.tokenizer, blanks=blanks, max_length=lm.max_length)
    elif blanks is None:
        cloze = text
    else:
        raise ClozeError("a cloze has its blanks already; give blanks with a plain text")
    places = cloze.positions
    if not places or len(set(places)) < len(places) or max(places) >= len(cloze.ids):
        raise ClozeError(
            f"the positions of a cloze are distinct places of its {len(cloze.ids)} tokens, not "
            f"{quoted(places)}"
        )
    if 0 in places and first_blank(lm.model):
        raise ClozeError(FIRST_IS_NO_BLANK)
    check_ids(lm, cloze.ids)
    if cloze is text and any(cloze.ids[place] != lm.model.mask_id for place in places):
        raise ClozeError("the cloze was made for a model with another mask token")
    return cloze


def check_ids(lm: JointModel, ids: Sequence[int]) -> None:
    """Reject tokens of a text that the model does not know."""
    size, mask_id = lm.model.vocabulary_size, lm.model.mask_id
    beyond = [token for token in ids if token >= size and token != mask_id]
    if beyond:
        raise ClozeError(
            f"the tokenizer gives token id {beyond[0]}, but the model knows {size}; they do not "
            "belong together"
        )

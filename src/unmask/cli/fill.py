"""`unmask fill`: the likeliest joint fills of a text, by one construction or several."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from unmask.cli import inputs, many, options, show
from unmask.cli.command import declared_by, option
from unmask.errors import SupportError, UnmaskError
from unmask.text.typed import blank, piece_prior

if TYPE_CHECKING:
    from unmask.jobs.kinds.fill import FillKind
    from unmask.language_model import LanguageModel
    from unmask.text.cloze import Cloze

# no more forward passes are timed beforehand
_FEW_PASSES = 5_000
_RANK_WORDS = "rank words of any number of pieces with --targets"
_DEFAULT = "log-pool; orders for --targets, or if there are too many blanks for tables"


_blanks = partial(option, group=options.BLANKS, default=())


@dataclass(frozen=True, kw_only=True)
class FillCommand(
    many.RowsCommand, options.TableOptions, options.MethodOptions, options.Estimation
):
    """The likeliest joint fills of a text, or of many."""

    SUMMARY = "rank what fills the blanks of a text together"
    DESCRIPTION = (
        "Write the model's mask token where a token is missing ([MASK] for BERT, <mask> for "
        "RoBERTa), or name the words to blank with --blank. Several methods share forward passes "
        "and are shown side by side. Of a file, every row is a text: in its column text, and "
        "optionally targets, piece_prior, blanks, support and method in place of the options; "
        "other columns are kept. A row that cannot be answered has a reason."
    )
    EXAMPLE = (
        'unmask fill -m bert-base-cased "The [MASK] [MASK] at the casino." --method log-pool,mlm'
    )

    input: tuple[str, ...] = inputs.INPUT()
    text: tuple[str, ...] = inputs.TEXT()
    blank: tuple[str, ...] = options.BLANK()
    top: int = options.TOP()
    figure: str | None = options.FIGURE()
    support: tuple[str, ...] = _blanks(
        f"tokens that a blank may hold: {options.NAMED}, a number of candidates that the model "
        "proposes, tokens with commas: man,woman (a single one as man,), or auto: the vocabulary "
        "for one or two blanks, otherwise as many candidates as a few thousand forward passes "
        "allow. For one blank, counted from 0: 1=man,woman (default: auto)",
        "[BLANK=]CANDIDATES",
    )
    method: tuple[str, ...] = option(
        options.METHOD.replace("{default}", _DEFAULT),
        "NAME",
        default=(),
        commas=True,
        group=options.CONSTRUCTION,
    )
    construction_options: Mapping[str, object] = declared_by(
        partial(options.method_options, in_fill=True)
    )
    targets: tuple[str, ...] = _blanks(
        "rank only these words, with commas; a word of several pieces has the probability of all "
        'its pieces. By blank, from 0: 1="New York,Paris"; a blank without words takes tokens that '
        "the model proposes",
        "[BLANK=]WORDS",
    )
    piece_prior: str | None = _blanks(
        "probability of each number of pieces, such as 1=0.8,2=0.2; required to rank words with "
        "different numbers of pieces",
        "uniform|N=P,...",
        default=None,
    )

    def run(self) -> int:
        """Check all options, then fill one text or many lines."""
        source, output = inputs.read_input(self.input, self.text), many.output_of(self, "jsonl")
        is_one = many.is_one_text(self, source)
        self._check(is_one)
        rows = many.open_rows(self, source)
        from unmask.jobs.kinds.fill import FillKind
        from unmask.text.pieces import one_blank_for_each

        default = "orders" if self.targets else "log-pool"
        names = options.methods(self.method or (default,), ["all"])
        kind = FillKind(
            blanks=[blank(text) for text in self.blank] or None,
            method=names if self.method else None,
            support=self.axes(self.support, self.seed),
            targets=options.by_blank(self.targets, "--targets", _words) if self.targets else None,
            piece_prior=(
                None if self.piece_prior is None else piece_prior(self.piece_prior, "--piece-prior")
            ),
            how=self.given(names),
            top=self.top,
            settings=self.settings(),
        )
        if not is_one or (self.dry_run and self.targets):
            # a text may take seconds: each is written when it is done
            return many.run(self, kind, rows, output)
        lm = self.source().load()
        cloze = lm.cloze(source.texts[0], blanks=kind.blanks)
        if kind.targets is not None:
            announced = replace(kind.settings, announce=not self.quiet)
            kind = replace(kind, settings=announced)
            fills = {name: kind.answer(lm, cloze, name)["fills"] for name in kind.names(lm, cloze)}
            if self.json:
                print(show.words_as_json(lm, cloze, fills, kind.piece_prior))
            else:
                print(show.words_as_table(fills, kind.piece_prior))
            return 0
        cloze, note = one_blank_for_each(cloze, _RANK_WORDS)
        if note is not None:
            options.say(note)
        self._fill_tokens(lm, cloze, kind)
        return 0

    def _fill_tokens(self, lm: "LanguageModel", cloze: "Cloze", kind: "FillKind") -> None:
        support, blanks = kind.support, len(cloze.positions)
        if self.figure is not None and blanks > 2:
            raise UnmaskError(
                f"--figure shows one or two blanks, and this text has {blanks}; leave it out"
            )
        request: Any = {
            "methods": kind.names(lm, cloze),
            "support": support,
            "settings": kind.settings,
            "options": kind.how,
        }
        pivot: Any = self.construction_options.get("pivot")
        if pivot is not None and isinstance(support, str | list):
            # raises on an unknown pivot before the model runs
            lm.support("vocabulary" if support == "auto" else support).index(pivot)
        if self.dry_run or (blanks > 1 and not self.quiet):
            self._announce(lm, cloze, request)
        if self.dry_run:
            return
        joints = lm.joints(cloze, **request)
        if blanks == 1:
            # every construction of one blank is the model's own distribution
            joints = {"mlm": next(iter(joints.values()))}
        written = show.as_json if self.json else show.as_table
        print(written(lm, cloze, joints, self.top), flush=True)
        if self.figure is not None:
            from unmask.plots.comparison import compare

            figure = compare(joints) if len(joints) > 1 else next(iter(joints.values())).plot()
            options.save_figure(figure, self.figure, quiet=self.quiet)
        for name, joint in joints.items():
            diagnostics = joint.diagnostics
            if diagnostics.get("converged") is False:
                options.say(
                    f"{name} has not converged (residual {diagnostics['residual']:.1g} after "
                    f"{diagnostics['passes']} sweeps): treat its probabilities as approximate"
                )

    def _announce(self, lm: "LanguageModel", cloze: "Cloze", request: Any) -> None:
        """Print the cost, timed where that is a small part of the work."""
        cost = lm.cost(cloze, timed=False, **request)
        if cost.forward_passes > _FEW_PASSES:
            cost = lm.cost(cloze, **request)
        searched = len(cloze.positions) > 2 and not cost.table_bytes
        more = " for one fill; the search for the likeliest runs more" if searched else ""
        line = f"{', '.join(request['methods'])}: {cost}{more}"
        print(line) if self.dry_run else self.note(line)

    def _check(self, is_one: bool) -> None:
        """Reject options that do not go together, before a model is loaded."""
        if self.top < 1:
            raise UnmaskError(f"--top takes a number of fills from 1, not {self.top}")
        if self.figure is not None:
            if self.targets or not is_one:
                raise UnmaskError(
                    "--figure is of the tokens of one text; leave out --targets, and give one text"
                )
            options.check_figure(self.figure)
        if self.piece_prior is not None and not self.targets and is_one:
            raise SupportError(
                "--piece-prior ranks words of different numbers of pieces: --targets"
            )


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]

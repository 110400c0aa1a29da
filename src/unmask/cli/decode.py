"""`unmask decode`: one fill of a text with many blanks, several of them per forward pass."""

from dataclasses import dataclass

from unmask.arguments import check_numbers
from unmask.cli import inputs, many, options
from unmask.cli.command import option
from unmask.names import DEFAULT_RULE, RULES
from unmask.printable import printable
from unmask.text.typed import blank, support

_UNITS = {name: rule.threshold for name, rule in RULES.items() if rule.threshold}
_THRESHOLDS = ", ".join(f"{name}: {unit}" for name, unit in _UNITS.items())
# texts of a pipe that are filled together, in the same steps
_TEXTS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class DecodeCommand(many.RowsCommand):
    """One fill of a text, or of each of many, step by step."""

    SUMMARY = "fill many blanks of a text, several per forward pass"
    DESCRIPTION = (
        "After every forward pass a rule decides which blanks are filled at the same time. Write "
        "the model's mask token where a token is missing ([MASK] for BERT, <mask> for RoBERTa), or "
        "name the words to blank with --blank. Prints the text. Of a file, every row is a text: in "
        "its column text, and optionally blanks in place of the option; other columns are kept. A "
        "row that cannot be filled has a reason. unmask fill ranks fills by their joint "
        "probability instead."
    )
    EXAMPLE = 'unmask decode -m bert-base-cased "Two [MASK] are playing [MASK] on the [MASK]."'

    input: tuple[str, ...] = inputs.INPUT()
    text: tuple[str, ...] = inputs.TEXT()
    blank: tuple[str, ...] = options.BLANK()
    rule: str | None = option(f"{', '.join(RULES)} (default: {DEFAULT_RULE})", "NAME")
    threshold: float | None = option(
        f"threshold of the rule ({_THRESHOLDS}; default: {RULES[DEFAULT_RULE].default:g} for "
        f"{DEFAULT_RULE})",
        "X",
    )
    passes: float | None = option(
        "the rule head, with the threshold at which a text takes so many forward passes on "
        "average; needs a dependence head (unmask head)",
        "N",
    )
    draw: bool = option(
        "draw every token from its distribution, instead of taking the likeliest", default=False
    )
    seed: int = options.SEED()
    support: str | None = option(
        f"tokens that all blanks may hold: {options.NAMED}, or tokens separated by commas "
        "(default: tokens)",
        "NAME|TOKENS",
    )

    def run(self) -> int:
        """Check all options, then fill one text or many."""
        source, output = inputs.read_input(self.input, self.text), many.output_of(self, "jsonl")
        is_one = many.is_one_text(self, source)
        from unmask.queries.decode.rules import checked_rule

        checked_rule(self.rule, self.threshold, self.passes)
        check_numbers(seed=self.seed)
        rows = many.open_rows(self, source)
        from unmask.jobs.kinds.decode import DecodeKind

        kind = DecodeKind(
            blanks=[blank(text) for text in self.blank] or None,
            rule=self.rule,
            threshold=self.threshold,
            passes=self.passes,
            draw=self.draw,
            seed=self.seed,
            support="auto" if self.support is None else support(self.support),
            settings=self.settings(),
        )
        if not is_one or self.dry_run:
            return many.run(self, kind, rows, output, _TEXTS_AT_ONCE)
        lm = self.source().load()
        ((fill,),) = kind.run(lm, [kind.item(lm, {"text": source.texts[0]})])
        if self.json:
            print(options.as_json(lm, **fill))
            return 0
        print(printable(fill["sequence"]))
        groups = " then ".join(" ".join(map(str, group)) for group in fill["groups"])
        bound = "" if fill["threshold"] is None else f" {fill['threshold']:g}"
        count = fill["forward_passes"]
        passes = f"{count:,} forward pass{'es' * (count != 1)}"
        self.note(f"{fill['rule']}{bound}: blanks {groups}; {passes}")
        return 0

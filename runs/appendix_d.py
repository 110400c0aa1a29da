"""Write a page on the paper's example of the casino, by every construction.

    python runs/appendix_d.py [--model NAME_OR_DIR] [--text TEXT ...] [--output FILE.md]

Figures also go to a JSON file beside the page.
"""

import argparse
import json
import math
import os
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from one_line import in_one_line

import unmask
from unmask.markup import markdown
from unmask.printable import quoted

Record = dict[str, Any]

# As printed, and with the full stop that the sentence may have lost in print.
TEXTS = ("The [MASK] [MASK] at the casino", "The [MASK] [MASK] at the casino.")
# The appendix says "BERT" and not which of the paper's two; the smaller is the one to try first.
PAPERS_MODELS = ("bert-base-cased", "bert-large-cased")

# Torroba Hennigen & Kim, "Deriving Language Models from Masked Language Models" (ACL 2023),
# https://aclanthology.org/2023.acl-short.99/, appendix D. All are given there as approximate.
# (blank asked for, its token, token at the other blank) -> probability
CONDITIONALS = {
    (1, "is", "man"): 0.02,
    (0, "man", "is"): 2e-5,
    (1, "was", "man"): 0.33,
    (0, "man", "was"): 0.03,
}
MASSES = {"mlm": "0.002", "mrf": "virtually 0", "mrf-logit": "virtually 0"}
GOLD, RIVAL = ("man", "is"), ("man", "was")


def shown_name(name: str) -> str:
    """A hub name whole, of a folder the last part: the rest is of this machine."""
    return Path(name).resolve().name if Path(name).exists() else name


def check_known(lm: unmask.LanguageModel, cloze: unmask.Cloze) -> None:
    """Refuse a text or a pair that this vocabulary cannot write: it would be another example."""
    if lm.tokenizer.unk_token_id is not None and lm.tokenizer.unk_token_id in cloze.ids:
        raise unmask.UnmaskError(
            f"the vocabulary of {quoted(shown_name(lm.name))} lacks a token of"
            f" {quoted(cloze.text)}; take another model or text"
        )
    for token in sorted({*GOLD, *RIVAL}):
        lm.support().index(token)


def conditional(tables: unmask.PairTables, blank: int, token: str, other: str) -> float:
    table = tables.b_given_a if blank == 1 else tables.a_given_b
    given = table.log_prob_at(tables.supports[1 - blank].index(other))
    return math.exp(float(given[tables.supports[blank].index(token)]))


def measured(lm: unmask.LanguageModel, text: str) -> Record:
    """All figures of one text, from one elicitation."""
    cloze = lm.cloze(text)
    check_known(lm, cloze)
    tables = lm.tables(cloze)
    tables.both()
    joints = {name: unmask.construct(name, tables) for name in unmask.CONSTRUCTIONS}
    return {
        "text": text,
        "tokens": list(lm.tokenizer.convert_ids_to_tokens(list(cloze.ids))),
        "conditionals": [
            {"blank": blank, "token": token, "given": other, "probability": probability}
            for blank, token, other in CONDITIONALS
            for probability in [conditional(tables, blank, token, other)]
        ],
        "masses": {
            name: {" ".join(pair): math.exp(joint.log_prob(*pair)) for pair in (GOLD, RIVAL)}
            for name, joint in joints.items()
        },
        "likeliest": {name: list(joint.top(1)[0].tokens) for name, joint in joints.items()},
        "incompatibility": unmask.incompatibility(tables),
    }


def record(lm: unmask.LanguageModel, texts: list[str]) -> Record:
    return {
        "model": shown_name(lm.name),
        "revision": lm.revision,
        "vocabulary": lm.model.vocabulary_size,
        "versions": {
            "unmask": unmask.__version__,
            **{package: version(package) for package in ("torch", "transformers")},
        },
        "texts": [measured(lm, text) for text in texts],
    }


def whose(found: Record) -> Iterator[str]:
    """Whether the paper's values can be held against these."""
    name = f"**{markdown(found['model'])}**"
    if found["model"].removeprefix("google-bert/") in PAPERS_MODELS:
        yield f"Measured with {name}. The appendix does not say which of the paper's two models its"
        yield "values are of: they may be of the other.\n"
        return
    yield f"Measured with {name}, which has {found['vocabulary']:,} tokens. **The paper's values"
    yield f"are of another model** ({' or '.join(PAPERS_MODELS)}; the appendix does not say which)"
    yield "and are here for comparison of the pattern, not of the numbers.\n"


def number(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0095 else f"{value:.1e}"


def conditionals_table(one: Record) -> Iterator[str]:
    yield "| conditional | here | paper, about |"
    yield "|---|---|---|"
    for cell in one["conditionals"]:
        papers = CONDITIONALS[cell["blank"], cell["token"], cell["given"]]
        name = f"q({cell['token']} &#124; {cell['given']})"
        yield f"| {name} | {number(cell['probability'])} | {papers:g} |"


def masses_table(one: Record) -> Iterator[str]:
    gold, rival = " ".join(GOLD), " ".join(RIVAL)
    yield f"| joint | {gold} | paper, about | {rival} | its likeliest pair |"
    yield "|---|---|---|---|---|"
    for name, mass in one["masses"].items():
        best = " ".join(map(markdown, one["likeliest"][name]))
        cells = [number(mass[gold]), MASSES.get(name, "not given"), number(mass[rival]), best]
        yield f"| {markdown(name)} | {' | '.join(cells)} |"


def reading(one: Record) -> Iterator[str]:
    """What the appendix is about, as far as these figures show it."""
    found = {(c["blank"], c["token"], c["given"]): c["probability"] for c in one["conditionals"]}
    for whose_are_they, cells in (("Here", found), ("In the paper", CONDITIONALS)):
        products = [
            f'{number(cells[1, b, a] * cells[0, a, b])} for "{a} {b}"' for a, b in (GOLD, RIVAL)
        ]
        yield f"{whose_are_they} the two conditionals multiply to {' and '.join(products)}."
    gold = " ".join(GOLD)
    base = one["masses"]["mlm"][gold]
    factors = [
        f"`{name}` {one['masses'][name][gold] / base:.2g}" for name in MASSES if name != "mlm"
    ]
    yield f'Mass on "{gold}" as a multiple of that of `mlm`: {", ".join(factors)}.'


def conclusion(found: Record) -> Iterator[str]:
    """Whether the appendix's pattern comes out: the first text is printed as the paper has it."""
    one = found["texts"][0]
    cells = {(c["blank"], c["token"], c["given"]): c["probability"] for c in one["conditionals"]}

    def lead(table: Mapping[tuple[int, str, str], float]) -> float:
        """How many times the product of the conditionals of the gold pair is its rival's."""
        gold, rival = (table[1, b, a] * table[0, a, b] for a, b in (GOLD, RIVAL))
        return gold / rival

    gold, rival = (f'"{" ".join(pair)}"' for pair in (GOLD, RIVAL))
    share = one["masses"]["mrf"][" ".join(GOLD)] / one["masses"]["mlm"][" ".join(GOLD)]
    here, papers = lead(cells), lead(CONDITIONALS)
    best = " ".join(map(markdown, one["likeliest"]["mrf"]))
    if here > 1:
        yield "**What came out.** Not the paper's numbers: there the product of both conditionals"
        yield f"makes {rival} {1 / papers:,.0f} times likelier than {gold}; here {gold} is"
        yield f"{here:,.3g} times likelier than {rival}: this model finds {gold} likely from"
        yield "both sides."
    else:
        yield "**What came out.** The paper's pattern: there the product of both conditionals makes"
        yield f"{rival} {1 / papers:,.0f} times likelier than {gold}, here {1 / here:,.3g} times."
    failing = "But MRFs fail in the paper's way" if share < 1 else "And MRFs do not fail"
    yield f"{failing}: `mrf` gives {gold} {share:.2g} times the mass that two independent guesses"
    yield f'(`mlm`) give it, and its likeliest pair is "{best}".\n'


def page(found: Record) -> Iterator[str]:
    yield "# Appendix D: the casino\n"
    yield 'Appendix D of the paper shows how MRFs fail, with two blanks before "at the casino" that'
    yield 'were "man is": both conditionals multiplied give it next to nothing compared with'
    yield '"man was". Here are the four conditionals that it names and the mass that every joint'
    yield "gives the pair, exact over the whole vocabulary, special tokens included. Produced by"
    yield "`runs/appendix_d.sh`; the same figures are in a JSON file next to this page.\n"
    yield from whose(found)
    yield from conclusion(found)
    yield "The paper prints the text without a full stop, and most sentences of SNLI have one; both"
    yield "are measured, unless the run was given other texts."
    for one in found["texts"]:
        yield f"\n## {markdown(one['text'])}\n"
        yield f"Tokens: {' '.join(map(markdown, one['tokens']))}."
        yield f"J is {one['incompatibility']:.4f} bits ([trust](../concepts/trust.md)).\n"
        yield from conditionals_table(one)
        yield ""
        yield from masses_table(one)
        yield ""
        yield from reading(one)
    made = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    yield f"\nMade with {markdown(made)}, float32."


def run(chosen: argparse.Namespace) -> None:
    torch.set_num_threads(chosen.threads)
    found = record(unmask.load(chosen.model, device=chosen.device), chosen.text or list(TEXTS))
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text("\n".join(page(found)) + "\n", encoding="utf-8")
    said = json.dumps(found, indent=2, allow_nan=False, ensure_ascii=False)
    chosen.output.with_suffix(".json").write_text(said + "\n", encoding="utf-8")


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="The paper's example of the casino.")
    parser.add_argument("--model", default=PAPERS_MODELS[0], help="hub name or folder")
    parser.add_argument("--text", action="append", help="instead of the paper's; may be repeated")
    parser.add_argument("--output", type=Path, default=Path("appendix-d.md"))
    parser.add_argument("--device", help="where the model runs (default: the first accelerator)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    run(parser.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())

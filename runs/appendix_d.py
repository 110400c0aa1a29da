"""The paper's example of the casino: its conditionals and its mass by every joint.

    python runs/appendix_d.py [--model NAME_OR_DIR] [--text TEXT ...] [--output FILE.json]

Without --model it takes the paper's bert-base-cased from the Hugging Face Hub: 58,000 forward
passes a text, so an accelerator is welcome (--device cuda). docs/results/appendix-d.json and its
CSV file are of models/tiny-english. Joints are exact over the whole vocabulary.
"""

import argparse
import json
import math
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from marked_page import as_csv
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
        "incompatibility": unmask.construct("log-pool", tables).incompatibility(),
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


def table(content: Record) -> Iterator[str]:
    """The conditionals and the masses of every text."""
    for text in content["texts"]:
        yield f"## {markdown(text['text'])}"
        yield from conditionals_table(text)
        yield ""
        yield from masses_table(text)


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="The paper's example of the casino.")
    parser.add_argument("--model", default=PAPERS_MODELS[0], help="hub name or folder")
    parser.add_argument("--text", action="append", help="instead of the paper's; may be repeated")
    parser.add_argument("--output", type=Path, default=Path("appendix-d.json"))
    parser.add_argument("--device", help="where the model runs (default: the first accelerator)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    lm = unmask.load(options.model, device=options.device)
    content = record(lm, options.text or list(TEXTS))
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    options.output.write_text(text + "\n", encoding="utf-8")
    options.output.with_suffix(".csv").write_text(as_csv(table(content)), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())

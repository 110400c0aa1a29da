"""Sentences for runs/tune_arms.sh, and the tables of docs/results/tuning.md.

    python runs/tune_report.py sentences --assets DIR --output FOLDER --count 200
    python runs/tune_report.py pairs --model DIR --sentences sentences.jsonl --output pairs.jsonl
    python runs/tune_report.py copy FOLDER docs/results/tuning/ARM
    python runs/tune_report.py page docs/results/tuning --output docs/results/tuning.md

`sentences` writes measured.txt, all that is measured and so must not be learnt from, and
sentences.jsonl, the first of SNLI test in hashed order. `pairs` measures what the penalty is made
of, on two blanks of each of these, adjacent or any two. `copy` takes what the page needs of an
arm's JSON lines. `page` takes a folder per arm: the runs
snli-dev, snli, xsum and exact, blimp.jsonl, order-*.jsonl, pairs.jsonl, together.jsonl and
tuning.json. An arm that has only some of them is in the tables of these. Every number is compared
with the arm `--control` (`control`), example by example. People write the sentences of the page.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import marked_page
import numpy as np
import torch

import unmask
from unmask.errors import UnmaskError
from unmask.evaluation.rows import ResultRow
from unmask.evaluation.run import read_run
from unmask.markup import markdown
from unmask.printable import printable, quoted
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.resampling import Estimate, means, paired_differences
from unmask.training.masking import Vocabulary
from unmask.training.network import Network
from unmask.training.pairs import choose_pairs, measure_pairs
from unmask.training.texts import generator, ordinary_tokens, padded

CONTROL, BLANKS = "control", "blanks"
UNPENALISED = ("start", CONTROL, BLANKS)
RUNS = ("snli-dev", "snli", "xsum", "exact")
MEASURED = ("snli/dev.tsv", "snli/test.jsonl", "xsum/test-1000.txt")
# what the penalty is made of, on so many tokens per blank
PAIRS, TOKENS = ("contradiction", "interaction"), 8
# of a line that is published
KEPT = ("id", "correct", "score", "tokens", "blanks", "lie", "ways", *PAIRS)
# places in a way's list of runs/together.py
SCORE, STEPS, RIGHT = 0, 1, 3
ORDERS = ("left-to-right", "surest", "margin")


class Measure(NamedTuple):
    """A column of the page: what it is called, and its number in the rows of an example."""

    name: str
    construction: str
    field: str


MEASURES = (
    Measure("J", "mlm", "incompatibility"),
    Measure("masked token", "mlm", "unary_nll"),
    Measure("two masked", "mlm", "pairwise_nll"),
    Measure("P-NLL of orders", "orders", "pairwise_nll"),
    Measure("P-NLL of log-pool", "log-pool", "pairwise_nll"),
    Measure("P-NLL of ag", "ag", "pairwise_nll"),
    Measure("U-NLL of log-pool", "log-pool", "unary_nll"),
    Measure("G-KL of log-pool", "log-pool", "gold_kl"),
    Measure("A-KL of ag", "ag", "all_kl"),
)
# numbers by example, and the sentence of each example
Column = dict[str, float]
Columns = dict[str, Column]


class Setting(NamedTuple):
    """A run and a mask of every arm: numbers by arm, measure and example."""

    title: str
    control: str
    arms: dict[str, Columns]
    sentence_of: dict[str, str]


def write_sentences(assets: Path, output: Path, count: int) -> None:
    texts: list[str] = []
    for name in MEASURED:
        corpus = read_corpus(CorpusSpec(str(assets / "data" / name)))
        texts += [one.text for one in corpus.sentences]
    (output / "measured.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    test = read_corpus(CorpusSpec(str(assets / "data" / MEASURED[1])))
    first = sorted(test.sentences, key=lambda one: hashlib.sha256(one.id.encode()).digest())
    lines = [json.dumps({"id": one.id, "text": one.text}) for one in first[:count]]
    (output / "sentences.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_pairs(model: str, sentences: Path, output: Path) -> None:
    lm = unmask.load(model)
    network = Network(lm)
    vocabulary = Vocabulary(lm.model.mask_id, ordinary_tokens(lm))
    lines = []
    for one in read_lines(sentences):
        ids = lm.tokenizer(one["text"])["input_ids"]
        draw = generator("pairs", one["id"])
        pairs = choose_pairs(padded([ids], network.padding), vocabulary, 1, draw)
        if pairs is not None:
            with torch.no_grad():
                terms = measure_pairs(network, pairs, vocabulary, TOKENS, draw)
            found = {name: float(getattr(terms, name)[0]) for name in PAIRS}
            lines.append(json.dumps({"id": one["id"], **found}))
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def copy_lines(source: Path, target: Path) -> None:
    for path in sorted(source.glob("*.jsonl")):
        kept = [
            {key: value for key, value in row.items() if key in KEPT} for row in read_lines(path)
        ]
        text = "".join(json.dumps(row) + "\n" for row in kept)
        (target / path.name).write_text(text, encoding="utf-8")


def arms_of(folder: Path, control: str) -> list[str]:
    """Those that were measured: the start and the control first, then by weight."""
    found = [path.name for path in folder.iterdir() if (path / RUNS[0]).is_dir()]
    if control not in found:
        raise UnmaskError(f"{quoted(str(folder), limit=150)} has no arm {printable(control)}")
    first = [name for name in UNPENALISED if name in found]
    return [*first, *sorted(set(found) - set(first), key=_by_weight)]


def _by_weight(arm: str) -> tuple[str, float]:
    name, _, weight = arm.partition("-")
    return name, float(weight or 0)


def settings(folder: Path, arms: Sequence[str], control: str) -> Iterator[Setting]:
    for run in RUNS:
        there = [arm for arm in arms if (folder / arm / run).is_dir()]
        if control not in there:
            continue
        rows = {
            arm: [r for r in read_run(folder / arm / run).rows if not r.failed] for arm in there
        }
        exact = ", exact tables" if run == "exact" else ""
        for mask in sorted({row.mask for row in rows[control]}):
            some = {arm: [row for row in each if row.mask == mask] for arm, each in rows.items()}
            same = set.intersection(*({row.example_id for row in one} for one in some.values()))
            some = {arm: [r for r in each if r.example_id in same] for arm, each in some.items()}
            yield Setting(
                f"{rows[control][0].corpus}, {mask}{exact}",
                control,
                {arm: columns(each) for arm, each in some.items()},
                {row.example_id: row.sentence_id for each in some.values() for row in each},
            )


def columns(rows: Sequence[ResultRow]) -> Columns:
    found: Columns = {}
    for measure in MEASURES:
        own = {
            row.example_id: float(value)
            for row in rows
            if row.construction == measure.construction
            and (value := getattr(row, measure.field)) is not None
        }
        if own:
            found[measure.name] = own
    return found


def difference(one: Column, other: Column, sentence_of: dict[str, str]) -> Estimate:
    """The mean of one minus the other on the examples of both."""
    both = sorted(one.keys() & other.keys())
    (found,) = paired_differences(
        [[one[key] for key in both]], [[other[key] for key in both]], [sentence_of[k] for k in both]
    )
    return found


def shown(found: Estimate) -> str:
    said = f"{found.value:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
    return f"**{said}**" if found.leaves_out_zero() else said


def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def setting_section(setting: Setting) -> Iterator[str]:
    control = setting.arms[setting.control]
    names = list(control)
    count = len(next(iter(control.values())))
    yield f"## {setting.title}: {count} examples"
    yield line(["arm", *names])
    yield line(["---"] * (1 + len(names)))
    for arm, found in setting.arms.items():
        cells = [
            f"{np.mean(list(found[name].values())):.4f}" if name in found else "-" for name in names
        ]
        yield line([markdown(arm), *cells])
    yield from differences(setting, setting.control, list(setting.arms))
    if BLANKS in setting.arms and setting.control == CONTROL:
        # what a penalty adds to the masks that it comes with
        yield from differences(
            setting, BLANKS, [arm for arm in setting.arms if arm not in UNPENALISED]
        )


def differences(setting: Setting, other: str, arms: Sequence[str]) -> Iterator[str]:
    """A line per arm: all measures minus those of another arm."""
    its = setting.arms[other]
    yield f"### minus `{other}`"
    yield line(["arm", *its])
    yield line(["---"] * (1 + len(its)))
    for arm in arms:
        if arm != other:
            mine = setting.arms[arm]
            gaps = (
                shown(difference(mine[name], its[name], setting.sentence_of))
                if name in mine
                else "-"
                for name in its
            )
            yield line([markdown(arm), *gaps])


def goal_section(every: Sequence[Setting]) -> Iterator[str]:
    """J halved at the control's masked-token NLL, and three passes as good as its log-pool."""
    yield line(["arm", "pairs", "J, of the control's", "masked token", "orders minus its log-pool"])
    yield line(["---"] * 5)
    for setting in every:
        control = setting.arms[setting.control]
        for arm, found in setting.arms.items():
            bits = [float(np.mean(list(one["J"].values()))) for one in (found, control)]
            sentence_of = setting.sentence_of
            gaps = [
                difference(found[mine], control[its], sentence_of)
                for mine, its in (
                    ("masked token", "masked token"),
                    ("P-NLL of orders", "P-NLL of log-pool"),
                )
            ]
            ratio = f"{bits[0] / bits[1]:.2f}" if bits[1] else "-"
            yield line([markdown(arm), setting.title, ratio, *map(shown, gaps)])


# --- whole sentences ---------------------------------------------------------------------------


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text("utf-8").splitlines()]


def blimp(folder: Path) -> Column:
    """Whether the right sentence of a pair has the higher score; those without one are left out."""
    rows = read_lines(folder / "blimp.jsonl")
    return {row["id"]: float(row["correct"]) for row in rows if row["correct"] is not None}


def order_scores(folder: Path) -> dict[str, Column]:
    found = {}
    for order in ORDERS:
        rows = read_lines(folder / f"order-{order}.jsonl")
        found[order] = {
            row["id"]: row["score"] / row["tokens"] for row in rows if row["score"] is not None
        }
    return found


def order_spread(folder: Path) -> Column:
    """The standard deviation over orders of a sentence's log-probability per token."""
    scores = order_scores(folder)
    both = set.intersection(*(set(one) for one in scores.values()))
    return {key: float(np.std([one[key] for one in scores.values()], ddof=1)) for key in both}


def left_to_right(folder: Path) -> Column:
    return {key: -value for key, value in order_scores(folder)[ORDERS[0]].items()}


def filled(folder: Path, way: str, place: int) -> Column:
    """By sentence: log-probability (0) or true tokens (3), per blank, or steps (1)."""
    rows = read_lines(folder / "together.jsonl")
    return {
        row["id"]: row["ways"][way][place] / (1 if place == STEPS else row["blanks"])
        for row in rows
    }


def table(
    folder: Path, arms: Sequence[str], control: str, of: dict[str, Callable[[Path], Column]]
) -> Iterator[str]:
    """A line per arm: means, and differences to the control on the sentences of both."""
    found = {arm: {name: one(folder / arm) for name, one in of.items()} for arm in arms}
    yield line(["arm", *of, *(f"{name}, minus {control}" for name in of)])
    yield line(["---"] * (1 + 2 * len(of)))
    for arm in arms:
        cells = []
        for name in of:
            own = found[arm][name]
            (mean,) = means([list(own.values())], list(own))
            cells.append(f"{mean.value:.3f}")
        for name in of:
            own, its = found[arm][name], found[control][name]
            same = {key: key for key in own}
            cells.append("" if arm == control else shown(difference(own, its, same)))
        yield line([markdown(arm), *cells])


def sentences_section(folder: Path, arms: Sequence[str], control: str) -> Iterator[str]:
    there = [arm for arm in arms if (folder / arm / f"order-{ORDERS[-1]}.jsonl").exists()]
    if control not in there:
        return
    yield from table(
        folder,
        there,
        control,
        {
            "BLiMP by pll, accuracy": blimp,
            "spread over orders": order_spread,
            "left to right": left_to_right,
        },
    )


def pairs_section(folder: Path, arms: Sequence[str], control: str) -> Iterator[str]:
    there = [arm for arm in arms if (folder / arm / "pairs.jsonl").exists()]
    if control not in there:
        return

    def column(name: str) -> Callable[[Path], Column]:
        return lambda arm: {row["id"]: row[name] for row in read_lines(arm / "pairs.jsonl")}

    yield line(["arm", "penalty"])
    yield line(["---"] * 2)
    for arm in there:
        means_of = [float(np.mean(list(column(name)(folder / arm).values()))) for name in PAIRS]
        yield line([markdown(arm), f"{means_of[0] / means_of[1]:.3f}"])
    yield ""
    yield from table(folder, there, control, {name: column(name) for name in PAIRS})


def together_section(folder: Path, arms: Sequence[str], control: str) -> Iterator[str]:
    there = [arm for arm in arms if (folder / arm / "together.jsonl").exists()]
    if control not in there:
        return
    one, once, groups = "one at a time", "all at once", "together, 0.2 bits"

    def lost(way: str) -> Callable[[Path], Column]:
        def of(arm: Path) -> Column:
            best, this = filled(arm, one, SCORE), filled(arm, way, SCORE)
            return {key: best[key] - this[key] for key in best}

        return of

    def right(way: str) -> Callable[[Path], Column]:
        return lambda arm: filled(arm, way, RIGHT)

    yield from table(
        folder,
        there,
        control,
        {
            "right, one at a time": right(one),
            "right, all at once": right(once),
            "right, in groups": right(groups),
            "lost, all at once": lost(once),
            "lost, in groups": lost(groups),
            "steps, in groups": lambda arm: filled(arm, groups, STEPS),
        },
    )


def tuning_section(folder: Path, arms: Sequence[str]) -> Iterator[str]:
    yield line(["arm", "masks", "compatibility", "marginals", "forward passes", "for pairs"])
    yield line(["---"] * 6)
    said: dict[str, Any] = {}
    for arm in arms:
        if (folder / arm / "tuning.json").exists():
            said = json.loads((folder / arm / "tuning.json").read_text("utf-8"))
            tuning, record = said["plan"]["tuning"], said["record"]
            cells = [tuning["masks"], tuning["compatibility"], tuning["marginals"]]
            counts = [f"{record['passes']:,}", f"{record['pair_passes']:,}"]
            yield line([markdown(arm), *map(str, cells), *counts])


def tables(folder: Path, control: str = CONTROL) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    arms = arms_of(folder, control)
    every = list(settings(folder, arms, control))
    return {
        "goal": list(goal_section(every)),
        "pairs": [text for setting in every for text in setting_section(setting)],
        "blanks": list(pairs_section(folder, arms, control)),
        "sentences": list(sentences_section(folder, arms, control)),
        "together": list(together_section(folder, arms, control)),
        "arms": list(tuning_section(folder, arms)),
    }


def blocks(made: dict[str, list[str]]) -> dict[str, list[str]]:
    """The table that the page shows: the goal on pairs that no choice was made on."""
    heads, rule, *lines = made["goal"]
    return {"goal": [heads, rule, *(text for text in lines if " dev, " not in text)]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Sentences and the page of runs/tune_arms.sh.")
    modes = parser.add_subparsers(dest="mode", required=True)
    sentences = modes.add_parser("sentences")
    sentences.add_argument("--assets", type=Path, required=True)
    sentences.add_argument("--output", type=Path, required=True)
    sentences.add_argument("--count", type=int, default=200)
    measured = modes.add_parser("pairs")
    measured.add_argument("--model", required=True)
    measured.add_argument("--sentences", type=Path, required=True)
    measured.add_argument("--output", type=Path, required=True)
    copied = modes.add_parser("copy")
    copied.add_argument("source", type=Path)
    copied.add_argument("target", type=Path)
    made = modes.add_parser("page")
    made.add_argument("folder", type=Path)
    made.add_argument("--output", type=Path, required=True)
    made.add_argument("--control", default=CONTROL, help="the arm to compare with")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.mode == "sentences":
            write_sentences(chosen.assets, chosen.output, chosen.count)
        elif chosen.mode == "copy":
            copy_lines(chosen.source, chosen.target)
        elif chosen.mode == "pairs":
            write_pairs(chosen.model, chosen.sentences, chosen.output)
        else:
            found = tables(chosen.folder, chosen.control)
            marked_page.write_blocks(chosen.output, blocks(found), found)
    except (UnmaskError, OSError) as error:
        print(f"tune_report: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

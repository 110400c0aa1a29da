"""Write what is of the paper into its two pages, between their marks.

    python runs/paper_tables.py

Its Table 1, as the paper prints it, into docs/concepts/the-paper.md, and what running it again
would take into docs/how-to/reproduce-the-paper.md, by the formulas of runs/cost_table.py.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from cost_table import PAPER, SHAPES, said, there

from unmask.evaluation.reports.paper import MEASURES, TABLE, Entry
from unmask.queries.costs.accelerators import ACCELERATORS
from unmask.settings import Settings

DOCS = Path(__file__).parent.parent / "docs"
MARK, END = "<!-- {}: runs/paper_tables.py -->", "<!-- end of {} -->"

MODELS = {"bert-base-cased": "BERT-base", "bert-large-cased": "BERT-large"}
CORPORA = {"snli": "SNLI", "xsum": "XSum"}
MASKS = ("random", "contiguous")
SCHEMES = {"mlm": "MLM", "mrf-logit": "MRF_L", "mrf": "MRF", "hcb": "HCB", "ag-paper": "AG"}
# tokens of a typical sentence, special ones included, as in runs/table1.sh
LENGTHS = {"snli": 14, "xsum": 30}
EXAMPLES = 1000
# accelerator, precision, and the memory that tables may take there
WAYS = [
    ("A100", "float32", 20 * 10**9),
    ("A100", "bfloat16", 20 * 10**9),
    ("V100", "float32", 20 * 10**9),
    ("A100", "float32", Settings().memory_limit),
]


def table1() -> Iterator[str]:
    """The paper's numbers, a line per model, corpus and scheme."""
    names = ("U-PPL", "P-PPL", "A-KL", "G-KL")
    heads = [f"{name}, {mask}" for mask in MASKS for name in names]
    yield f"| model | corpus | scheme | {' | '.join(heads)} |"
    yield "|---|---|---|" + "---:|" * len(heads)
    for model, shown in MODELS.items():
        for corpus, name in CORPORA.items():
            for scheme, called in SCHEMES.items():
                entries = [
                    (Entry(corpus, mask, model, scheme, measure), 2 if "ppl" in measure else 3)
                    for mask in MASKS
                    for measure in MEASURES
                ]
                cells = " | ".join(f"{TABLE[entry]:.{digits}f}" for entry, digits in entries)
                yield f"| {shown} | {name} | {called} | {cells} |"


def hours() -> Iterator[str]:
    """What both masks of a corpus take, by accelerator, precision and memory."""
    heads = [f"{model}, {corpus}" for model in MODELS.values() for corpus in CORPORA.values()]
    yield f"| GPU | options | {' | '.join(heads)} | all |"
    yield "|---|---|" + "---:|" * (len(heads) + 1)
    for where, dtype, memory in WAYS:
        times = [
            2
            * EXAMPLES
            * there(SHAPES[model].cost(PAPER, length, memory), ACCELERATORS[where], dtype)
            for model in MODELS
            for length in LENGTHS.values()
        ]
        cells = " | ".join(map(said, [*times, sum(times)]))
        default = " (the default)" if memory == Settings().memory_limit else ""
        options = f"`--dtype {dtype} --memory-limit {memory // 10**9}GB`{default}"
        yield f"| {where} | {options} | {cells} |"


TABLES: dict[str, tuple[Path, Callable[[], Iterator[str]]]] = {
    "table1": (DOCS / "concepts" / "the-paper.md", table1),
    "hours": (DOCS / "how-to" / "reproduce-the-paper.md", hours),
}


def with_table(name: str) -> tuple[Path, str]:
    """A page with what stands between its marks made anew."""
    page, lines = TABLES[name]
    mark, end = MARK.format(name), END.format(name)
    before, rest = page.read_text(encoding="utf-8").split(mark)
    return page, before + "\n".join([mark, *lines(), end]) + rest.split(end)[1]


def main() -> None:
    """Write both pages."""
    for name in TABLES:
        page, text = with_table(name)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

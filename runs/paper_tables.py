"""Write the paper's Table 1 into docs/concepts/the-paper.md, between its marks, as it is printed.

python runs/paper_tables.py
"""

from collections.abc import Iterator
from pathlib import Path

from unmask.evaluation.reports.paper import TABLE, Entry

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "the-paper.md"
MARK, END = "<!-- table1: runs/paper_tables.py -->", "<!-- end of table1 -->"

MODELS = {"bert-base-cased": "BERT-base", "bert-large-cased": "BERT-large"}
CORPORA = {"snli": "SNLI", "xsum": "XSum"}
MASKS = ("random", "contiguous")
SCHEMES = {"mlm": "MLM", "mrf-logit": "MRF_L", "mrf": "MRF", "hcb": "HCB", "ag": "AG"}


def table1() -> Iterator[str]:
    """The paper's P-PPL, a line per scheme; the other metrics are in table1-numbers.csv."""
    cells = [(model, corpus, mask) for mask in MASKS for model in MODELS for corpus in CORPORA]
    heads = [f"{MODELS[model]}, {CORPORA[corpus]}, {mask}" for model, corpus, mask in cells]
    yield f"| scheme | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    for scheme, called in SCHEMES.items():
        entries = [
            Entry(corpus, mask, model, scheme, "pairwise_ppl") for model, corpus, mask in cells
        ]
        yield f"| {called} | {' | '.join(f'{TABLE[entry]:.2f}' for entry in entries)} |"


def with_table() -> str:
    """The page with the table between its marks renewed."""
    before, rest = PAGE.read_text(encoding="utf-8").split(MARK)
    return before + "\n".join([MARK, *table1(), END]) + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(with_table(), encoding="utf-8")

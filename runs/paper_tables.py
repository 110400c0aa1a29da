"""Write the paper's Table 1 into docs/concepts/the-paper.md, between its marks, as it is printed.

python runs/paper_tables.py
"""

from collections.abc import Iterator
from pathlib import Path

from unmask.evaluation.reports.paper import MEASURES, TABLE, Entry

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "the-paper.md"
MARK, END = "<!-- table1: runs/paper_tables.py -->", "<!-- end of table1 -->"

MODELS = {"bert-base-cased": "BERT-base", "bert-large-cased": "BERT-large"}
CORPORA = {"snli": "SNLI", "xsum": "XSum"}
MASKS = ("random", "contiguous")
SCHEMES = {"mlm": "MLM", "mrf-logit": "MRF_L", "mrf": "MRF", "hcb": "HCB", "ag": "AG"}


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


def with_table() -> str:
    """The page with what stands between its marks made anew."""
    before, rest = PAGE.read_text(encoding="utf-8").split(MARK)
    return before + "\n".join([MARK, *table1(), END]) + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(with_table(), encoding="utf-8")

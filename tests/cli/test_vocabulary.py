"""One name, one meaning: options are alike in every command, and so are columns."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from reading_pages import columns_of

from unmask.cli import _COMMANDS
from unmask.cli.command import declared
from unmask.evaluation.kind import Evaluate
from unmask.jobs.kinds.consistency import ConsistencyKind
from unmask.jobs.kinds.decode import DecodeKind
from unmask.jobs.kinds.dependence import DependenceKind
from unmask.jobs.kinds.fill import FillKind
from unmask.jobs.kinds.pairs import PairsKind
from unmask.jobs.kinds.score import ScoreKind
from unmask.names import MEASURES

GOLDEN = Path(__file__).parents[1] / "golden"
# options that cannot be alike: what is taken, or what is written, is another thing
DIFFERENT = {
    "method": "commands have methods of their own",
    "support": "tokens of a blank, or places of a text",
    "output": "rows, a folder, or a document",
    "output_format": "rows or a document (report)",
    "column": "one column of texts (score), or several of a corpus",
    "max_passes": "one joint needs fewer (consistency)",
    "exact": "of constructions, or of one joint (consistency)",
    "model": "not needed to compare what was measured (consistency)",
}


def test_an_option_is_the_same_wherever_it_is() -> None:
    by_name: dict[str, set[Any]] = defaultdict(set)
    for command in _COMMANDS.values():
        for one in declared(command):
            if not one.is_positional:
                shown = one.help, one.metavar, one.short, one.choices
                by_name[one.name].add((*shown, repr(one.default), str(one.type)))
    assert {name for name, every in by_name.items() if len(every) > 1} == set(DIFFERENT)


def written(command: str) -> set[str]:
    """The columns that a command adds, with all of its options."""
    kinds: dict[str, list[Any]] = {
        "fill": [FillKind()],
        "decode": [DecodeKind()],
        "pairs": [PairsKind(methods=("orders", "log-pool"))],
        "score": [
            ScoreKind(methods=("unmasking",), order="margin"),
            ScoreKind(words=True),
            ScoreKind(columns=("good", "bad")),
        ],
        "dependence": [DependenceKind(measure=name, tree=True) for name in MEASURES],
        "consistency": [ConsistencyKind()],
    }
    if command == "evaluate":
        return set(Evaluate.output_columns)
    return {name for kind in kinds[command] for name in kind.output_columns}


@pytest.mark.parametrize(
    "command", ["fill", "decode", "pairs", "score", "dependence", "consistency", "evaluate"]
)
def test_the_page_has_the_columns_of_a_command_and_no_other(command: str) -> None:
    assert written(command) == columns_of(command)


def test_tables_of_reports_have_columns_of_the_page() -> None:
    text = (GOLDEN / "evaluate.golden").read_text(encoding="utf-8")
    heads = re.findall(r"^  (?:\| )?(corpus,mask,model,support,.*)$", text, re.MULTILINE)
    assert len(heads) > 1
    metric = re.compile(r"[UP]-PPL|[UP]-NLL|[AG]-KL|[UP] nats/byte")
    names = {metric.sub("METRIC", name) for head in heads for name in head.split(",")}
    assert names <= columns_of("report")

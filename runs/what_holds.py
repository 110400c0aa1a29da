"""The tables of docs/results/replication.md: which findings of the paper hold, and why.

    python runs/what_holds.py

A verdict is that of the largest exact run for a kind of blanks: *yes* if its 95% interval excludes
zero on the paper's side, *no* if it does so on the other, *undecided* if it includes zero. The
other exact runs of at least twenty pairs are in a CSV file. People write the sentences of the page.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import marked_page
from side_by_side import Setting, read
from table1_here_report import CLAIMS, NAMES, Claim, in_the_paper, less

from unmask.resampling import FEWEST

RESULTS = Path(__file__).parent.parent / "docs" / "results"
PAGE = RESULTS / "replication.md"
VERDICTS = ("yes", "no", "not seen", "undecided")
MASKS = ("contiguous", "random")


def settings() -> list[Setting]:
    """Every exact run of at least twenty pairs, the largest first."""
    folders = [*sorted(RESULTS.glob("table1-*/")), *sorted(RESULTS.glob("other-languages/*/"))]
    exact = [one for one in read(folders) if "ag" in one.rows and pairs(one) >= FEWEST]
    return sorted(exact, key=pairs, reverse=True)


def pairs(setting: Setting) -> int:
    return len(setting.rows["mlm"])


def verdict(claim: Claim, setting: Setting) -> tuple[str, str]:
    """In a word, and the difference with its interval."""
    gap = less(setting.rows[claim.lower], setting.rows[claim.higher], claim.metric)
    # one run cannot contradict what is so at times
    opposite = "not seen" if "at times" in claim.text else "no"
    word = "yes" if gap.high < 0 else opposite if gap.low > 0 else "undecided"
    return word, f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"


def counts(setting: Setting) -> Counter[str]:
    """How many of the findings hold in a setting, do not, or are undecided."""
    return Counter(verdict(claim, setting)[0] for claim in CLAIMS)


def findings(every: Sequence[Setting]) -> Iterator[str]:
    """Verdict and difference of the largest run for each kind of blanks."""
    largest = [next(one for one in every if one.group.mask == mask) for mask in MASKS]
    yield f"| finding | in the paper | {' | '.join(named(one) for one in largest)} |"
    yield "|---|---|---|---|"
    for claim in CLAIMS:
        verdicts = [verdict(claim, one) for one in largest]
        paper = [in_the_paper(claim, mask).split(" ")[0] for mask in MASKS]
        cells = [f"{claim.text} ({NAMES[claim.metric]})", ", ".join(paper)]
        # their intervals are in table1-findings-*.csv
        yield f"| {' | '.join([*cells, *(f'**{w}** {gap.split()[0]}' for w, gap in verdicts)])} |"


def runs(every: Sequence[Setting]) -> Iterator[str]:
    yield f"| model | corpus | blanks | pairs | {' | '.join(VERDICTS)} |"
    yield "|---" * (4 + len(VERDICTS)) + "|"
    for one in every:
        number = counts(one)
        cells = [one.group.model, one.group.corpus, one.group.mask, str(pairs(one))]
        yield f"| {' | '.join([*cells, *(str(number[name]) for name in VERDICTS)])} |"


def named(setting: Setting) -> str:
    return f"{setting.group.mask}, n = {pairs(setting)}"


def blocks(every: Sequence[Setting]) -> dict[str, list[str]]:
    return {"findings": list(findings(every))}


def tables(every: Sequence[Setting]) -> dict[str, list[str]]:
    return {"runs": list(runs(every))}


def main() -> int:
    every = settings()
    marked_page.write_blocks(PAGE, blocks(every), tables(every))
    return 0


if __name__ == "__main__":
    sys.exit(main())

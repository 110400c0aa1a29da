"""Pages of scripts in runs/, from rows made up here, and those that are published."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "runs"))

import appendix_d  # noqa: E402
import dependence_report  # noqa: E402
import elbo as elbo_run  # noqa: E402
import marked_page  # noqa: E402
import pivots  # noqa: E402
import pivots_report  # noqa: E402
import unmasking as unmasking_run  # noqa: E402

VERDICTS = ROOT / "docs" / "results" / "what-holds-here.md"
HOSTILE = "<img src=x>|`a`\n# b"
INERT = r"&lt;img src=x&gt;\|\`a\`\\n# b"
METRICS = ("pairwise_nll", "unary_nll", "all_kl", "gold_kl")


def table(lines: list[str], first: str) -> dict[str, list[str]]:
    """The rows of the table whose first heading is this, by their first cell."""
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {first} |"))
    found = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        found[name] = cells
    return found


# the casino


def casino(model: str = "tiny-english") -> appendix_d.Record:
    one = {
        "text": "The [MASK] [MASK] at the casino",
        "tokens": ["The", "[MASK]", HOSTILE],
        "conditionals": [
            {"blank": blank, "token": token, "given": given, "probability": 0.25}
            for blank, token, given in appendix_d.CONDITIONALS
        ],
        "masses": {
            name: {"man is": 10.0**-place, "man was": 0.5}
            for place, name in enumerate(unmask.CONSTRUCTIONS, start=1)
        },
        "likeliest": {name: [HOSTILE, "is"] for name in unmask.CONSTRUCTIONS},
        "incompatibility": 0.125,
    }
    about = {"model": model, "revision": None, "vocabulary": 4096, "versions": {"unmask": "0"}}
    return {**about, "texts": [one]}


def test_the_casino_has_the_papers_values_beside_ours() -> None:
    lines = list(appendix_d.page(casino()))
    conditionals = table(lines, "conditional")
    assert conditionals["q(man &#124; is)"] == ["0.250", "2e-05"]
    assert len(conditionals) == 4
    masses = table(lines, "joint")
    assert list(masses) == list(unmask.CONSTRUCTIONS)
    assert masses["mlm"][:3] == ["0.100", "0.002", "0.500"]
    assert masses["ag"][1] == "not given"
    assert "`mrf` 0.1, `mrf-logit` 0.01" in "\n".join(lines)


def test_the_casino_says_whose_the_values_are() -> None:
    of_another = "paper's values\nare of another model"
    assert of_another in "\n".join(appendix_d.page(casino()))
    for name in ("bert-base-cased", "google-bert/bert-large-cased"):
        assert of_another not in "\n".join(appendix_d.page(casino(name)))


def test_the_casino_takes_no_markup_from_names() -> None:
    said = "\n".join(appendix_d.page(casino(HOSTILE)))
    assert "<img" not in said
    assert "\n# b" not in said
    assert f"**{INERT}**" in said
    # every row of a table has as many cells as its heading
    assert all(len(cells) == 4 for cells in table(said.splitlines(), "joint").values())


def test_a_folder_is_named_by_its_last_part(tmp_path: Path) -> None:
    assert appendix_d.shown_name(str(tmp_path)) == tmp_path.name
    assert appendix_d.shown_name(f"{tmp_path}/") == tmp_path.name
    assert appendix_d.shown_name("some/hub-name") == "some/hub-name"


def test_a_vocabulary_without_the_words_is_one_line() -> None:
    joint = np.random.default_rng(0).random((3, 3))
    lm = unmask.LanguageModel(ToyMaskedLM(joint), ToyTokenizer(3), name="toy")
    with pytest.raises(unmask.UnmaskError, match="'is'"):
        appendix_d.measured(lm, "[MASK] [MASK]")
    lm.tokenizer.unk_token_id = 1
    with pytest.raises(unmask.UnmaskError, match=r"'toy' lacks a token of '.*t1'"):
        appendix_d.check_known(lm, lm.cloze("[MASK] t1"))


def test_the_published_casino_is_made_of_its_figures() -> None:
    folder = ROOT / "docs" / "results"
    found = json.loads((folder / "appendix-d.json").read_text(encoding="utf-8"))
    tables = {"casino": appendix_d.page(found)}
    assert marked_page.stale(marked_page.made(VERDICTS, {}, tables)) == []
    said = " ".join("\n".join(appendix_d.page(found)).split())
    verdicts = " ".join(VERDICTS.read_text(encoding="utf-8").split())
    for pattern in (r"makes \"man was\" ([\d,]+) times likelier", r"is (\d+) times likelier than"):
        (times,) = re.findall(pattern, said)
        assert f"{times} times" in verdicts
    (share,) = re.findall(r"`mrf` gives \"man is\" ([\d.]+) times", said)
    assert f'`mrf` gives "man is" {share} times' in verdicts
    assert "/" not in found["model"]


# the pivot


def pivot_lines(rows: list[dict[str, Any]], joints: list[dict[str, Any]]) -> list[str]:
    return [line for lines in pivots_report.tables(rows, joints).values() for line in (*lines, "")]


def pivot_row(number: int, model: str = "toy", **values: float) -> dict[str, Any]:
    """A metric is the number of its example, plus what is given for a pivot on the first blank."""
    names = ["likeliest", "gold", "rank 2", "random 1", "random 2"]
    moved = {"0": values, "1": {}}
    metrics = {
        axis: {
            name: dict.fromkeys(METRICS, number + moved[axis].get(name.replace(" ", "_"), 0.0))
            for name in names
        }
        for axis in ("0", "1")
    }
    sentence = f"s{number}"
    return {
        "id": f"{sentence}/random",
        "sentence": sentence,
        "mask": "random",
        "model": model,
        "metrics": metrics,
    }


ROWS = [pivot_row(n, rank_2=0.5, random_1=0.1, random_2=0.3, gold=-9.0) for n in range(4)]
JOINTS = [
    {
        "id": f"s{n}",
        "mask": "random",
        "metrics": {m: dict.fromkeys(METRICS, n - 1.0) for m in pivots_report.OTHERS},
    }
    for n in range(4)
]


def test_pivots_are_held_against_the_papers_and_other_joints() -> None:
    lines = pivot_lines(ROWS, JOINTS)
    means = table(lines, "blank, pivot")
    assert list(means)[:4] == ["first, likeliest", "first, gold", "first, rank 2", "first, random"]
    assert len(means) == 8
    assert means["first, likeliest"][0].startswith("1.500 [")
    gaps = table(lines, "minus first, likeliest")
    assert gaps["first, rank 2"] == ["**+0.500 [+0.500, +0.500]**"] * 4
    assert gaps["first, random"][0].startswith("**+0.200 ")
    assert gaps["second, likeliest"][0] == "+0.000 [+0.000, +0.000]"
    assert gaps["*ag*"][0].startswith("**-1.000 ")
    (summary,) = table(lines, "blanks").values()
    assert summary == [
        *("4", "0.500", "+0.000 (second blank, likeliest)", "+0.500 (first blank, rank 2)"),
        *("none", "first blank, rank 2; first blank, random"),
    ]


def test_spread_within_an_example_leaves_out_the_oracle() -> None:
    spread = table(pivot_lines(ROWS, []), "within an example")
    assert spread["largest minus smallest, first blank"][0].startswith("0.500 [")
    assert spread["largest minus smallest, second blank"][0].startswith("0.000 [")
    deviation = spread["standard deviation over random pivots, first blank"][0]
    assert deviation.startswith(f"{np.std([0.1, 0.3], ddof=1):.3f} [")


def test_other_joints_are_shown_only_for_the_same_examples() -> None:
    assert "ag" not in "\n".join(pivot_lines(ROWS, JOINTS[:3]))


def test_rows_of_two_models_make_no_page() -> None:
    with pytest.raises(unmask.UnmaskError, match="one model"):
        pivots_report.tables([*ROWS, pivot_row(9, "other")], [])


def test_pivots_are_what_they_are_called() -> None:
    log_masked = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    found = pivots.pivots(log_masked, 3, [2], "example", 0)
    assert found["likeliest"] == 1
    assert found["gold"] == found["rank 2"] == 3
    assert "rank 10" not in found
    assert [found[f"random {n}"] for n in range(1, pivots.RANDOM + 1)] == [2] * pivots.RANDOM
    again = [pivots.pivots(log_masked, 3, list(range(4)), "example", 0) for _ in range(2)]
    assert again[0] == again[1]


def test_a_torn_row_is_done_again_and_another_models_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert pivots.done(path, "toy") == set()
    whole = json.dumps(pivot_row(1)) + "\n"
    path.write_text(whole + '{"id": "s2/ran', encoding="utf-8")
    assert pivots.done(path, "toy") == {"s1/random"}
    assert path.read_text(encoding="utf-8") == whole
    with pytest.raises(unmask.UnmaskError, match="rows of 'toy'"):
        pivots.done(path, "other")


@pytest.mark.slow
def test_published_pivots_are_made_of_rows_without_text() -> None:
    folder = ROOT / "docs" / "results"
    rows = pivots_report.read([folder / "pivots.jsonl"])
    joints = pivots_report.read([folder / "better-joints.jsonl"])
    tables = pivots_report.tables(rows, joints)
    assert marked_page.stale(marked_page.made(VERDICTS, {}, tables)) == []
    by_blanks = table(tables["pivots"], "blanks")
    low, high = sorted(float(cells[1]) for cells in by_blanks.values())
    page = " ".join(VERDICTS.read_text(encoding="utf-8").split())
    assert f"examples move by {low:.1f} to {high:.1f} nats" in page
    assert {cells[4] for cells in by_blanks.values()} == {"none"}
    for row in rows:
        assert row["id"] == f"{row['sentence']}/{row['mask']}"
        strings = {key for key, value in row.items() if isinstance(value, str)}
        assert strings == {"id", "sentence", "mask", "model"}
    # the paper's pivot is what the other page has for `hcb`
    known = {(row["id"], row["mask"]): row["metrics"]["hcb"] for row in joints}
    for row in rows:
        assert row["metrics"]["0"]["likeliest"] == pytest.approx(
            known[row["sentence"], row["mask"]], abs=1e-4
        )


# dependence


@pytest.mark.slow
def test_the_page_of_dependence_is_made_of_rows_without_text() -> None:
    folder = ROOT / "docs" / "results"
    tables = dependence_report.tables(folder / "dependence")
    page = folder / "dependence.md"
    made = marked_page.made(page, dependence_report.blocks(tables), tables)
    assert marked_page.stale(made) == []
    for name, count in (("trees", 300), ("exact", 100), ("together", 200)):
        rows = dependence_report.read(folder / "dependence" / f"{name}.jsonl")
        assert len({row["id"] for row in rows}) == len(rows) == count
        strings = {key for row in rows for key, value in row.items() if isinstance(value, str)}
        assert strings <= {"id", "lie", "mask", "model"}


# log-probabilities of whole texts


def test_nats_per_token_are_those_of_all_tokens_together() -> None:
    rows = [
        {"tokens": tokens, "scores": {"pll": -1.0, "left-to-right": -2.0 * tokens, "margin": score}}
        for tokens, score in ((2, -6.0), (6, -10.0))
    ]
    batches = [
        {
            "order": "margin",
            "rule": "the largest",
            "reordered": 1,
            "largest": 0.25,
            "largest_in_one_order": 3e-6,
        }
    ]
    record = {
        "model": "m",
        "versions": {"unmask": "0"},
        "sentences": rows,
        "batch_sizes": [1, 7],
        "rounding": 2e-6,
        "batches": batches,
    }
    tables = unmasking_run.tables(record)
    lines = [line for table in tables.values() for line in table]
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if line.startswith("| `")]
    assert cells[0][:2] == ["`pll`", ""]
    assert cells[0][2].startswith("0.250 [")
    assert cells[1] == ["`unmasking`", "`left-to-right`", "2.000 [2.000, 2.000]", ""]
    # two sentences: either alone, or both
    assert cells[2][2:] == ["2.000 [1.667, 3.000]", "+0.000 [-0.333, +1.000]"]
    assert cells[3] == ["`margin`", "the largest", "1 of 2", "0.25", "3e-06"]


@pytest.mark.slow
def test_published_log_probabilities_are_made_of_rows_without_text() -> None:
    folder = ROOT / "docs" / "results"
    record = json.loads((folder / "unmasking.json").read_text(encoding="utf-8"))
    tables, page = unmasking_run.tables(record), folder / "blimp.md"
    assert marked_page.stale(marked_page.made(page, {}, tables)) == []
    text = " ".join(page.read_text(encoding="utf-8").split())
    values = [line.split(" | ")[2].split(" [")[0] for line in tables["unmasking"][2:]]
    assert len(values) == 4
    assert all(value in text.split("## Log-prob")[1] for value in values)
    for row in record["sentences"]:
        assert set(row) == {"id", "tokens", "unknown_tokens", "scores"}
        assert re.fullmatch("[0-9a-f]{12}", row["id"])


def test_sentences_are_distinct_and_in_the_order_of_their_hashes(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("x\tA dog.\tA cat.\ny\tA dog.\tA man.\n", encoding="utf-8")
    found = unmasking_run.sentences(path, 10)
    assert sorted(found.values()) == ["A cat.", "A dog.", "A man."]
    assert list(found) == sorted(found)
    assert unmasking_run.sentences(path, 2) == dict(list(found.items())[:2])


# verdicts by a noisy bound


@pytest.mark.slow
def test_verdicts_that_differ_between_seeds_are_counted() -> None:
    signs = {"p/0": [1.0, 1.0, -1.0, 1.0, 1.0], "p/1": [2.0] * 5}
    names = (elbo_run.EQUAL, *map(str, elbo_run.COUNTS))
    rows = [
        {"id": name, "tokens": [2, 4], "unmasking": -1.0, "elbo": dict.fromkeys(names, own)}
        for name, own in signs.items()
    ]
    record = {
        "versions": {"m": "0"},
        "seeds": 5,
        "seconds": {HOSTILE: 60},
        "models": {HOSTILE: rows},
    }
    blocks, tables = elbo_run.tables(record)
    (seeds,) = [line for line in blocks["seeds"][2:] if " | 32 | " in line]
    # of two pairs one has a seed that differs; of the twenty pairs of its seeds, eight disagree
    pairs, apart, between = seeds.split(" | ")[2:]
    assert (pairs, apart[:7], between[:7]) == ("2", "0.500 [", "0.200 [")
    by_draws = {line.split(" | ")[1]: line.split(" | ")[2:] for line in tables["accuracy"][2:]}
    assert by_draws["as many as tokens"][:4] == ["2", "6.0", "0.900", "0.000"]
    assert by_draws["128"][4].startswith("+0.900 [")
    assert blocks["equal accuracy"][2].endswith("| 1 | 2 | 0.3 times |")
    for row in rows:
        row["unmasking"] = 1.0
    (line,) = elbo_run.tables(record)[0]["equal accuracy"][2:]
    assert line.endswith("| more than 128 | more than 256 | more than 42.7 times |")


@pytest.mark.slow
def test_what_is_measured_is_what_the_library_gives() -> None:
    lm = unmask.LanguageModel(ToyMaskedLM(toy_joint(3, 4, seed=1), noise=0.7), ToyTokenizer(3))
    good, bad = "t0 t1 t2 t2", "t0 t1 t1 t2"
    (row,) = elbo_run.piece(lm, [{"id": "p/0", "sentence_good": good, "sentence_bad": bad}], 1)
    assert set(row) == {"id", "tokens", "unmasking", "elbo"}
    assert set(row["elbo"]) == {elbo_run.EQUAL, *map(str, elbo_run.COUNTS)}
    quiet = unmask.Settings(progress=False)
    for draws in elbo_run.COUNTS:
        for seed in elbo_run.SEEDS:
            how = {"method": "elbo", "draws": draws, "seed": seed, "settings": quiet}
            (ratio,) = lm.log_ratios([(good, bad)], **how)
            assert row["elbo"][str(draws)][seed] == pytest.approx(ratio.log_ratio, abs=2e-5)


@pytest.mark.slow
def test_published_verdicts_are_made_of_rows_without_text() -> None:
    folder = ROOT / "docs" / "results"
    record = json.loads((folder / "elbo.json").read_text(encoding="utf-8"))
    files = marked_page.made(elbo_run.PAGE, *elbo_run.tables(record))
    assert marked_page.stale(files) == []
    check_sentences(files)
    for row in (row for rows in record["models"].values() for row in rows):
        assert set(row) == {"id", "tokens", "unmasking", "elbo"}
        assert re.fullmatch("[A-Za-z0-9_]+/[0-9]+", row["id"])


def check_sentences(files: dict[Path, str]) -> None:
    """Every decimal number in the sentences of a page stands in its tables or its CSV files."""
    page, *tables = files.values()
    blocks = re.findall("(?ms)^<!-- [^\\n]*: made by .*?^<!-- end of ", page)
    # versions have more than one point
    sentences, number = page, r"(?<![\d.])\d+\.\d+(?!\.?\d)"
    for block in blocks:
        sentences = sentences.replace(block, "")
    numbers = set(re.findall(number, "".join([*blocks, *tables])))
    assert set(re.findall(number, sentences)) - numbers == set()

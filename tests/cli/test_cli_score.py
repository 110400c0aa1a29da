"""`unmask score` on a tiny BERT: what goes in, what comes out, and how it ends."""

import csv
import io
import json
import math
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from assets import real_data
from tiny_tokenizers import save_bert
from wilson import wilson_by_roots

import unmask
from unmask import cli
from unmask.cli import many
from unmask.cli.command import value
from unmask.cli.score import ScoreCommand
from unmask.sequences.blimp import hashed

pytestmark = pytest.mark.usefixtures("read_once")

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "score.md"
TEXTS = ["the cat sat on the mat.", "a happy dog ran.", "unhappy cats saw the woman."]
# of equal length, but for the last
PAIRS = [
    ("the cat sat.", "the sat cat."),
    ("a dog ran.", "a dog mat."),
    ("the man saw a dog.", "the man a saw dog."),
    ("the cats sat.", "the cat sat."),
]
Score = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture
def score(folder: str, capsys: pytest.CaptureFixture[str]) -> Score:
    def run(*arguments: str) -> tuple[str, str]:
        assert cli.main(["score", *arguments, "-m", folder]) == 0
        return capsys.readouterr()

    return run


@pytest.fixture
def rows(score: Score) -> Callable[..., list[dict[str, Any]]]:
    def run(*arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in score(*arguments, "--json")[0].splitlines()]

    return run


@pytest.fixture
def rejected(folder: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run it, which must end in one line and exit code 2."""

    def run(*arguments: str) -> str:
        assert cli.main(["score", *arguments, "-m", folder]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("unmask: ")
        assert err.count("\n") == 1
        assert err[:-1].isprintable()
        return err

    return run


@pytest.fixture
def pairs_file(tmp_path: Path) -> str:
    path = tmp_path / "pairs.jsonl"
    made = [
        {"item": n, "good": good, "bad": bad, "kind": "ab"[n % 2]}
        for n, (good, bad) in enumerate(PAIRS)
    ]
    path.write_text("\n".join(map(json.dumps, made)))
    return str(path)


def given(texts: list[str]) -> list[str]:
    return [word for text in texts for word in ("--text", text)]


# -- texts


@pytest.mark.slow
def test_rows_hold_what_python_returns(rows, lm, folder) -> None:
    found = rows(*given(TEXTS), "--method", "pll,pll-word-l2r")
    assert [row["text"] for row in found] == [text for text in TEXTS for _ in range(2)]
    for method in ("pll", "pll-word-l2r"):
        own = [row for row in found if row["method"] == method]
        for row, one in zip(own, lm.score(TEXTS, method=method), strict=True):
            assert row["score"] == pytest.approx(one.score)
            assert (row["tokens"], row["forward_passes"]) == (one.tokens, one.forward_passes)
    assert list(found[0]) == [
        *("text", "method", "score", "tokens", "unknown_tokens"),
        *("special_tokens", "forward_passes", "unit", "model", "reason"),
    ]
    assert (found[0]["unit"], found[0]["model"]) == ("nats", Path(folder).name)


@pytest.mark.parametrize("output", ["table", "folder"])
def test_a_word_without_tokens_has_a_reason_and_no_surprisal(
    output, score, rows, lm, tmp_path
) -> None:
    texts = ["the zebra sat.", "the cat sat."]
    if output == "table":
        found = rows(*given(texts), "--words")
    else:
        (tmp_path / "a.txt").write_text("\n".join(texts))
        _, err = score(str(tmp_path / "a.txt"), "--words", "-o", f"{tmp_path / 'out'}/")
        assert "these words have a reason instead of a surprisal" in err
        assert "not scored" not in err
        (part,) = (tmp_path / "out").glob("**/*.parquet")
        found = parquet.read_table(part).to_pylist()
    assert [row["word"] for row in found if row["reason"]] == ["zebra"]
    assert found[1]["reason"] == "this vocabulary has no pieces for 'zebra'"
    assert found[1]["surprisal"] is None
    others = [word for one in lm.score(texts) for word in one.words if not word.is_unknown]
    surprisals = [row["surprisal"] for row in found if not row["reason"]]
    assert surprisals == pytest.approx([-word.log_prob for word in others])


@pytest.mark.slow
@pytest.mark.parametrize("order", ["left-to-right", "surest", "margin"])
def test_log_probabilities_have_their_order_in_the_row(rows, score, lm, order) -> None:
    how = ["--method", "pll,unmasking", "--order", order]
    found = rows(*given(TEXTS), *how)
    assert list(found[0])[:4] == ["text", "method", "order", "score"]
    assert [(row["method"], row["order"]) for row in found[:2]] == [
        ("pll", None),
        ("unmasking", order),
    ]
    own = lm.score(TEXTS, method="unmasking", order=order)
    assert [row["score"] for row in found[1::2]] == pytest.approx([one.score for one in own])
    out, _ = score(*given(TEXTS), *how)
    assert out.endswith(
        "\n\npll: in nats; a score, not a log-probability\n"
        f"unmasking, {order}: in nats; the log-probability of a text among all with equally many "
        "tokens\n"
    )
    words = rows("--text", TEXTS[2], "--method", "unmasking", "--order", order, "--words")
    assert {word["order"] for word in words} == {order}
    total = sum(word["surprisal"] for word in words)
    assert total == pytest.approx(-own[2].score)


@pytest.mark.slow
def test_pairs_are_compared_in_an_order(rows, score, lm, pairs_file) -> None:
    how = ["--pairs", "good,bad", "--method", "unmasking", "--order", "surest"]
    found = rows(pairs_file, *how)
    own = lm.log_ratios(PAIRS, method="unmasking", order="surest")
    assert [row["log_ratio"] for row in found] == pytest.approx([one.log_ratio for one in own])
    assert {(row["order"], row["standard_error"], row["orders"]) for row in found} == {
        ("surest", None, 0)
    }
    said = "unmasking, surest: in nats; differences of log-probabilities, each of a text among all"
    assert said in score(pairs_file, *how)[0]


def test_orders_are_spelled_loosely_and_have_a_default(rows) -> None:
    (row,) = rows("--text", TEXTS[0], "--method", "unmasking")
    (same,) = rows("--text", TEXTS[0], "--method", "Unmasking", "--order", "Left_to_Right")
    assert row == same
    assert row["order"] == "left-to-right"


def test_words_add_up_to_the_score(rows) -> None:
    (whole,) = rows("--text", TEXTS[2])
    words = rows("--text", TEXTS[2], "--words", "--base-two")
    total = sum(word["surprisal"] for word in words)
    assert total == pytest.approx(-whole["score"] / math.log(2))
    assert [word["word"] for word in words] == ["unhappy", "cats", "saw", "the", "woman", "."]
    assert [TEXTS[2][word["start"] : word["end"]] for word in words] == [w["word"] for w in words]
    assert [word["pieces"] for word in words] == [2, 2, 1, 1, 1, 1]
    assert {word["unit"] for word in words} == {"bits"}


def test_a_text_that_the_model_cannot_take_has_a_reason(rows, score, rejected) -> None:
    long = "the cat " * 30
    found = rows("--text", TEXTS[0], "--text", long, "--text", "the [MASK].", "--text", TEXTS[1])
    assert [row["score"] is None for row in found] == [False, True, True, False]
    assert found[1]["reason"] == "the text has 62 tokens; this model takes at most 24"
    assert "holds [MASK]" in found[2]["reason"]
    alone = rows("--text", TEXTS[1])
    assert found[3]["score"] == pytest.approx(alone[0]["score"], abs=1e-6)
    assert (
        "pll: 1 of 2 texts not scored, e.g.: the text has 62"
        in (score("--text", TEXTS[0], "--text", long)[0])
    )
    assert "none of the texts (1) can be scored: the text has 62" in rejected("--text", long)


# -- files


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
def test_files_go_round(format, score, rows, tmp_path) -> None:
    """A file in, the same columns out, and the output as the next input."""
    table = [["item", "sentence", "condition"], ["7", TEXTS[0], "x"], ["8", TEXTS[1], "y, z"]]
    source = tmp_path / f"in.{format}"
    with source.open("w", newline="") as file:
        if format == "jsonl":
            file.writelines(
                json.dumps(dict(zip(table[0], row, strict=True))) + "\n" for row in table[1:]
            )
        else:
            csv.writer(file, delimiter="\t" if format == "tsv" else ",").writerows(table)
    once, twice = tmp_path / f"once.{format}", tmp_path / f"twice.{format}"
    score(str(source), "--column", "sentence", "--prefix", "a_", "--output", str(once))
    score(str(once), "--column", "sentence", "--method", "pll-word-l2r", "--output", str(twice))
    plain = rows(*given(TEXTS[:2]))
    read = as_rows(twice, format)
    assert list(read[0])[:5] == ["item", "sentence", "condition", "a_method", "a_score"]
    assert [row["condition"] for row in read] == ["x", "y, z"]
    assert [float(row["a_score"]) for row in read] == pytest.approx([r["score"] for r in plain])
    assert [row["method"] for row in read] == ["pll-word-l2r"] * 2


def as_rows(path: Path, format: str) -> list[dict[str, Any]]:
    if format == "jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return list(csv.DictReader(path.open(), delimiter="\t" if format == "tsv" else ","))


def test_values_of_json_pass_through_unchanged(rows, score, tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    first = {"id": 3, "ok": True, "none": None, "text": TEXTS[0], "deep": {"a": [1.5, "\u202e"]}}
    path.write_text(json.dumps(first) + "\n" + json.dumps({"text": TEXTS[1], "extra": "e"}))
    found = rows(str(path))
    assert {name: found[0][name] for name in first} == first
    assert list(found[0])[:5] == list(first)
    assert "extra" not in found[0]
    # a table has all columns, those of single rows before the new ones
    (head, one, other) = csv.reader(io.StringIO(score(str(path), "--output-format", "csv")[0]))
    assert head[:7] == ["id", "ok", "none", "text", "deep", "extra", "method"]
    assert one[:6] == ["3", "true", "", TEXTS[0], '{"a": [1.5, "\\u202e"]}', ""]
    assert other[:6] == ["", "", "", TEXTS[1], "", "e"]


def test_control_characters_and_formulas_are_inert(score, rows, tmp_path) -> None:
    hostile = "=the \x1b[31mcat | <b>sat</b>\u202e"
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": hostile, "=1+1": "@x\r\n", "n": "-1.5"}))
    (row,) = rows(str(path))
    assert (row["text"], row["=1+1"]) == (hostile, "@x\r\n")
    assert rows(str(path)) != []
    out, _ = score(str(path), "--json")
    assert out[:-1].isprintable()
    for format in ("csv", "tsv"):
        out, _ = score(str(path), "--output-format", format)
        assert all(line.replace("\t", "").isprintable() for line in out.splitlines())
        head, *lines = out.splitlines()
        cells = "\n".join(lines)
        assert "'\\=the \\x1b[31mcat | <b>sat</b>\\u202e" in cells
        assert head.startswith("text")
        assert "'\\=1+1" in head
        # quoted in CSV, escaped where cells end at such characters
        assert ("'\\@x\\r\\n" if format == "tsv" else "\"'\\@x") in cells
        assert "-1.5" in cells
        assert "'-1.5" not in cells
    table, _ = score(str(path))
    assert "\x1b" not in table
    assert "\\x1b[31mcat | <b>sat</b>\\u202e" in table


@pytest.mark.slow
def test_texts_can_be_left_out(rows, pairs_file) -> None:
    found = rows(pairs_file, "--pairs", "good,bad", "--no-text")
    assert list(found[0])[:3] == ["item", "kind", "method"]
    assert not any(text in json.dumps(found) for pair in PAIRS for text in pair)


def test_an_output_is_whole_and_says_nothing_else(score, tmp_path) -> None:
    output = tmp_path / "a.jsonl"
    output.write_text("of before")
    out, err = score(*given(TEXTS), "--output", str(output), "--quiet")
    assert (out, err) == ("", "")
    assert len(output.read_text().splitlines()) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    limited = score(*given(TEXTS), "--output", str(output), "--limit", "2")
    assert limited[1] == "pll: in nats; a score, not a log-probability\n"
    assert len(output.read_text().splitlines()) == 2


# -- pairs


@pytest.mark.slow
def test_pairs_hold_what_python_returns(rows, lm, pairs_file) -> None:
    methods = ("pll", "pll-word-l2r", "hcb-path")
    found = rows(pairs_file, "--pairs", "good,bad", "--method", ",".join(methods), "--orders", "4")
    assert [row["method"] for row in found] == [*methods] * len(PAIRS)
    for method in methods:
        options = {"draws": 4} if method == "hcb-path" else {}
        expected = lm.log_ratios(PAIRS, method=method, **options)
        own = [row for row in found if row["method"] == method]
        for row, one in zip(own, expected, strict=True):
            ratio = one.log_ratio
            assert row["log_ratio"] == (None if ratio is None else pytest.approx(ratio, abs=1e-6))
            assert row["reason"] == one.reason
            assert row["correct"] == (None if ratio is None else float(ratio > 0))
    reasons = [row["reason"] for row in found if row["method"] == "hcb-path"]
    assert reasons[:3] == [None] * 3
    assert "equally many" in reasons[3]


def test_accuracy_by_hand(score, lm, pairs_file) -> None:
    out, _ = score(pairs_file, "--pairs", "good,bad", "--method", "hcb-path", "--by", "kind")
    ratios = [one.log_ratio for one in lm.log_ratios(PAIRS, method="hcb-path")]
    wins = [None if ratio is None else ratio > 0 for ratio in ratios]
    pairs, by_kind, overall, notes = out.split("\n\n")
    assert len(pairs.splitlines()) == 1 + len(PAIRS)
    shares = []
    for kind, (place, line) in zip("ab", enumerate(by_kind.splitlines()[1:]), strict=True):
        known = [win for win in wins[place::2] if win is not None]
        low, high = wilson_by_roots(sum(known), len(known))
        shares.append(sum(known) / len(known))
        assert re.split(r"  +", line)[:5] == [
            *(kind, "hcb-path", f"{shares[-1]:.3f}", f"{low:.3f} to {high:.3f}"),
            f"{len(known)} of 2",
        ]
    head, line = overall.splitlines()
    assert re.split(r"  +", head)[:3] == ["overall", "method", "accuracy"]
    assert re.split(r"  +", head)[-1] == "mean of"
    assert re.split(r"  +", line)[0] == "mean over kind"
    assert re.split(r"  +", line)[-1] == "2"
    assert re.split(r"  +", line)[2] == f"{sum(shares) / 2:.3f}"
    assert "hcb-path: 1 of 4 pairs not compared, e.g.: the texts have 5 and 4 tokens" in notes


def test_a_tie_counts_half(score, tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("good,bad\nthe cat.,THE cat.\n")
    out, _ = score(str(path), "--pairs", "good,bad", "--method", "hcb-path")
    assert re.search(r"all pairs +hcb-path +0\.500 +0\.055 to 0\.945 +1 of 1 +1 ", out)


def test_rows_go_to_the_file_and_accuracy_to_stdout(score, pairs_file, tmp_path) -> None:
    output = tmp_path / "a.tsv"
    out, err = score(pairs_file, "--pairs", "good,bad", "--output", str(output))
    assert out.startswith("overall")
    assert "a tie counts half" in err
    assert len(output.read_text().splitlines()) == 1 + len(PAIRS)
    out, err = score(pairs_file, "--pairs", "good,bad", "--json")
    assert len(out.splitlines()) == len(PAIRS)
    assert err.startswith("overall")
    assert score(pairs_file, "--pairs", "good,bad", "--json", "--quiet")[1] == ""


def test_no_pair_that_can_be_compared(rejected, tmp_path) -> None:
    path, output = tmp_path / "a.csv", tmp_path / "out.csv"
    path.write_text("good,bad\nthe cats.,the cat.\nthe dogs sat.,the dog sat.\n")
    arguments = (str(path), "--pairs", "good,bad", "--output", str(output))
    said = rejected(*arguments, "--method", "hcb-path")
    assert "none of the pairs (2) can be compared by hcb-path: the texts have" in said
    assert not output.exists()


# -- BLiMP


def test_blimp_by_paradigm_field_and_overall(score, rows, lm, tmp_path) -> None:
    source = tmp_path / "blimp"
    source.mkdir()
    fields = {"order": "syntax/semantics", "words": "syntax_semantics", "verbs": "morphology"}
    for name, field in fields.items():
        made = [
            {
                "sentence_good": good,
                "sentence_bad": bad,
                "field": field,
                "linguistics_term": name,
                "UID": name,
                "pairID": str(n),
                "crucial_item": "x",
            }
            for n, (good, bad) in enumerate(PAIRS[: 4 if name == "order" else 3])
        ]
        (source / f"{name}.jsonl").write_text("\n".join(map(json.dumps, made)))
    ratios = [one.log_ratio for one in lm.log_ratios(PAIRS, method="pll")]
    shares = [sum(ratio > 0 for ratio in ratios) / 4, sum(r > 0 for r in ratios[:3]) / 3]
    output = tmp_path / "out.jsonl"
    out, _ = score("--blimp", str(source), "--output", str(output))
    by_paradigm, _, by_field, overall = (
        [re.split(r"  +", line) for line in part.splitlines()] for part in out.strip().split("\n\n")
    )
    assert [line[0] for line in by_paradigm] == ["UID", "order", "verbs", "words"]
    assert by_paradigm[1][2] == f"{shares[0]:.3f}"
    # one field, whichever way it is written
    assert [line[0] for line in by_field] == ["field", "syntax_semantics", "morphology"]
    assert by_field[1][2] == f"{sum(shares) / 2:.3f}"
    assert overall[1][0] == "mean over UID"
    assert overall[1][-1] == "3"
    assert overall[1][2] == f"{(shares[0] + 2 * shares[1]) / 3:.3f}"
    found = as_rows(output, "jsonl")
    assert [row["id"] for row in found][:4] == ["order/0", "order/1", "order/2", "order/3"]
    (least, _) = sorted((f"order/{n}" for n in range(4)), key=hashed)[:2]
    limited = rows("--blimp", str(source), "--paradigm", "order", "--limit", "1", "--no-text")
    assert [row["id"] for row in limited] == [least]
    assert list(limited[0])[:5] == ["id", "UID", "linguistics_term", "field", "method"]


@pytest.mark.real
def test_a_real_model_prefers_what_is_grammatical(tiny_english: unmask.LanguageModel) -> None:
    pairs = [
        ("A man is playing a guitar.", "A man are playing a guitar."),
        ("Two dogs are running in the grass.", "Two dogs is running in the grass."),
        ("A woman is sitting on a bench.", "A woman is sit on a bench."),
    ]
    for method in ("pll", "hcb-path"):
        for one in tiny_english.log_ratios(pairs, method=method):
            assert one.log_ratio is None or one.log_ratio > 0


@pytest.mark.assets("BLiMP")
def test_a_paradigm_of_the_real_blimp(score, tmp_path) -> None:
    place = real_data("blimp/anaphor_number_agreement.jsonl").parent
    out, _ = score(
        *("--blimp", str(place), "--paradigm", "anaphor_number_agreement", "--limit", "3"),
        *("--output", str(tmp_path / "a.csv")),
    )
    assert out.splitlines()[-1].startswith("mean over UID")
    assert "3 of 3" in out


# -- what is rejected


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--text", "a", "--column", "x"], "--column does not apply to a text, but to a file"),
        (["--text", "a", "--given", "x"], "--given does not apply to a text"),
        (["--text", "a", "--method", "log-pool"], "pll-word-l2r, unmasking, elbo, not 'log-pool'"),
    ],
)
def test_bad_input_ends_in_one_line(arguments: list[str], sentence: str, rejected) -> None:
    assert sentence in rejected(*arguments)


def test_a_row_that_cannot_be_read_has_a_reason(rows, tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"item,text\n1,the cat.\n2\n3,caf\xe9\n4,the dog.\n")
    first, second, third, fourth = rows(str(path))
    assert second["reason"].startswith(f"line 3 of '{path}' has 1 fields, but the first has 2")
    assert third["reason"].startswith(f"line 4 of '{path}' is not UTF-8: its byte 6 is 0xe9")
    assert [row["score"] is None for row in (first, second, third, fourth)] == [
        *(False, True, True, False),
    ]


@pytest.mark.parametrize("name", ["_plan.json", "part-0.jsonl", "_part-000000-3f.json"])
def test_files_of_a_run_are_not_overwritten(name: str, rejected, score, tmp_path) -> None:
    run = tmp_path / "run"
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    for file in {run / "_plan.json", run / name}:
        file.write_text("of the run")
    said = rejected("--text", TEXTS[0], "--output", str(run / name), "--output-format", "jsonl")
    assert f"belongs to the job '{run}' and would be lost; give another place" in said
    assert (run / name).read_text() == "of the run"
    # beside them there is room
    score("--text", TEXTS[0], "--output", str(run / "scores.csv"))


# -- the page


def commands() -> Iterator[list[str]]:
    page = PAGE.read_text(encoding="utf-8")
    for script in re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        for line in script.replace("\\\n", " ").splitlines():
            words = shlex.split(line)
            if "score" in words:
                yield words[words.index("score") :]


@pytest.mark.parametrize("words", list(commands()), ids=lambda words: " ".join(words[3:])[:60])
def test_commands_of_the_page_are_sound(words: list[str]) -> None:
    command = value(ScoreCommand, vars(cli._parser().parse_args(words)))
    command.check(is_text=False)
    assert command.kind().methods
    many.is_folder(command)


@pytest.mark.slow
def test_the_snippet_of_the_page_runs(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    page = PAGE.read_text(encoding="utf-8")
    *_, code = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(
        compile(code.replace("bert-base-cased", Path(folder).as_posix()), "score.md", "exec"), names
    )
    assert list(names["frame"]["text"]) == ["the cat sat on the mat.", "the dog ran."]
    assert len(names["by_word"]) == 11
    assert "Accuracy(value=" in capsys.readouterr().out

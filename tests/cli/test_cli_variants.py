"""`unmask variants` on a tiny ESM: assays in, scored assays out, and how it ends."""

import csv
import io
import itertools
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from counted_rows import counted_rows
from naive_variants import changed
from snippets import CHAIN
from tiny_models import saved

import unmask
from unmask.cli import main
from unmask.model import row_reader
from unmask.sequences.variant_metrics import evaluate_variants, evaluation_table

pytestmark = pytest.mark.usefixtures("read_once")

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "proteins.md"
WILDTYPE = "MKTAYIAKQRLEDWGHCSPV"
MUTANTS = ["A4G", "A4G:K8L", "K2R:Q9W:V20F", "K8E"]
QUIET = unmask.Settings(progress=False, announce=False)
ADDED = [
    *("single-mask-marginals", "single-mask-marginals_interaction"),
    *("single-mask-marginals_forward_passes", "mutation_count", "window", "model", "reason"),
]
Run = Callable[..., tuple[int, str, str]]


def assay(mutants: list[str], wildtype: str = WILDTYPE) -> list[dict[str, str]]:
    """Rows with the columns that ProteinGym's assays have."""
    return [
        {
            "mutant": one,
            "mutated_sequence": changed(
                wildtype, [(int(part[1:-1]) - 1, part[-1]) for part in one.split(":")]
            ),
            "DMS_score": f"{-0.5 * number:.3f}",
            "DMS_score_bin": str(number % 2),
        }
        for number, one in enumerate(mutants)
    ]


def write(place: Path, rows: list[dict[str, Any]]) -> Path:
    with place.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return place


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved("esm", tmp_path_factory.mktemp("esm"))


@pytest.fixture(scope="module")
def lm(folder: str) -> unmask.LanguageModel:
    return unmask.load(folder)


@pytest.fixture
def variants(folder: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `unmask variants`; exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["variants", *map(str, arguments), "-m", folder])
        return code, *capsys.readouterr()

    return run


@pytest.mark.slow
def test_an_assay_of_proteingym_is_scored_by_one_command(variants, lm, folder, tmp_path) -> None:
    given = assay(MUTANTS)
    output = tmp_path / "scores.csv"
    code, out, err = variants(write(tmp_path / "assay.csv", given), "-o", output)
    assert (code, out) == (0, "")
    passes = "single-mask-marginals: 5 forward passes of 22 tokens\n"
    assert err == f"{passes}unmask: 4 of 4 variants scored\n"
    found = read(output.read_text(encoding="utf-8"))
    assert list(found[0]) == [*given[0], *ADDED]
    expected = lm.variants(WILDTYPE, MUTANTS, settings=QUIET)
    for row, before, one in zip(found, given, expected, strict=True):
        assert {name: row[name] for name in before} == before
        assert float(row["single-mask-marginals"]) == pytest.approx(one.score, abs=1e-5)
        assert int(row["single-mask-marginals_forward_passes"]) == one.forward_passes
        assert int(row["mutation_count"]) == len(one.mutations)
        assert (row["reason"], row["window"]) == ("", "")
        assert row["model"] == Path(folder).name
        # the sum of single mutations has none
        interaction = "" if len(one.mutations) == 1 else "0.0"
        assert row["single-mask-marginals_interaction"] == interaction
    assert not output.with_name("scores.csv.partial").exists()


@pytest.mark.slow
def test_methods_have_a_column_each(variants, lm, tmp_path) -> None:
    names = ["wt-marginals", "pll", "hcb-path", "orders"]
    place = write(tmp_path / "assay.csv", assay(MUTANTS))
    code, out, _ = variants(place, "--method", "wt-marginals,pll", "--method", "hcb-path,orders")
    found = read(out)
    assert code == 0
    added = [name for name in found[0] if name not in assay(MUTANTS)[0]]
    assert added == [
        *("wt-marginals", "wt-marginals_interaction", "pll", "hcb-path", "hcb-path_interaction"),
        *("hcb-path_spread", "orders", "orders_interaction"),
        *(f"{name}_forward_passes" for name in names),
        *("blocks", "mutation_count", "window", "model", "reason"),
    ]
    for name in names:
        expected = lm.variants(WILDTYPE, MUTANTS, method=name, settings=QUIET)
        assert [float(row[name]) for row in found] == pytest.approx(
            [one.score for one in expected], abs=1e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize("given", ["letters", "fasta"])
@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
def test_a_wild_type_in_hand(given, format, variants, lm, tmp_path) -> None:
    wildtype = WILDTYPE
    if given == "fasta":
        (tmp_path / "wt.fasta").write_text(f">wt\n{WILDTYPE[:10]}\n{WILDTYPE[10:]}\n")
        wildtype = str(tmp_path / "wt.fasta")
    place = tmp_path / f"assay.{format}"
    separator = {"csv": ",", "tsv": "\t"}.get(format)
    if separator is None:
        lines = [json.dumps({"id": n, "mutant": one}) for n, one in enumerate(MUTANTS)]
    else:
        lines = [separator.join(("id", "mutant"))]
        lines += [f"{n}{separator}{one}" for n, one in enumerate(MUTANTS)]
    place.write_text("\n".join(lines) + "\n")
    code, out, _ = variants(place, "--sequence", wildtype, "--prefix", "x_", "--quiet")
    expected = [one.score for one in lm.variants(WILDTYPE, MUTANTS, settings=QUIET)]
    assert code == 0
    scores = [float(row["x_single-mask-marginals"]) for row in read(out)]
    assert scores == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_a_folder_of_assays_has_a_wild_type_per_file(variants, lm, tmp_path) -> None:
    assays = tmp_path / "DMS_ProteinGym_substitutions"
    assays.mkdir()
    other = WILDTYPE[::-1]
    write(assays / "A_HUMAN.csv", assay(MUTANTS))
    write(assays / "B_ECOLI.csv", assay(["V1A:P2A", "S3G"], other))
    scores = f"{tmp_path}/scores/"
    assert variants(assays, "-o", scores, "--texts-per-unit", "3")[0] == 0
    assert main(["merge", scores, f"{tmp_path}/all.csv"]) == 0
    found = read((tmp_path / "all.csv").read_text())
    assert [row["assay"] for row in found] == ["A_HUMAN"] * 4 + ["B_ECOLI"] * 2
    expected = [
        *lm.variants(WILDTYPE, MUTANTS, settings=QUIET),
        *lm.variants(other, ["V1A:P2A", "S3G"], settings=QUIET),
    ]
    assert [float(row["single-mask-marginals"]) for row in found] == pytest.approx(
        [one.score for one in expected], abs=1e-5
    )
    # into one file too
    assert variants(assays, "-o", tmp_path / "one.csv")[0] == 0
    one = read((tmp_path / "one.csv").read_text())
    assert [(row["assay"], row["mutant"]) for row in one] == [
        (row["assay"], row["mutant"]) for row in found
    ]


@pytest.mark.slow
def test_a_parquet_file_keeps_its_columns(variants, tmp_path) -> None:
    import pyarrow as pa

    pq.write_table(pa.Table.from_pylist(assay(MUTANTS)), tmp_path / "assay.parquet")
    assert variants(tmp_path / "assay.parquet", "-o", f"{tmp_path}/p/")[0] == 0
    (part,) = (tmp_path / "p").rglob("*.parquet")
    table = pq.read_table(part)
    assert table.column_names == ["assay", *assay(MUTANTS)[0], *ADDED]
    assert table.column("assay").to_pylist() == ["assay"] * 4


@pytest.mark.real
@pytest.mark.assets("antiberty")
def test_the_how_to_shows_what_the_command_writes(tmp_path, capsys, monkeypatch) -> None:
    from assets import real_model

    page = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trastuzumab-vh.fasta").write_text(f">vh\n{CHAIN}\n")
    (tmp_path / "variants.csv").write_text(re.findall(r"```csv\n(.*?)```", page, re.DOTALL)[0])
    (line,) = re.findall(r"^unmask (variants variants.csv.*?)^```", page, re.DOTALL | re.MULTILINE)
    words = shlex.split(line.replace("\\\n", " "))
    words[words.index("antiberty")] = str(real_model("antiberty"))
    assert main(words) == 0
    found = read((tmp_path / "variants-scored.csv").read_text())
    table = re.findall(r"^\| (mutant .*?)\n\n", page, re.DOTALL | re.MULTILINE)[0]
    lines = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in table.splitlines()]
    for row, shown in zip(found, lines[2:], strict=True):
        for name, cell in zip(lines[0], shown, strict=True):
            if cell and name != "mutant":
                assert float(row[name]) == pytest.approx(float(cell), abs=6e-4)
            else:
                assert row[name] == cell


# --- what it costs -----------------------------------------------------------------------------

LONG = (WILDTYPE * 5)[:90]
ELEVEN = ":".join(f"{WILDTYPE[p]}{p + 1}{'G' if WILDTYPE[p] != 'G' else 'A'}" for p in range(11))


def announced(err: str) -> int:
    found = re.match(r"[\w, -]+: ([\d,]+) forward pass(?:es)? of \d+ tokens\n", err)
    assert found is not None, err
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize(
    ("mutants", "wildtype", "options"),
    [
        (["A4G"], WILDTYPE, []),
        # distinct requests run once
        ([*MUTANTS, "A4G:K8E", "A4G"], WILDTYPE, []),
        (MUTANTS, WILDTYPE, ["--method", "wt-marginals,pll,hcb-path,orders,mlm,match-fill"]),
        (["K2R:A4G:K8L:Q9W:V20F"], WILDTYPE, ["--block", "3"]),
        (["M1A", "A4G:G15A", "A24G:K88R", "K88E"], LONG, ["--method", "log-pool,pll"]),
        pytest.param([ELEVEN], WILDTYPE, ["--method", "hcb-path"], marks=pytest.mark.slow),
    ],
)
def test_what_is_announced_is_what_runs(
    mutants, wildtype, options, variants: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = counted_rows(monkeypatch)
    place = write(tmp_path / "assay.csv", assay(mutants, wildtype))
    code, _, err = variants(place, *options)
    assert code == 0
    assert announced(err) == sum(rows)
    if mutants[0] == ELEVEN:
        assert sum(rows) == 11 * 2**10


@pytest.mark.slow
def test_of_many_variants_those_that_run_first_are_counted(
    variants: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = counted_rows(monkeypatch)
    place = write(tmp_path / "assay.csv", assay(MUTANTS * 3))
    given, folder = [place, "--texts-per-unit", "2"], f"{tmp_path}/parts/"
    all_like = "for all of them, if they are like these, about"
    # the head of a file is a line of its first unit
    first = "single-mask-marginals: 1 forward pass of 22 tokens for 1 of 12 variants"
    said = f"{first}; {all_like} 12 forward "
    assert variants(*given, "--dry-run") == (0, f"{said}passes\n", "")
    assert variants(*given, "-o", folder, "--dry-run") == (0, f"{said}passes\n", "")
    assert (sum(rows), Path(folder).exists()) == (0, False)
    assert variants(*given, "--quiet")[2] == ""
    assert variants(*given)[2].startswith(said)
    assert variants(*given, "-o", folder)[2].startswith(said)
    # one that is complete runs nothing, and announces nothing
    assert "forward pass" not in variants(*given, "-o", folder)[2]


def test_a_long_variant_shows_how_far_it_is(
    variants: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[Any] = []
    real = row_reader.bar

    def noted(what: str, **about: Any) -> Any:
        bars.append(about["shown"])
        return real(what, **about)

    monkeypatch.setattr(row_reader, "bar", noted)
    place = write(tmp_path / "assay.csv", assay(MUTANTS))
    for more, shown in (([], None), (["--quiet"], False)):
        bars.clear()
        assert variants(place, *more)[0] == 0
        # None is a bar on a terminal
        assert set(bars) == {shown}


# --- how it ends -------------------------------------------------------------------------------


def test_bad_variants_have_a_reason_each(variants, tmp_path) -> None:
    rows = assay(MUTANTS)
    rows[0]["mutant"], rows[2]["mutant"] = "", "p.Lys2Arg"
    rows[3]["mutated_sequence"] = "nan"
    code, out, err = variants(write(tmp_path / "assay.csv", rows))
    assert code == 0
    assert [bool(row["reason"]) for row in read(out)] == [True, False, True, True]
    assert err == (
        "single-mask-marginals: 2 forward passes of 22 tokens\n"
        "unmask: 1 of 4 variants scored; the others have a reason instead, e.g.: "
        "there is no mutation; write A24G or A24G:K31R\n"
    )


def test_where_no_variant_can_be_scored_nothing_is_left(variants, tmp_path) -> None:
    place = write(tmp_path / "assay.csv", [{"mutant": "A4*"}, {"mutant": "A99G"}])
    code, out, err = variants(place, "--sequence", WILDTYPE, "-o", tmp_path / "out.csv")
    assert (code, out) == (2, "")
    assert err == (
        "unmask: none of the 2 variants can be scored, e.g.: 'A4*' in 'A4*' is not a mutation; "
        "write A42G or A42G:L45K\n"
    )
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        ([{"mutation": "A4G"}], ["--sequence", WILDTYPE], "'mutant'"),
        ([{"mutant": "A4G"}], [], "give the wild type with --sequence"),
        ([{"mutant": "A4G"}], ["--sequence", "MK*"], "at position 3 it has '*'"),
        ([{"mutant": "A4G"}], ["--sequence", "no/such.fasta"], "no/such.fasta"),
        ([{"mutant": "A4G"}], ["--sequence", WILDTYPE, "--method", "esm"], "no method 'esm'"),
        ([{"mutant": "A4G"}], ["--sequence", WILDTYPE, "--block", "0"], "from 1 to 11"),
        ([{"mutant": "A4G"}], ["--sequence", WILDTYPE, "--support", "codons"], "codons"),
        ([{"mutant": "A4G"}], ["--sequence", WILDTYPE, "--texts-per-unit", "0"], "from 1"),
        ([{"mutant": "A4G"}], ["--sequence", WILDTYPE, "--shard", "0/2"], "folder of parts"),
        ([{"mutant": "A4G", "single-mask-marginals": "1"}], ["--sequence", WILDTYPE], "a prefix"),
    ],
)
def test_what_cannot_be_done_ends_in_one_line(rows, more, said, variants, tmp_path) -> None:
    code, out, err = variants(write(tmp_path / "assay.csv", rows), *more)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("unmask: ")
    assert said in err


def test_a_limit_is_of_all_files_together(variants, tmp_path) -> None:
    import pyarrow as pa

    places = [write(tmp_path / f"{name}.csv", assay(MUTANTS)) for name in "ab"]
    pq.write_table(pa.Table.from_pylist(assay(MUTANTS)), tmp_path / "c.parquet")
    for given in (places, [tmp_path / "c.parquet"]):
        code, out, _ = variants(*given, "--limit", "1", "--quiet")
        assert (code, [row["mutant"] for row in read(out)]) == (0, MUTANTS[:1])


def measured(mutants: list[str], wildtype: str = WILDTYPE) -> list[dict[str, str]]:
    """An assay of all singles and doubles of five mutations, with numbers that are no scores."""
    every = [*mutants, *(f"{a}:{b}" for a, b in itertools.combinations(mutants, 2))]
    return assay(every, wildtype)


@pytest.mark.slow
def test_scores_are_compared_with_a_measurement(variants: Run, tmp_path: Path) -> None:
    rows = measured(["K2R", "A4G", "K8L", "Q9W", "V20F"])
    source, output = write(tmp_path / "a.csv", rows), tmp_path / "scores.csv"
    methods = "single-mask-marginals,log-pool"
    given = [source, "-o", output, "--method", methods, "--score-column", "DMS_score", "--quiet"]
    code, out, _ = variants(*given)
    scored = read(output.read_text())
    expected = evaluate_variants(
        [row["mutant"] for row in rows],
        [float(row["DMS_score"]) for row in rows],
        {name: [float(row[name]) for row in scored] for name in methods.split(",")},
    )
    assert code == 0
    assert out.rstrip("\n") == evaluation_table(expected)
    assert len(rows) == 15
    assert "epistasis pearson" in out


@pytest.mark.slow
def test_a_file_in_units_is_compared_too(variants: Run, tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", measured(["K2R", "A4G", "K8L", "Q9W"]))
    given = [source, "--score-column", "DMS_score", "--quiet"]
    whole = variants(*given, "-o", tmp_path / "whole.csv")
    assert whole[0] == 0
    assert variants(*given, "-o", tmp_path / "parts.csv", "--texts-per-unit", "4") == whole


def test_only_the_parts_of_a_folder_are_compared(variants: Run, tmp_path: Path) -> None:
    """A merged file within it would count every variant twice."""
    source = write(tmp_path / "a.csv", measured(["K2R", "A4G", "K8L", "Q9W"]))
    given = [source, "-o", f"{tmp_path}/s/", "--score-column", "DMS_score", "--quiet"]
    first = variants(*given)
    assert main(["merge", f"{tmp_path}/s/", f"{tmp_path}/s/all.csv", "--quiet"]) == 0
    assert first[0] == 0
    assert variants(*given) == first


@pytest.mark.slow
def test_shards_compare_when_the_last_of_them_is_done(variants: Run, tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", measured(["K2R", "A4G", "K8L", "Q9W"]))
    given = [source, "--score-column", "DMS_score", "--quiet", "--texts-per-unit", "2", "-o"]
    whole = variants(*given, f"{tmp_path}/whole/")
    code, out, err = variants(*given, f"{tmp_path}/shared/", "--shard", "0/2")
    assert (code, out) == (0, "")
    assert err == (
        "unmask: 3 units are missing; how scores agree with 'DMS_score' is printed when all are "
        "there\n"
    )
    assert whole[0] == 0
    assert variants(*given, f"{tmp_path}/shared/", "--shard", "1/2") == whole


def test_a_row_without_a_mutant_is_not_compared(variants: Run, tmp_path: Path) -> None:
    rows = measured(["K2R", "A4G", "K8L", "Q9W"])
    given = ["-o", tmp_path / "s.csv", "--score-column", "DMS_score", "--quiet"]
    expected = variants(write(tmp_path / "a.csv", rows), *given)
    empty = {**rows[0], "mutant": "", "DMS_score": "9"}
    code, out, _ = variants(write(tmp_path / "b.csv", [*rows, empty]), *given)
    assert (code, out) == expected[:2]


def test_sums_have_no_epistasis_in_a_sequence_longer_than_the_model(
    variants: Run, tmp_path: Path
) -> None:
    """G15A of its own is read in another window than its doubles are."""
    rows = measured(["M1A", "K2R", "A4G", "G15A"], (WILDTYPE * 5)[:90])
    given = ["-o", tmp_path / "s.csv", "--score-column", "DMS_score", "--quiet", "--prefix", "x_"]
    source = write(tmp_path / "a.csv", rows)
    code, out, _ = variants(source, *given, "--method", "single-mask-marginals")
    windows = {row["mutant"]: row["x_window"] for row in read((tmp_path / "s.csv").read_text())}
    assert (windows["G15A"], windows["A4G:G15A"]) == ("4-25", "1-22")
    (line,) = (line for line in out.splitlines() if "epistasis pearson" in line)
    assert code == 0
    assert " 3 " in line
    assert "(all scores are equal)" in line


def test_of_several_assays_the_mean_is_printed(variants: Run, tmp_path: Path) -> None:
    (tmp_path / "assays").mkdir()
    for name, wildtype in (("first", WILDTYPE), ("second", WILDTYPE[::-1])):
        mutants = [f"{wildtype[place]}{place + 1}W" for place in (1, 3, 6, 8)]
        write(tmp_path / "assays" / f"{name}.csv", measured(mutants, wildtype))
    write(tmp_path / "assays" / "third.csv", assay(["K2R"]))
    output = f"{tmp_path / 'scores'}/"
    given = [tmp_path / "assays", "-o", output, "--score-column", "DMS_score", "--quiet"]
    code, out, _ = variants(*given)
    head, *lines = out.splitlines()[1:]
    assert (code, head.split()) == (0, ["assay", "variants", "single-mask-marginals"])
    assert [line.split()[0] for line in lines] == ["first", "second", "third", "mean"]
    values = [float(line.split()[2]) for line in lines[:2]]
    assert lines[2].split() == ["third", "1", "-"]
    assert lines[3].split() == ["mean", f"{sum(values) / 2:+.3f}", "(2", "assays)"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--score-column compares the rows of an output; give --output too"),
        (["-o", "x.csv"], "--score-column 'fitness': the input has no such column; it has 'mut"),
    ],
)
def test_what_cannot_be_compared_ends_in_one_line(
    more: list[str], said: str, variants: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = write(tmp_path / "a.csv", assay(MUTANTS))
    code, _, err = variants(source, *more, "--score-column", "fitness")
    assert (code, err.count("\n")) == (2, 1)
    assert said in err

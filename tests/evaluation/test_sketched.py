"""`unmask evaluate` without --exact: estimates beside exact result rows, and how they are kept."""

import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from assets import real_data, real_model
from evaluation_rows import a_row
from plans import a_kind
from tiny_tokenizers import save_bert
from toy_lm import ToyMaskedLM, ToyTokenizer

import unmask
from unmask import Cloze, Sketch
from unmask.cli import main
from unmask.errors import UnmaskError
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.reports.summary import differences, summarise
from unmask.evaluation.rows import LabelledMethod, ResultRow
from unmask.evaluation.run import read_run
from unmask.queries.sketched import sketchable
from unmask.resampling import Estimate

pytestmark = pytest.mark.usefixtures("read_once")

SIZE = 300
PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "table1-caption-bert" / "snli"


def close(estimate: ResultRow, exact: ResultRow) -> None:
    """Within a few of its standard errors, which leave out rounding."""
    for metric, error in (("pairwise_nll", "pairwise_error"), ("unary_nll", "unary_error")):
        off = estimate.metric(metric) - exact.metric(metric)
        assert abs(off) < 6 * getattr(estimate, error) + 2e-4, (estimate.construction, metric, off)


# --- the numbers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy() -> unmask.LanguageModel:
    """A heavy head, a long tail, and conditionals that contradict each other."""
    rng = np.random.default_rng(5)
    ranks = np.log(np.arange(1, SIZE + 1))
    log_p = -1.3 * rng.permutation(ranks)[:, None] - 1.1 * rng.permutation(ranks)
    joint = np.exp(log_p + rng.normal(size=(SIZE, SIZE)))
    return unmask.LanguageModel(ToyMaskedLM(joint, noise=0.3), ToyTokenizer(SIZE))


@pytest.fixture(scope="module")
def measured(toy: unmask.LanguageModel) -> list[tuple[ResultRow, ResultRow]]:
    """Result rows from sketches beside exact ones: of likely pairs and of any."""
    kind = a_kind(constructions=tuple(LabelledMethod(name, {}) for name in sketchable()))
    likely = np.argsort(toy.model.joint.ravel())[::-1]
    found = []
    for number, place in enumerate(likely[[0, 20, 2_000]]):
        gold = (int(place) // SIZE, int(place) % SIZE)
        cloze = Cloze("", (toy.model.mask_id,) * 2, (0, 1), gold)
        pair = MaskedPair(f"s{number}/random", f"s{number}", "random", cloze, None, 2)
        sketched = replace(kind, sketch=Sketch(precision=0.1))
        found += zip(sketched.measure(toy, pair), kind.measure(toy, pair), strict=True)
    return found


@pytest.mark.slow
def test_estimates_agree_with_exact_numbers_within_their_errors(measured) -> None:
    for estimate, exact in measured:
        assert estimate.reason is None, estimate.reason
        close(estimate, exact)
        assert estimate.pairwise_error <= 0.05
        assert estimate.forward_passes < 2 * SIZE
        assert estimate.incompatibility == pytest.approx(exact.incompatibility, rel=0.25)


@pytest.mark.slow
def test_pairs_that_need_no_table_are_exact(measured) -> None:
    for estimate, exact in measured:
        if estimate.construction in ("mlm", "orders"):
            assert estimate.pairwise_error < 1e-4
            assert estimate.pairwise_nll == pytest.approx(exact.pairwise_nll, abs=2e-4)
        else:
            assert estimate.pairwise_error > 0


@pytest.mark.slow
def test_divergences_at_the_gold_contexts_agree_and_others_are_left_out(measured) -> None:
    for name in sketchable():
        of_it = [pair for pair in measured if pair[0].construction == name]
        estimate, exact = (
            np.mean([row.gold_kl for row in rows]) for rows in zip(*of_it, strict=True)
        )
        assert estimate == pytest.approx(exact, rel=0.1), name
    assert all(estimate.all_kl is None for estimate, _ in measured)


@pytest.mark.real
@pytest.mark.long
@pytest.mark.assets("a corpus, and the model of rows that are published")
def test_estimates_agree_with_published_rows_of_a_real_model(tmp_path: Path) -> None:
    where = ["-m", str(real_model("caption-bert")), "-o", str(tmp_path / "run")]
    few = ["--examples", "1", "--precision", "0.2", "--quiet"]
    assert main(["evaluate", str(real_data("snli/test.jsonl")), *where, *few]) == 0
    exact = {(row.example_id, row.construction): row for row in read_run(PUBLISHED).rows}
    rows = read_run(tmp_path / "run").rows
    assert len(rows) == 2 * len(sketchable())
    for row in rows:
        close(row, exact[row.example_id, row.construction])
        assert row.forward_passes < 1_500


# --- what is kept --------------------------------------------------------------------------------


def test_only_estimates_may_lack_a_number() -> None:
    known = {"all_kl": None, "pairwise_error": 0.1, "unary_error": 0.2, "forward_passes": 201}
    row = a_row(**known)
    with pytest.raises(UnmaskError, match="of a sketch"):
        row.metric("all_kl")
    for wrong in ({"all_kl": None}, {**known, "gold_kl": None}, {"pairwise_error": math.nan}):
        with pytest.raises(UnmaskError, match="finite"):
            a_row(**wrong)


# --- what is reported ----------------------------------------------------------------------------


def test_errors_of_examples_widen_an_interval() -> None:
    wider = Estimate(2.0, 0.3, 1.5, 2.4).widened(0.4)
    assert wider.value == 2.0
    assert wider.stderr == pytest.approx(0.5)
    assert wider.low == pytest.approx(2.0 - math.hypot(0.5, 1.96 * 0.4))
    assert wider.high == pytest.approx(2.0 + math.hypot(0.4, 1.96 * 0.4))
    exact = Estimate(2.0, 0.3, 1.5, 2.4)
    assert exact.widened(0.0) is exact


def rows_with(errors: float | None, construction: str, shift: float = 0.0) -> list[ResultRow]:
    known = {"pairwise_error": errors, "unary_error": errors}
    without = {} if errors is None else {"all_kl": None, "support": "vocabulary (sketch)"}
    return [
        a_row(i, construction=construction, pairwise_nll=2.0 + shift + i % 3, **known, **without)
        for i in range(16)
    ]


def test_summaries_and_differences_add_the_errors_of_the_examples() -> None:
    (exact,), (found,) = summarise(rows_with(None, "mlm")), summarise(rows_with(0.2, "mlm"))
    assert found["all_kl"] is None
    assert found["gold_kl"] == exact["gold_kl"]
    added = (found["pairwise_ppl"].stderr ** 2 - exact["pairwise_ppl"].stderr ** 2) ** 0.5
    assert added / exact["pairwise_ppl"].value == pytest.approx(0.2 / 4)
    assert found["pairwise_nats_per_byte"].stderr > exact["pairwise_nats_per_byte"].stderr
    # of two constructions both: here nothing else varies
    (less,) = differences([*rows_with(0.2, "mlm"), *rows_with(0.1, "hcb", 0.5)])
    assert less["all_kl"] is None
    assert less["pairwise_nll"].value == pytest.approx(0.5)
    assert less["pairwise_nll"].stderr == pytest.approx(math.hypot(0.2, 0.1) / 4)


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("models") / "tiny-bert"))


@pytest.fixture
def run(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run `unmask evaluate`; exit code and what was said."""
    corpus = tmp_path / "cats.txt"
    corpus.write_text("the cat sat on a dog\nthe man sat on a cat\nthe dog sat on a woman\n")

    def run(*more: str) -> tuple[int, str, str]:
        where = ["-m", model, "-o", str(tmp_path / "run"), "--examples", "2"]
        code = main(["evaluate", str(corpus), *where, *more])
        return (code, *capsys.readouterr())

    return run


@pytest.mark.slow
def test_shards_resume_and_reports(run, tmp_path: Path, capsys) -> None:
    few = ("--max-passes", "2000", "--quiet", "--method", "mlm,log-pool")
    for shard in ("0/2", "1/2", "0/2"):
        assert run(*few, "--shard", shard) == (0, "", "")
    found = read_run(tmp_path / "run")
    assert found.missing == 0
    assert found.plan.options["sketch"] == asdict(Sketch())
    assert all(row.sketched and row.all_kl is None for row in found.rows)
    assert main(["report", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "support vocabulary (sketch)" in said
    assert "the numbers are sketched, that is, estimated from some" in said
    assert " – " in said
    code, _, err = run(*few, "--precision", "0.1")
    assert code == 2
    assert "sketch.precision is '0.05' there, '0.1' here" in err


def test_what_does_not_go_with_a_sketch_is_said_in_one_line(run) -> None:
    for arguments, said in (
        (
            ("--precision", "1", "--method", "log-pool,ag"),
            "leave it out, or give support='vocabulary'",
        ),
        (("--precision", "1", "--support", "no-special"), "exclude each other"),
        (("--precision", "1", "--exact"), "precision and exact exclude each other"),
        (("--precision", "0"), "nats above 0"),
        (("--max-passes", "7"), "at least 101 forward passes, not max_passes=7"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, ""), arguments
        assert said in err
        assert err.count("\n") == 1

"""`unmask cost` on a tiny BERT: what it prints, and how it refuses."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from counted_rows import counted_rows
from tiny_tokenizers import PIECES, save_bert

import unmask
from unmask.cli import main
from unmask.cli.cost import Bill, as_text
from unmask.queries.costs.accelerators import accelerator

pytestmark = pytest.mark.usefixtures("read_once")

V = len(PIECES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture
def cost(folder: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `unmask cost`, which must succeed and say nothing on stderr."""

    def run(*arguments: str) -> str:
        assert main(["cost", "-m", folder, *arguments]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run


@pytest.fixture
def bill(cost: Callable[..., str]) -> Callable[..., Any]:
    """What `unmask cost --json` printed."""
    return lambda *arguments: json.loads(cost(*arguments, "--json"))


def lines(text: str) -> dict[str, str]:
    """What stands behind each name of the first paragraph."""
    found = re.findall(r"^  (\S.*?)  +(.*)$", text.split("\n\n")[0], flags=re.MULTILINE)
    return dict(found)


@pytest.mark.slow
def test_a_line_a_number(cost: Callable[..., str], folder: str) -> None:
    out = cost("--length", "9")
    assert out.splitlines()[0] == f"{folder}, log-pool, float32: one text of 9 tokens"
    said = lines(out)
    assert list(said) == ["forward passes", "arithmetic", "model", "tables", "time here"]
    assert said["forward passes"] == f"{2 * V + 1}"
    assert re.fullmatch(
        r"[\d.]+ MFLOP in forward passes, \d+ kFLOP in the output layer, 37 sweeps over the tables",
        said["arithmetic"],
    )
    assert re.fullmatch(r"[\d.]+ kB", said["model"])
    assert re.fullmatch(
        r"[\d.]+ kB, dense: 16 bytes per cell are [\d.]+ kB, within the memory limit of 4.0 GB",
        said["tables"],
    )
    assert said["time here"].startswith("about ")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pll", "pll-word-l2r", "unmasking"])
def test_scores_of_whole_texts_take_a_forward_pass_per_token(
    cost: Callable[..., str], bill: Callable[..., Any], method: str
) -> None:
    out = cost("--length", "9", "--method", method, "--examples", "100")
    said = lines(out)
    # special tokens are not scored
    assert said["forward passes"] == "7"
    assert said["tables"] == "none"
    assert "in the output layer" in said["arithmetic"]
    assert lines(out.split("\n\n")[1])["forward passes"] == "700"
    found = bill("--length", "9", "--method", f"pll,{method}")
    assert found["one_text"]["forward_passes"] == 7 * len(found["methods"])
    assert found["one_text"]["seconds"] > 0
    assert found["one_text"]["flop"] > 0


def test_scores_and_joints_are_costed_one_kind_at_a_time(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", "-m", folder, "--method", "unmasking,ag"]) == 2
    assert capsys.readouterr().err == (
        "unmask: --method names scores of whole texts (unmasking) and constructions (ag); give one "
        "kind at a time\n"
    )


@pytest.mark.slow
def test_a_cost_of_scores_is_what_scoring_takes(bill: Callable[..., Any], folder: str) -> None:
    lm = unmask.load(folder)
    (score,) = lm.score(["the cat sat on the mat."], method="unmasking")
    length = len(lm.tokenizer(score.text)["input_ids"])
    found = bill("--length", str(length), "--method", "unmasking")
    assert found["one_text"]["forward_passes"] == score.forward_passes


@pytest.mark.slow
def test_tables_that_do_not_fit_are_streamed_and_it_says_why(cost: Callable[..., str]) -> None:
    said = lines(cost("--memory-limit", "1kB"))["tables"]
    assert re.search(
        r"streamed: dense they would take [\d.]+ kB, above the memory limit of 1", said
    )


@pytest.mark.slow
def test_joints_of_single_contexts_have_two_prices(cost: Callable[..., str]) -> None:
    said = lines(cost("--method", "orders"))
    assert said["forward passes"] == f"3 for a pair; up to {2 * V + 1} to rank or sum"
    assert said["tables"] == "none"
    said = lines(cost("--method", "sweep", "--contexts", "4"))
    assert said["forward passes"] == f"11 for a pair; up to {2 * V + 9} to rank or sum"


@pytest.mark.slow
def test_many_texts_on_many_machines(cost: Callable[..., str]) -> None:
    out = cost("--method", "orders", "--examples", "1000000", "--machines", "100")
    head, passes, _, time = out.split("\n\n")[1].splitlines()
    assert head == "1,000,000 texts on 100 machines"
    assert passes.split() == ["forward", "passes", "3,000,000"]
    assert time.endswith("if each is like this one")


@pytest.mark.slow
def test_an_accelerator_by_its_name(cost: Callable[..., str]) -> None:
    said = lines(cost("--accelerator", "rtx 4090", "--utilisation", "0.25"))["on RTX4090"]
    assert re.search(r"^about [\d.]+ [mµ]s at 25% of its peak \(82.6 TFLOP/s in float32, ", said)
    said = lines(cost("--accelerator", "t4", "--dtype", "float16"))["on T4"]
    assert "at 40% of its peak (65 TFLOP/s in float16" in said


@pytest.mark.slow
def test_json_is_what_python_returns(
    bill: Callable[..., Any], cost: Callable[..., str], folder: str
) -> None:
    shown = bill("--length", "9", "--method", "log-pool,sweep", "--examples", "7")
    lm = unmask.load(folder)
    same = lm.cost("the [MASK] sat on the [MASK].", methods=["log-pool", "sweep"], examples=7)
    expected = {k: v for k, v in same.to_dict().items() if k != "seconds"}
    assert {k: v for k, v in shown["one_text"].items() if k != "seconds"} == expected
    assert shown["methods"] == ["log-pool", "sweep"]
    assert shown["all_texts"]["forward_passes"] == 7 * same.forward_passes
    assert shown["all_texts"]["flop"] == 7 * shown["one_text"]["flop"]
    assert shown["all_texts"]["seconds"] == pytest.approx(7 * shown["one_text"]["seconds"])
    assert shown["accelerator"] is None


@pytest.mark.slow
def test_json_of_an_accelerator_and_machines(bill: Callable[..., Any]) -> None:
    arguments = ("--accelerator", "H100", "--examples", "1000", "--machines", "10")
    shown = bill(*arguments, "--utilisation", "0.5")
    there = shown["accelerator"]
    assert (there["name"], there["utilisation"]) == ("H100", 0.5)
    assert there["seconds_all_texts"] == pytest.approx(100 * there["seconds_one_text"])
    assert shown["all_texts"]["seconds"] == pytest.approx(100 * shown["one_text"]["seconds"])
    assert bill(*arguments)["accelerator"]["seconds_one_text"] > there["seconds_one_text"]
    # no machine can do less than one text
    idle = bill("--machines", "10")
    assert idle["all_texts"]["seconds"] == pytest.approx(idle["one_text"]["seconds"])


@pytest.mark.slow
def test_candidates_and_options_change_the_price(bill: Callable[..., Any]) -> None:
    def rows(*arguments: str) -> int:
        return int(bill(*arguments)["one_text"]["forward_passes"])

    assert rows("--support", "cat,dog,man") == 7
    assert rows("--support", "no-special") == 2 * (V - 5) + 1
    assert rows("--method", "orders", "--mean", "geometric") == 2 * V + 1
    passes = [
        bill("--method", "ag-paper", "--steps", steps)["one_text"]["table_passes"]
        for steps in ("10", "30")
    ]
    assert passes[1] - passes[0] == 20


@pytest.mark.slow
def test_a_length_is_taken_when_none_is_given(bill: Callable[..., Any], folder: str) -> None:
    longest = unmask.load(folder).model.max_length
    assert bill()["one_text"]["length"] == min(32, longest or 32)


@pytest.mark.slow
def test_a_model_that_an_accelerator_cannot_hold(cost: Callable[..., str], monkeypatch) -> None:
    monkeypatch.setattr("unmask.queries.joints.weight_bytes", lambda model: 10**12)
    said = lines(cost("--accelerator", "L4"))["on L4"]
    assert said.endswith("1.0 TB do not fit its 24.0 GB: lower --memory-limit")


@pytest.mark.parametrize(("limit", "refused"), [(1000, False), (799, True)])
def test_a_model_without_a_smaller_readout_is_dense_in_any_case(limit: int, refused: bool) -> None:
    cost = unmask.Cost(21, 3, 800, storage="dense", storage_why="there is no smaller readout")
    bill = Bill("toy", ["ag"], cost, 1, 1, limit, accelerator("L4"), "float32", 0.4)
    said = lines(as_text(bill))
    assert "no smaller readout" in said["tables"]
    assert ("rejected unless --memory-limit is raised" in said["tables"]) == refused
    # nor has it FLOP to count, and nothing was measured
    assert (said["model"], said["time here"]) == ("not known", "not measured")
    assert said["on L4"] == "not known: the FLOP were not counted"
    assert json.dumps(bill.to_dict(), allow_nan=False)


def test_a_sketch_may_take_fewer_forward_passes() -> None:
    cost = unmask.Cost(1999, 3, 800, storage="dense", storage_why="", at_most=True)
    bill = Bill("toy", ["log-pool"], cost, 500, 1, 1000, None, "float32", 0.4)
    assert lines(as_text(bill))["forward passes"] == "at most 1,999"
    assert lines(as_text(bill))["arithmetic"] == "not counted in forward passes"
    assert "  forward passes  at most 999,500" in as_text(bill)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((5.5e-4, "550 µs"), (2.54e-4, "254 µs"), (4.2e-6, "4.2 µs"), (9.996e-4, "1 ms")),
        *((0.0553, "55 ms"), (0.9997, "1.0 s"), (4.04, "4.0 s"), (55.0, "55 s")),
    ],
)
def test_a_time_has_no_exponent(seconds: float, said: str) -> None:
    cost = unmask.Cost(21, 3, 0, seconds=seconds)
    bill = Bill("toy", ["ag"], cost, 1, 1, 1000, None, "float32", 0.4)
    assert lines(as_text(bill))["time here"] == f"about {said} (loading the model not counted)"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["log-pool", "hcb", "mlm,ag"])
def test_fill_runs_what_it_announces(
    method: str, folder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, text = counted_rows(monkeypatch), "the [MASK] sat on the [MASK]."
    assert main(["fill", text, "-m", folder, "--method", method, "--exact"]) == 0
    assert f": {sum(rows):,} forward passes of 9 tokens, " in capsys.readouterr().err


@pytest.mark.slow
def test_names_are_escaped(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "red\x1b[31m"
    folder.mkdir()
    assert main(["cost", "-m", str(save_bert(folder)), "--method", "mlm"]) == 0
    assert "red\\x1b[31m" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--examples", "0"], "--examples takes a number from 1, not 0"),
        (["--machines", "-1"], "--machines takes a number from 1, not -1"),
        (["--length", "1"], "--length takes a number of tokens from 2 to "),
        (["--length", "100000"], "with this model, not 100000"),
        (["--accelerator", "TPU"], "there are A100, H100, L4, T4, V100, RTX4090"),
        (["--accelerator", "T4", "--dtype", "bfloat16"], "T4 has no bfloat16 arithmetic"),
        (["--accelerator", "L4", "--utilisation", "nan"], "above 0 and up to 1, not nan"),
        (["--accelerator", "L4", "--utilisation", "40"], "above 0 and up to 1, not 40"),
        (["--utilisation", "0.5"], "give --accelerator too"),
        (["--method", "gibs"], "did you mean 'pseudo-gibbs'"),
        (["--method", "mlm", "--contexts", "5"], "mlm has no option 'contexts'"),
        (["--method", "sweep", "--contexts", "0"], "contexts is a number from 1, not 0"),
        (["--support", "nothing"], "'nothing'"),
        (["--memory-limit", "much"], "--memory-limit takes a size such as 500MB"),
        (["--batch-size", "0"], "a batch size is a number of inputs from 1"),
        (["--dtype", "float8"], "dtype is one of float32"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], sentence: str, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", "-m", folder, *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("unmask: ")
    assert sentence in err


def test_help_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cost", "--help"])
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (0, "")
    assert "--accelerator" in out

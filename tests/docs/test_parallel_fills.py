"""The page of parallel fills: scores by definition, choices on dev sentences, the tables."""

import json
import math
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import build

import unmask
from unmask.queries.parallel.decoding import BlankedText

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "runs"))

import marked_page  # noqa: E402
import parallel  # noqa: E402
import parallel_fills  # noqa: E402
from compared_rules import top_k  # noqa: E402
from parallel_fills import Fills, blocks, named  # noqa: E402

WAYS = [named(rule, one) for rule, every in parallel_fills.WAYS.items() for one in every]


def made(
    seed: int, corpus: str, count: int = 120, names: Sequence[str] = WAYS
) -> list[parallel_fills.Row]:
    """The head loses .01 nats per blank at half the passes, all other rules .1."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(count):
        blanks = int(rng.integers(4, 13))
        loss = {w: 0.1 + 0.01 * rng.random() for w in WAYS} | {"head 0.1": 0.01, "surest": 0.0}
        steps = dict.fromkeys(WAYS, blanks // 2) | dict.fromkeys(parallel_fills.ONE_BY_ONE, blanks)
        rows.append(
            {
                "corpus": corpus,
                "id": f"{corpus}:{number}",
                "blanks": blanks,
                "log_probs": [-50 - blanks * loss[w] for w in names],
                "steps": [steps[w] for w in names],
                # drawn with .2 nats more per blank than one at a time
                "log_q": [-40 - 0.2 * blanks * (w != "surest") for w in names],
            }
        )
    return rows


@pytest.mark.slow
def test_a_fill_is_scored_by_the_chain_rule_along_random_orders() -> None:
    lm = unmask.load(build("bert"))
    cloze = lm.cloze("the [MASK] sat [MASK] the [MASK].")
    text = BlankedText(cloze.ids, cloze.positions)
    fills = {
        tuple(lm.tokenizer.convert_tokens_to_ids(words.split()))
        for words in ("cat on mat", "dog on mat", "dog in hat")
    }
    totals = parallel_fills.scores(lm, {"a": text}, {"a": fills})
    assert set(totals) == {("a", fill) for fill in fills}
    rng = np.random.default_rng(parallel_fills.hashed("a", "orders"))
    orders = [rng.permutation(3).tolist() for _ in range(parallel_fills.ORDERS)]
    for fill in fills:
        total = 0.0
        for order in orders:
            row = torch.tensor([text.ids])
            for blank in order:
                at = text.positions[blank]
                with torch.no_grad():
                    logits = lm.model.model(input_ids=row).logits[0, at]
                total += float(logits.log_softmax(dim=0)[fill[blank]])
                row[0, at] = fill[blank]
        assert totals["a", fill] == pytest.approx(total / len(orders), abs=1e-4)


def test_the_threshold_is_the_fastest_that_loses_little_on_dev_sentences() -> None:
    dev = Fills(made(0, "snli-dev"))
    assert parallel_fills.chosen_on(dev, "head") == "head 0.1"
    assert parallel_fills.chosen_on(dev, "factor") is None
    passes, lost = dev.mean()
    assert lost[WAYS.index("head 0.1")] == pytest.approx(0.01)
    one_by_one = passes[WAYS.index("surest")]
    assert one_by_one == pytest.approx(dev.blanks.mean())
    middle = parallel_fills.at_passes(dev, "top-k", passes, lost, (one_by_one + passes[-1]) / 2)
    assert middle == pytest.approx(lost[WAYS.index("top-k 2")] / 2, abs=0.01)


def test_the_tables_have_the_loss_and_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_fills, "RESAMPLES", 100)
    dev, test = ({n: Fills(made(seed, n)) for n in parallel_fills.NAMES} for seed in (0, 1))
    tables = blocks(dev, test)
    (row,) = [line for line in tables["chosen"] if line.startswith("| head |")]
    assert row.count("| 0.1 |") == 2
    assert row.count("+0.010 [+0.010, +0.010]") == 2
    others = [line for line in tables["equal passes"] if re.match(r"\| [a-z-]+ \|", line)][1:]
    assert len(others) == len(parallel_fills.CURVES) - 1
    # all others lose some .09 more
    assert all(re.search(r"\+0\.0[89]\d \[\+0\.0", line) for line in others)
    assert len(list(parallel_fills.curve_table(test))) == 2 + len(WAYS)


def test_few_ways_have_the_same_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_fills, "RESAMPLES", 100)
    names = parallel_fills.names_of(parallel_fills.FEW)
    assert set(names) < set(WAYS)
    fills = Fills(made(0, "snli", names=names), parallel_fills.FEW)
    (line,) = list(parallel_fills.models_table({("a model", "snli"): fills}))[2:]
    assert line.startswith("| a model | SNLI | 120 |")
    assert "| +0.010 [+0.010, +0.010] | +0.0" in line
    lines = list(parallel_fills.draws_table({"snli": fills}))
    (line,) = [one for one in lines if one.startswith("| head 0.1 |")]
    # .01 nats less likely, and .2 nats more random: KL is less by their difference
    assert "| -0.190 [-0.190, -0.190] | +0.010 | +0.200 |" in line


@pytest.mark.slow
def test_draws_are_scored_one_by_one_and_averaged() -> None:
    lm = unmask.load(build("bert"))
    cloze = lm.cloze("the [MASK] sat [MASK] the [MASK].")
    text = BlankedText(cloze.ids, cloze.positions)
    ways = {"surest": (0,), "top-k": (2,)}
    (row,) = parallel_fills.filled(lm, None, {"a": text}, ways, orders=2, draws=3)
    drawn = [
        lm.fill_together(
            [cloze], rule=partial(top_k, threshold=2), draw=True, seed=seed, support="tokens"
        )[0]
        for seed in range(3)
    ]
    log_p, steps, log_q = row["ways"]["top-k 2"]
    assert steps == 2
    assert log_q == pytest.approx(np.mean([math.log(one["score"]) for one in drawn]), abs=1e-4)
    tokens = {tuple(one["token"]) for one in drawn}
    totals = parallel_fills.scores(lm, {"a": text}, {"a": tokens}, 2)
    expected = np.mean([totals["a", tuple(one["token"])] for one in drawn])
    assert log_p == pytest.approx(expected, abs=1e-4)


def test_sentences_of_masks_alone_are_drawn_by_their_seeds() -> None:
    lm = unmask.load(build("bert"))
    texts = parallel_fills.whole(lm, (2, 3), 2)
    assert list(texts) == ["2:0", "2:1", "3:0", "3:1"]
    blanked, seeds = ({name: one[n] for name, one in texts.items()} for n in (0, 1))
    for name, text in blanked.items():
        assert len(text.ids) == len(text.positions) + 2 == int(name[0]) + 2
        assert {text.ids[place] for place in text.positions} == {lm.tokenizer.mask_token_id}
    rows = parallel_fills.filled(lm, None, blanked, {"surest": (0,)}, 1, 1, seeds)
    for row in rows:
        masks = " ".join(["[MASK]"] * row["blanks"])
        drawn = {"rule": "surest", "draw": True, "seed": seeds[row["id"]], "support": "tokens"}
        (fill,) = lm.fill_together([masks], **drawn)
        assert row["ways"]["surest"][2] == pytest.approx(math.log(fill["score"]), abs=1e-3)


def test_rows_replace_those_of_their_run_and_corpus(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    old = [{"run": run, "corpus": "snli", "id": 1} for run in "ab"]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in old), encoding="utf-8")
    new = [{"run": "b", "corpus": corpus, "id": 2} for corpus in ("snli", "xsum")]
    parallel_fills.renew(path, new)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert rows == [old[0], *new]


def test_costs_are_those_of_heads_and_steps(tmp_path: Path) -> None:
    facts = {"texts": 9, "pairs": 80, "rank_correlation": 0.914, "held_out_pairs": 7}
    unmask.DependenceHead({"mean": torch.zeros(2)}, {**facts, "seed": 0}).save(tmp_path / "head")
    log = "User time (seconds): 12.5\n\tSystem time (seconds): 0.75\n"
    (tmp_path / "log").write_text(log, encoding="utf-8")
    size = {"rows": 16, "length": 24, "blanks": 8}
    steps = [{"name": name, **size, "head": [1.0, 1.11, 1.2]} for name in "ab"]
    steps += [{"name": "b", **size, "rows": 1, "head": [1.0, 1.5, 2.0]}]
    (tmp_path / "steps").write_text("\n".join(map(json.dumps, steps)), encoding="utf-8")
    heads = [f"tiny={tmp_path / 'head'},{tmp_path / 'log'}"]
    result = parallel.costs(heads, tmp_path / "steps")
    assert result["trained"] == [{"name": "tiny", "seconds": 13.25, **facts}]
    tables = parallel.cost_tables(result)
    assert tables["trained"][2:] == ["| tiny | 9 | 80 | 13 | 0.91 | 7 |"]
    one, other = tables["steps"][2:]
    assert one == "| 16, 24, 8 | 1.11 [1.00, 1.20] | 1.11 [1.00, 1.20] |"
    assert other == "| 1, 24, 8 |  | 1.50 [1.00, 2.00] |"


def test_antibodies_are_between_germline_and_mature(tmp_path: Path) -> None:
    (tmp_path / "antibody").mkdir()
    about = {"germline": "ACDE", "positions": [2, 4], "somatic_residues": "WY"}
    path = tmp_path / "antibody" / "sequences.json"
    path.write_text(json.dumps({"x": about}), encoding="utf-8")
    lines = list(parallel_fills.antibodies(tmp_path, "x", 40))
    assert set(lines) == {f"A {b} D {d}" for b in "CW" for d in "EY"}


def test_the_page_of_the_head_is_what_was_measured() -> None:
    result = json.loads((ROOT / parallel.PAGE).with_name(parallel.RESULT).read_text("utf-8"))
    page = (ROOT / parallel.PAGE).read_text("utf-8")
    for lines in parallel.blocks(result).values():
        assert "\n".join(lines) in page
    assert f"rank correlation {result['all features']['rank']:.3f}".replace("0.", ".") in page


@pytest.mark.slow
def test_the_page_is_what_its_rows_say() -> None:
    path = ROOT / parallel_fills.PAGE
    dev, test = parallel_fills.read(path.with_suffix(".jsonl"))
    few = parallel_fills.read_few(path.with_name("parallel-filling-few.jsonl"))
    tables = parallel_fills.whole_tables(test, few)
    assert marked_page.stale(marked_page.made(path, blocks(dev, test, few), tables)) == []

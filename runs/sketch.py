"""Hold sketches of the vocabulary against exact joints: a row of JSON per pair of blanks.

    python runs/sketch.py exact --model DIR --corpus FILE --mask contiguous --limit 100 \
        --output exact.jsonl
    python runs/sketch.py sketch --model DIR --corpus FILE --mask contiguous --limit 100 \
        --exact exact.jsonl --source "caption-bert, contiguous" --output docs/results/sketch.jsonl
    python runs/sketch.py size --model DIR --texts korean --source albert-kor-base --output ...

`size` runs the default alone, where exact joints take too long.

Without a corpus, the texts of this file, whose blanks are two adjacent characters. Rows hold
example ids, never text. Started again on the same file, it does only what is missing.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import unmask
from unmask.constructions import construct
from unmask.evaluation.masks import MASKS, examples
from unmask.joints.metrics import pair_metrics
from unmask.queries.sketched import precise_joints
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.settings import Sketch
from unmask.tables.pair_tables import PairTables
from unmask.tables.sketch import SketchedPair

METHODS: tuple[str, ...] = ("log-pool", "pseudo-gibbs", "hcb")
PASSES = (200, 400, 800, 1_600)
LISTED = 10
QUIET = unmask.Settings(progress=False, announce=False)

# by language: texts of our own, and where the first of two adjacent tokens begins
TEXTS = {
    "chinese": [
        ("法國的首都是巴黎。", "巴黎"),
        ("他每天早上喝一杯咖啡。", "咖啡"),
        ("我喜歡吃葡萄和蘋果。", "葡萄"),
        ("老師在學校裡教學生寫字。", "學生"),
        ("明天可能會下雨，記得帶雨傘。", "雨傘"),
        ("醫生說他需要多休息。", "休息"),
        ("這本小說的作者很有名。", "作者"),
        ("火車從台北開往高雄。", "高雄"),
        ("媽媽在廚房裡做晚飯。", "廚房"),
        ("他們坐飛機去日本旅行。", "旅行"),
        ("政府決定提高最低工資。", "政府"),
        ("夏天的天氣非常炎熱。", "天氣"),
        ("這座城市有很多博物館。", "城市"),
        ("她從小就學習彈鋼琴。", "鋼琴"),
        ("我們應該保護自然環境。", "環境"),
        ("這家公司生產電腦和手機。", "電腦"),
        ("足球比賽在週末舉行。", "比賽"),
        ("小狗在公園裡跑來跑去。", "公園"),
        ("經濟發展帶來了許多問題。", "經濟"),
        ("請把窗戶打開讓空氣流通。", "空氣"),
    ],
    "korean": [
        ("대한민국의 수도는 서울 특별시이다.", "서울"),
        ("나는 아침에 커피를 마신다.", "아침"),
        ("그는 학교에서 학생들을 가르친다.", "학교"),
        ("내일은 비가 올 것이다.", "내일"),
        ("우리는 기차를 타고 부산에 갔다.", "기차"),
    ],
}


Row = dict[str, Any]
Statistic = Callable[[unmask.Joint], float]


@dataclass(frozen=True)
class Pair:
    """A text with two blanks and what stood there."""

    id: str
    cloze: unmask.Cloze


def pairs_of(lm: unmask.LanguageModel, chosen: argparse.Namespace) -> Iterator[Pair]:
    """The pairs that a command names."""
    if chosen.corpus:
        sentences = read_corpus(CorpusSpec(chosen.corpus)).sentences
        drawn = examples(lm, sentences, mask=chosen.mask, limit=chosen.limit)
        yield from (Pair(one.id, one.cloze) for one in drawn.pairs)
        return
    for number, (text, word) in enumerate(TEXTS[chosen.texts]):
        start = text.index(word)
        offsets = lm.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        first = next(i for i, (low, high) in enumerate(offsets) if low <= start < high)
        cloze = lm.read(text, blanks=[first, first + 1])
        yield Pair(f"{chosen.texts}/{number}", cloze)


def exact(lm: unmask.LanguageModel, pair: Pair) -> Row:
    """What the whole tables say."""
    began = time.perf_counter()
    tables = lm.tables(pair.cloze, support="vocabulary", settings=QUIET)
    joints = {name: construct(name, tables) for name in METHODS}
    a, b = pair.cloze.gold or ()
    metrics = pair_metrics(joints, tables, (a, b))
    found: Row = {"id": pair.id, "vocabulary": lm.model.vocabulary_size}
    for name, joint in joints.items():
        found[name] = {
            "pairwise_nll": metrics[name].pairwise_nll,
            "unary_nll": metrics[name].unary_nll,
            "entropy": joint.entropy(),
            "mutual_information": joint.mutual_information(),
            "contexts": [_carrying(joint.marginal(axis)) for axis in (0, 1)],
            "fills": [[*fill.ids, fill.log_prob] for fill in joint.top(LISTED)],
        }
    found["incompatibility"] = joints["log-pool"].incompatibility()
    return {**found, "seconds": time.perf_counter() - began}


def _carrying(marginal: unmask.Joint, part: float = 0.99) -> int:
    """How many tokens carry this part of the mass; those of a sketch stand for several."""
    log_p, weights = marginal.log_rows(slice(None)), marginal.supports[0].log_weights
    order = torch.sort(log_p, descending=True).indices
    counts = torch.ones(len(log_p)) if weights is None else weights.exp()
    mass = (log_p.exp() * counts)[order].cumsum(0)
    return 1 + int(counts[order][mass < part].sum())


def sketched(lm: unmask.LanguageModel, pair: Pair, known: Row, *, large: bool) -> Iterator[Row]:
    """How far sketches are from it: with fixed passes, and with the default precision."""
    a, b = pair.cloze.gold or ()
    # rows of the model are run once for all sketches: what each would have run is counted
    whole = remembering(lm.tables(pair.cloze, support="vocabulary", settings=QUIET))
    # with fixed passes the gold pair is in the head, as where joints are evaluated
    plans = [
        (f"{n} passes", Sketch(precision=None, passes=n + 1), METHODS[: 1 if n > 400 else 3], True)
        for n in PASSES
        if large or n <= 400
    ]
    plans.append(("precision 0.05", Sketch(), METHODS[:1], False))
    for kind, sketch, methods, with_gold in plans:
        began = time.perf_counter()
        grown = SketchedPair(whole, given=((a,), (b,)) if with_gold else ((), ()))
        joints = precise_joints({name: {} for name in methods}, grown, sketch)
        seconds = time.perf_counter() - began
        for name, joint in joints.items():
            yield {
                "id": pair.id,
                "vocabulary": lm.model.vocabulary_size,
                "kind": kind,
                "method": name,
                "forward_passes": grown.forward_passes,
                "contexts": known[name]["contexts"],
                "seconds": seconds,
                **compared(joint, known[name], (a, b)),
            }


def sized(lm: unmask.LanguageModel, pair: Pair) -> Row:
    """How many passes the default takes, and how many contexts it finds to carry mass."""
    began = time.perf_counter()
    joint = lm.joint(pair.cloze, settings=QUIET)
    seconds = time.perf_counter() - began
    return {
        "id": pair.id,
        "vocabulary": lm.model.vocabulary_size,
        "kind": "precision 0.05",
        "method": "log-pool",
        "forward_passes": joint.diagnostics["forward_passes"],
        "precision_reached": joint.diagnostics["precision_reached"],
        "contexts": [_carrying(joint.marginal(axis)) for axis in (0, 1)],
        "seconds": seconds,
    }


def _short(row: Row) -> Row:
    """Six digits: rows are many."""
    return {key: float(f"{v:.6g}") if isinstance(v, float) else v for key, v in row.items()}


def remembering(tables: PairTables) -> PairTables:
    """Tables that run no context twice."""
    rows: tuple[dict[int, Tensor], dict[int, Tensor]] = ({}, {})
    run = tables._given

    def given(outcome: int, contexts: Sequence[int]) -> Tensor:
        missing = [one for one in contexts if one not in rows[outcome]]
        if missing:
            rows[outcome].update(zip(missing, run(outcome, missing).float(), strict=True))
        return torch.stack([rows[outcome][one] for one in contexts])

    tables.__dict__["_given"] = given
    return tables


def compared(joint: unmask.Joint, known: Row, gold: tuple[int, int]) -> Row:
    """Differences from the exact joint, sketch less exact, and the stated standard errors."""
    fills = [((a, b), log_p) for a, b, log_p in known["fills"]]
    listed = {fill.ids for fill in joint.top(LISTED)}
    off = [joint.log_prob(*ids) - log_p for ids, log_p in fills]
    best = fills[0][0]
    found: dict[str, Statistic] = {
        "best": lambda one: one.log_prob(*best),
        "pairwise_nll": lambda one: -one.log_prob(*gold) / 2,
        "unary_nll": lambda one: unary_nll(one, gold),
        "entropy": unmask.Joint.entropy,
        "mutual_information": unmask.Joint.mutual_information,
    }
    exact = {**known, "best": fills[0][1]}
    row: Row = {
        "found": sum(ids in listed for ids, _ in fills) / len(fills),
        "log_prob_off": sum(map(abs, off)) / len(off),
        "precision_reached": joint.diagnostics.get("precision_reached"),
    }
    for name, statistic in found.items():
        row[f"{name}_off"] = statistic(joint) - exact[name]
        row[f"{name}_error"] = joint.standard_error(statistic)
    return row


def unary_nll(joint: unmask.Joint, gold: tuple[int, int]) -> float:
    """The mean NLL of each gold token given the other."""
    each = [joint.conditional(t, given={1 - t: gold[1 - t]}).log_prob(gold[t]) for t in (0, 1)]
    return -sum(each) / 2


def written(output: Path) -> dict[str, Row]:
    """The rows that are there already, by example."""
    if not output.exists():
        return {}
    return {row["id"]: row for row in map(json.loads, output.read_text().splitlines())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("exact", "sketch", "size"))
    parser.add_argument("--source", help="what rows of sketches are called in the report")
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus")
    parser.add_argument("--texts", choices=tuple(TEXTS), default="chinese")
    parser.add_argument("--mask", choices=MASKS, default="contiguous")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--large", type=int, default=25, help="pairs with more than 400 passes")
    parser.add_argument("--exact", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    lm = unmask.load(chosen.model)
    done = written(chosen.output)
    known = written(chosen.exact) if chosen.exact else {}
    with chosen.output.open("a") as output:
        for number, pair in enumerate(pairs_of(lm, chosen)):
            if pair.id in done:
                continue
            if chosen.what == "exact":
                rows: list[Row] = [exact(lm, pair)]
            elif chosen.what == "size":
                rows = [sized(lm, pair)]
            elif pair.id in known:
                rows = list(sketched(lm, pair, known[pair.id], large=number < chosen.large))
            else:
                continue
            source = {} if chosen.what == "exact" else {"source": chosen.source}
            output.writelines(json.dumps({**source, **_short(row)}) + "\n" for row in rows)
            output.flush()


if __name__ == "__main__":
    main()

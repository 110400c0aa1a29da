"""`unmask evaluate`: many masked examples of a corpus by several constructions, into a folder."""

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from unmask.cli import options, ray_options
from unmask.errors import UnmaskError
from unmask.printable import printable, quoted

if TYPE_CHECKING:
    from unmask.evaluation.executors.local import Executor
    from unmask.evaluation.request import Outcome, Prepared, Request

SUMMARY = "measure constructions on many masked examples of a corpus"
DESCRIPTION = (
    "Mask two tokens in each of many sentences, build the joints, and write the paper's four "
    "metrics of every construction into a folder, as Parquet. Run again on the same folder, it "
    "computes what is missing. Exit codes: 1 if some examples failed (the next run tries them "
    "again), 2 on bad input, 130 when interrupted and 143 when terminated, with all results saved."
)
EXAMPLE = "unmask evaluate snli -m bert-base-cased -o runs/snli --examples 100"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "corpus",
        metavar="CORPUS",
        help="snli, xsum, a Hugging Face dataset or its folder, a file (.jsonl, .tsv, .csv, .txt), "
        "or - for standard input",
    )
    options.add_model(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER", help="folder for the results"
    )
    parser.add_argument("--corpus-name", metavar="NAME", help="the corpus's name in tables")
    parser.add_argument("--model-name", metavar="NAME", help="the model's name in tables")
    _add_examples(parser)
    parser.add_argument("--dry-run", action="store_true", help="print plan and cost, run nothing")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, only errors")
    options.add_corpus(parser)
    options.add_joints(parser, default="all")
    _add_sharing(options.add_running(parser))
    ray_options.add_ray(parser)


def _add_examples(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mask",
        action="append",
        metavar="NAME",
        help="contiguous (two neighbours), random (any two), or both: contiguous,random (default: "
        "both)",
    )
    parser.add_argument(
        "--examples",
        type=int,
        default=1000,
        metavar="N",
        help="examples per kind of mask; the same for all runs on a folder (default: 1000)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the examples (default: 0)"
    )


def _add_sharing(group: options.Group) -> None:
    group.add_argument(
        "--shard",
        default="0/1",
        metavar="I/N",
        help="run every N-th example from the I-th on, counting from 0, so that N processes share "
        "one folder (default: 0/1)",
    )
    group.add_argument(
        "--save-every",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how often results are saved; a crash loses no more than that (default: 10)",
    )


def run(chosen: argparse.Namespace) -> int:
    """Draw the examples, agree on the plan, compute what is missing."""
    ray_options.check(chosen)
    request = _request(chosen)
    # first: whether there is a cluster is known at once, reading a corpus takes time
    with ray_options.executor(request, chosen) as cluster:
        return _run(chosen, ray_options.planned(request, chosen), cluster)


def _run(chosen: argparse.Namespace, request: "Request", cluster: "Executor | None") -> int:
    from unmask.evaluation.request import evaluate, prepare
    from unmask.evaluation.store.shards import Shard

    shard = Shard.parse(chosen.shard)
    if not chosen.save_every >= 0:
        raise UnmaskError(f"--save-every takes seconds from 0, not {chosen.save_every}")
    prepared = prepare(request)
    if not chosen.quiet or chosen.dry_run:
        print(_announcement(prepared), file=sys.stderr)
    if chosen.dry_run:
        print(_cost(prepared))
        return 0
    with _leaving_in_order():
        outcome = evaluate(
            prepared,
            chosen.output,
            shard=shard,
            executor=cluster,
            save_every=chosen.save_every,
            progress=False if chosen.quiet else None,
            say=_say,
        )
    for why in outcome.damaged:
        _say(f"set aside and computed again: {why}")
    if not chosen.quiet:
        print(_conclusion(outcome, chosen.output), file=sys.stderr)
    return 1 if outcome.failed else 0


def _say(line: str) -> None:
    print(f"unmask: {printable(line)}", file=sys.stderr)


def _request(chosen: argparse.Namespace) -> "Request":
    methods = options.methods(chosen, default="all")
    how = options.checked_options(options.shared_options(chosen), methods)

    from unmask.evaluation.masks import MASKS
    from unmask.evaluation.request import Request

    given = chosen.mask or [",".join(MASKS)]
    return Request(
        corpus=options.corpus_spec(chosen, chosen.corpus),
        model=options.model_source(chosen),
        masks=[mask.strip() for masks in given for mask in masks.split(",")],
        examples=chosen.examples,
        seed=chosen.seed,
        support=options.support(chosen.support),
        methods=methods,
        options=how,
        settings=options.settings(chosen, progress=False),
        corpus_name=chosen.corpus_name,
        model_name=chosen.model_name,
    )


def _announcement(prepared: "Prepared") -> str:
    draft = prepared.draft
    rejected = [
        f"{count} {reason} ({mask})"
        for mask, reasons in draft.draw.refused.items()
        for reason, count in reasons.items()
    ]
    not_taken = [f"{count:,} {why}" for why, count in prepared.corpus.refused.items() if count]
    counted = f" (and {', '.join(not_taken)})" if not_taken else ""
    left_out = f"; rejected before the last: {', '.join(rejected)}" if rejected else ""
    return (
        f"{printable(draft.model.name)} on {printable(draft.corpus.name)}:"
        f" {draft.corpus.sentences:,} distinct sentences{counted}, {draft.draw.count:,} examples"
        f" ({', '.join(draft.draw.masks)}){left_out}{_unknown(prepared)}"
    )


def _unknown(prepared: "Prepared") -> str:
    """How many examples hold words that the vocabulary does not know."""
    tokenizer, pairs = prepared.lm.tokenizer, prepared.drawn.pairs
    count = sum(one.has_unknown(tokenizer.unk_token_id) for one in pairs)
    if not count:
        return ""
    mark = printable(str(tokenizer.convert_ids_to_tokens([tokenizer.unk_token_id])[0]))
    return f"; {count:,} of them hold words that the vocabulary has no token for ({mark})"


def _cost(prepared: "Prepared") -> str:
    """What the run would cost here, by an example of median length."""
    pairs = sorted(prepared.drawn.pairs, key=lambda one: len(one.cloze))
    draft = prepared.draft
    cost = prepared.lm.cost(
        pairs[len(pairs) // 2].cloze,
        methods=[one.method for one in draft.constructions],
        support=draft.support,
        settings=prepared.request.settings,
        options={one.method: dict(one.options) for one in draft.constructions},
        examples=len(pairs),
    )
    named = ", ".join(one.label for one in draft.constructions)
    return f"{named}: {len(pairs):,} examples, each {cost}"


def _conclusion(outcome: "Outcome", output: str) -> str:
    failed = f", {outcome.failed:,} failed: run again to try them again" if outcome.failed else ""
    return (
        f"{outcome.done:,} examples are in {quoted(output, limit=200)}{failed};"
        " unmask report makes tables of them"
    )


@contextmanager
def _leaving_in_order() -> Iterator[None]:
    """End with everything saved on SIGTERM, which batch systems send before they kill."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)

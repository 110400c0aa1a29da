"""`unmask evaluate`: many masked examples of a corpus by several constructions, into a folder."""

import argparse
import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from unmask.cli import cluster, options
from unmask.errors import UnmaskError
from unmask.printable import printable, quoted

if TYPE_CHECKING:
    from unmask.evaluation.request import Outcome, Prepared, Request
    from unmask.jobs.executors.local import Executor
    from unmask.settings import Sketch

SUMMARY = "measure constructions on many masked examples of a corpus"
DESCRIPTION = (
    "Mask two tokens in each of many sentences, build the joints, and write the paper's four "
    "metrics for every construction into a folder, as Parquet. If a run is interrupted, repeat "
    "the command and it continues where it stopped. Exit codes: 1 if some examples failed (the "
    "next run tries them again), 2 on bad input, 130 when interrupted and 143 when terminated, "
    "with all results saved."
)
EXAMPLE = "unmask evaluate snli -m bert-base-cased -o runs/snli --examples 100"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add(
        "corpus",
        metavar="CORPUS",
        help="snli, xsum, a Hugging Face dataset or its folder, a file (.jsonl, .tsv, .csv, .txt), "
        "or - for standard input",
    )
    options.add_model(parser)
    add("-o", "--output", required=True, metavar="FOLDER", help="folder for the results")
    add("--corpus-name", metavar="NAME", help="name of the corpus in tables")
    add("--model-name", metavar="NAME", help="name of the model in tables")
    add(
        "--mask",
        action="append",
        metavar="NAME",
        help="contiguous (two adjacent tokens), random (any two), or both: contiguous,random "
        "(default: both)",
    )
    add(
        "--examples",
        type=int,
        default=1000,
        metavar="N",
        help="examples per kind of mask; the same for all runs on a folder (default: 1000)",
    )
    add(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the examples and sketches (default: 0)",
    )
    add("--dry-run", action="store_true", help="print the plan and its cost, and run nothing")
    add("--quiet", action="store_true", help="print no progress bar, only errors")
    options.add_corpus(parser)
    _add_sketch(options.add_joints(parser, default="all"))
    _add_sharing(options.add_running(parser))
    cluster.add_arguments(parser)


def _add_sketch(group: options.Group) -> None:
    group.add_argument(
        "--sketch",
        action="store_true",
        help="estimate the metrics of an example, with standard errors, from a few hundred "
        "forward passes instead of every token of the vocabulary; works with mlm, pseudo-gibbs, "
        "log-pool, orders and sweep (--method all then means these), and without A-KL",
    )
    group.add_argument(
        "--precision",
        type=float,
        metavar="NATS",
        help="with --sketch: run as many forward passes as it takes to bring the standard error "
        "of the true pair's log-probability below this (default: 0.05)",
    )
    group.add_argument(
        "--max-passes",
        type=int,
        metavar="N",
        help="with --sketch: most forward passes per example (default: 2000)",
    )


def _add_sharing(group: options.Group) -> None:
    group.add_argument(
        "--shard",
        default="0/1",
        metavar="I/N",
        help="run the I-th of N equal parts of the examples of each mask, counting from 0, so "
        "that N processes can share one folder (default: 0/1)",
    )
    group.add_argument(
        "--save-every",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how often results are saved; a crash loses at most that much work (default: 10)",
    )


def run(chosen: argparse.Namespace) -> int:
    """Draw the examples, agree on the plan, compute what is missing."""
    _check(chosen)
    request = _request(chosen)
    # first: whether there is a cluster is known at once, reading a corpus takes time
    joined = nullcontext() if chosen.dry_run else cluster.executor(chosen, request.model)
    with joined as executor:
        if chosen.ray is not None:
            # this process only plans, and needs no GPU
            request = replace(request, model=replace(request.model, device="cpu"))
        return _run(chosen, request, executor)


def _check(chosen: argparse.Namespace) -> None:
    """Reject options that have no effect, and a wait that never ends."""
    cluster.check(chosen)
    for name in ("precision", "max_passes"):
        if getattr(chosen, name) is not None and not chosen.sketch:
            raise UnmaskError(f"--{name.replace('_', '-')} is of a sketch; give --sketch too")
    if not chosen.save_every >= 0:
        raise UnmaskError(f"--save-every takes seconds from 0, not {chosen.save_every}")


def _run(chosen: argparse.Namespace, request: "Request", executor: "Executor | None") -> int:
    from unmask.evaluation.request import evaluate, prepare
    from unmask.jobs.shards import Shard

    shard = Shard.parse(chosen.shard)
    prepared = prepare(request)
    if not chosen.quiet or chosen.dry_run:
        print(_announcement(prepared), file=sys.stderr)
    if chosen.dry_run:
        print(_cost(prepared))
        return 0
    with cluster.leaving_in_order():
        outcome = evaluate(
            prepared,
            chosen.output,
            shard=shard,
            executor=executor,
            save_every=chosen.save_every,
            progress=False if chosen.quiet else None,
            say=options.say,
        )
    for why in outcome.damaged:
        options.say(f"set aside and computed again: {why}")
    if not chosen.quiet:
        print(_conclusion(outcome, chosen.output), file=sys.stderr)
    return 1 if outcome.failed else 0


def _request(chosen: argparse.Namespace) -> "Request":
    from unmask.queries.sketched import sketchable

    sketch = _sketch(chosen)
    methods = options.methods(chosen, default="all", every=sketchable() if sketch else None)
    how = options.method_options(chosen, methods)

    from unmask.evaluation.masks import MASKS
    from unmask.evaluation.request import Request

    return Request(
        corpus=options.corpus_spec(chosen, chosen.corpus),
        model=options.model_source(chosen),
        masks=options.listed(chosen.mask, ",".join(MASKS)),
        examples=chosen.examples,
        seed=chosen.seed,
        support=options.support(chosen.support),
        sketch=sketch,
        methods=methods,
        options=how,
        settings=options.settings(chosen, progress=False),
        corpus_name=chosen.corpus_name,
        model_name=chosen.model_name,
    )


def _sketch(chosen: argparse.Namespace) -> "Sketch | None":
    """The sketch that the options ask for: one seed decides examples and draws."""
    if not chosen.sketch:
        return None

    from unmask.settings import Sketch

    given = {"precision": chosen.precision, "passes": chosen.max_passes}
    known = {name: value for name, value in given.items() if value is not None}
    return Sketch(seed=chosen.seed, **known)


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
    from unmask.constructions import DEFAULT_METHOD

    pairs = sorted(prepared.drawn.pairs, key=lambda one: len(one.cloze))
    draft = prepared.draft
    methods = [one.method for one in draft.constructions]
    cost = prepared.lm.cost(
        pairs[len(pairs) // 2].cloze,
        # A-KL and J read both tables, and a sketch is run whatever is read from it: the default's
        methods=[*methods, DEFAULT_METHOD],
        support=draft.sketch or draft.support,
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

"""`unmask evaluate`: many masked examples of a corpus by several constructions, into a folder."""

import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unmask.cli import cluster, many, options
from unmask.cli.command import argument, group, option, required
from unmask.printable import printable, quoted

if TYPE_CHECKING:
    from unmask.evaluation.request import EvaluationRequest, Prepared
    from unmask.jobs.running import Executor, Result


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand:
    """Many masked examples of a corpus, into a folder."""

    SUMMARY = "measure constructions on many masked examples of a corpus"
    DESCRIPTION = (
        "Mask two tokens in each of many sentences, build the joints, and write the paper's four "
        "metrics for every construction into a folder, as Parquet. If a run is interrupted, "
        "repeat the command and it continues where it stopped. Exit codes: 1 if some examples "
        "failed (the next run tries them again), 2 on bad input, 130 when interrupted and 143 "
        "when terminated, with all finished parts saved."
    )
    EXAMPLE = "unmask evaluate snli -m bert-base-cased -o runs/snli --examples 100"

    corpus: str = argument(
        "snli, xsum, a Hugging Face dataset or its folder, a file (.jsonl, .tsv, .csv, .txt), or "
        "- for standard input",
        "CORPUS",
    )
    model: str = options.MODEL()
    output: str = required("folder for the results", "FOLDER", short="-o")
    corpus_name: str | None = option("name of the corpus in tables", "NAME")
    model_name: str | None = options.MODEL_NAME()
    mask: tuple[str, ...] = option(
        "contiguous (two adjacent tokens), random (any two), or both: contiguous,random (default: "
        "both)",
        "NAME",
        default=("contiguous", "random"),
    )
    examples: int = option(
        "examples per kind of mask; the same for all runs on a folder (default: {default})",
        "N",
        default=1000,
    )
    strict: bool = options.STRICT()
    dry_run: bool = options.DRY_RUN()
    quiet: bool = options.QUIET()
    reading: options.CorpusOptions = group(options.CorpusOptions())
    methods: options.Methods = group(options.Methods(method=("all",)))
    support: str | None = option(options.SUPPORT, "NAME|TOKENS", group="construction")
    estimation: options.Estimation = group(options.Estimation())
    running: options.Running = group(options.Running())
    rows_per_unit: int | None = many.ROWS_PER_UNIT()
    shard: str | None = many.SHARD()
    distributed: cluster.RayOptions = group(cluster.RayOptions())

    def run(self) -> int:
        """Draw the examples, agree on the plan, compute what is missing."""
        self._check()
        request = self._request()
        # first: whether there is a cluster is known at once, reading a corpus takes time
        joined = (
            nullcontext() if self.dry_run else cluster.executor(self.distributed, request.model)
        )
        with joined as executor:
            if self.distributed.ray is not None:
                # this process only plans, and needs no GPU
                request = replace(request, model=replace(request.model, device="cpu"))
            return self._run(request, executor)

    def _check(self) -> None:
        """Reject options that have no effect, and a wait that never ends."""
        cluster.check(self.distributed)
        self.estimation.check(self.support or ())

    def _run(self, request: "EvaluationRequest", executor: "Executor | None") -> int:
        from unmask.evaluation.request import evaluate, prepare
        from unmask.jobs.shards import Shard

        shard = Shard() if self.shard is None else Shard.parse(self.shard)
        prepared = prepare(request)
        if not self.quiet or self.dry_run:
            print(_announcement(prepared), file=sys.stderr)
        if self.dry_run:
            print(_cost(prepared, self.rows_per_unit))
            return 0
        with cluster.leaving_in_order():
            outcome = evaluate(
                prepared,
                many.whole_path(self.output),
                shard=shard,
                executor=executor,
                rows_per_unit=self.rows_per_unit,
                strict=self.strict,
                progress=False if self.quiet else None,
                say=options.say,
            )
        if not self.quiet:
            print(_conclusion(outcome, self.output), file=sys.stderr)
        if outcome.errors:
            options.say(outcome.failures())
        return 1 if outcome.errors or outcome.counts["failed"] else 0

    def _request(self) -> "EvaluationRequest":
        methods = self.methods.names(every=["all"])
        by_method = self.methods.given(methods)

        from unmask.evaluation.request import EvaluationRequest

        return EvaluationRequest(
            corpus=self.reading.spec(self.corpus),
            model=self.running.source(self.model),
            masks=options.listed(self.mask),
            examples=self.examples,
            support="auto" if self.support is None else options.support(self.support),
            **vars(self.estimation),
            methods=methods,
            options=by_method,
            settings=self.running.settings(progress=False),
            corpus_name=self.corpus_name,
            model_name=self.model_name,
        )


def _announcement(prepared: "Prepared") -> str:
    kind, corpus = prepared.kind, prepared.corpus
    rejected = [
        f"{count} {reason} ({mask})"
        for mask, reasons in kind.draw["refused"].items()
        for reason, count in reasons.items()
    ]
    not_taken = [f"{count:,} {why}" for why, count in corpus.refused.items() if count]
    counted = f" (and {', '.join(not_taken)})" if not_taken else ""
    left_out = f"; rejected before the last: {', '.join(rejected)}" if rejected else ""
    return (
        f"{printable(kind.model_name)} on {printable(kind.corpus)}:"
        f" {len(corpus):,} distinct sentences{counted}, {len(prepared.pairs):,} examples"
        f" ({', '.join(kind.draw['masks'])}){left_out}{_unknown(prepared)}"
    )


def _unknown(prepared: "Prepared") -> str:
    """How many examples hold words that the vocabulary does not know."""
    tokenizer, pairs = prepared.lm.tokenizer, prepared.pairs
    count = sum(one.has_unknown(tokenizer.unk_token_id) for one in pairs)
    if not count:
        return ""
    mark = printable(str(tokenizer.convert_ids_to_tokens([tokenizer.unk_token_id])[0]))
    return f"; {count:,} of them hold words that the vocabulary has no token for ({mark})"


def _cost(prepared: "Prepared", rows_per_unit: int | None) -> str:
    """What the run would take here."""
    from unmask.jobs.estimate import estimate

    job = prepared.job(rows_per_unit)
    units = list(job.cut(prepared.lm).units)
    return str(estimate(job.kind, prepared.lm, units, len(prepared.pairs), is_dry=True))


def _conclusion(outcome: "Result", output: str) -> str:
    counts = outcome.counts
    count = counts["failed"]
    failed = f", {count:,} failed: run again to try them again" if count else ""
    return (
        f"{counts['texts'] - count:,} examples are in {quoted(output, limit=200)}{failed};"
        " unmask report makes tables of them"
    )

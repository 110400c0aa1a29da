"""`unmask evaluate`: many masked examples of a corpus by several constructions, into a folder."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unmask.cli import cluster, many, options
from unmask.cli.command import argument, group, option, required
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.evaluation.request import EvaluationRequest
    from unmask.jobs.ray_workers import RayWorkers


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand(many.JobCommand):
    """Many masked examples of a corpus, into a folder."""

    SUMMARY = "measure constructions on many masked examples of a corpus"
    DESCRIPTION = (
        "Mask two tokens in each of many sentences, build the joints, and write the paper's four "
        "metrics for every construction into a folder, as Parquet. A run that was interrupted is "
        "continued by the same command. The exit code is 1 if some examples failed."
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
        "contiguous (two adjacent tokens), random (any two), or both (default: {default})",
        "NAME",
        default=("contiguous", "random"),
    )
    examples: int = option("examples per kind of mask (default: {default})", "N", default=1000)
    reading: options.CorpusOptions = group(options.CorpusOptions())
    methods: options.Methods = group(options.Methods(method=("all",)))
    support: str | None = option(options.SUPPORT, "NAME|TOKENS", group="construction")
    estimation: options.Estimation = group(options.Estimation())

    def run(self) -> int:
        """Draw the examples, agree on the plan, compute what is missing."""
        request = self._request()
        # first: whether there is a cluster is known at once, reading a corpus takes time
        joined = nullcontext() if self.dry_run else self.distributed.joined(request.model)
        with cluster.leaving_in_order(), joined as workers:
            if workers is not None:
                # this process only plans, and needs no GPU
                request = replace(request, model=replace(request.model, device="cpu"))
            return self._evaluate(request, workers)

    def _evaluate(self, request: "EvaluationRequest", workers: "RayWorkers | None") -> int:
        from unmask.jobs.folder import Shard
        from unmask.jobs.running import run_job

        job = request.job(
            say=self.note,
            shard=Shard.parse(self.shard),
            rows_per_unit=self.rows_per_unit,
            strict=self.strict,
        )
        if self.dry_run:
            cut = job.cut()
            job.announce([*cut.units], cut.rows, print, is_dry=True)
            return 0
        result = run_job(
            job,
            many.whole_path(self.output),
            workers=workers,
            progress=False if self.quiet else None,
            say=options.say,
            announce=None if self.quiet else options.say,
        )
        failed = result.counts["failed"]
        again = f", {failed:,} failed: run again to try them again" if failed else ""
        self.note(
            f"{result.counts['texts'] - failed:,} examples are in {quoted(self.output, limit=200)}"
            f"{again}; unmask report makes tables of them"
        )
        if result.errors:
            options.say(result.failures())
        return 1 if result.errors or failed else 0

    def _request(self) -> "EvaluationRequest":
        from unmask.evaluation.request import EvaluationRequest

        methods = self.methods.names(every=["all"])
        # a seed alone asks for no estimate
        estimation = replace(self.estimation, seed=0)
        support: Any = estimation.support(() if self.support is None else (self.support,))
        return EvaluationRequest(
            corpus=self.reading.spec(self.corpus),
            model=self.running.source(self.model),
            masks=options.listed(self.mask),
            examples=self.examples,
            seed=self.estimation.seed,
            support=support,
            methods=methods,
            options=self.methods.given(methods),
            settings=self.running.settings(progress=False),
            corpus_name=self.corpus_name,
            model_name=self.model_name,
        )

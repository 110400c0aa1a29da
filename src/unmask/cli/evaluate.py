"""`unmask evaluate`: many masked examples of a corpus by several constructions, into a folder."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unmask.cli import many, options
from unmask.cli.command import argument, option, required

if TYPE_CHECKING:
    from unmask.jobs.kinds import Counts


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand(
    many.JobCommand,
    options.TableOptions,
    options.CorpusOptions,
    options.MethodOptions,
    options.Estimation,
):
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
        group=options.INPUT,
    )
    output: str = required("folder for the results", "FOLDER", short="-o", group=options.OUTPUT)
    corpus_name: str | None = option("name of the corpus in tables", "NAME")
    model_name: str | None = options.MODEL_NAME()
    mask: tuple[str, ...] = option(
        "contiguous (two adjacent tokens), random (any two), or both (default: {default})",
        "NAME",
        default=("contiguous", "random"),
        commas=True,
    )
    examples: int = option("examples per kind of mask (default: {default})", "N", default=1000)
    method: tuple[str, ...] = option(
        options.METHOD, "NAME", default=("all",), commas=True, group=options.CONSTRUCTION
    )
    support: str | None = option(options.SUPPORT, "NAME|TOKENS", group=options.BLANKS)

    def run(self) -> int:
        """Draw the examples, agree on the plan, compute what is missing."""
        from unmask.evaluation.request import EvaluationRequest
        from unmask.jobs.folder import Shard

        methods = options.methods(self.method, ["all"])
        # a seed alone asks for no estimate
        support: Any = self.axes(() if self.support is None else (self.support,))
        request = EvaluationRequest(
            corpus=self.spec(self.corpus),
            model=self.source(),
            masks=self.mask,
            examples=self.examples,
            seed=self.seed,
            support=support,
            methods=methods,
            options=self.given(methods),
            settings=self.settings(),
            corpus_name=self.corpus_name,
            model_name=self.model_name,
        )
        shard, place = Shard.parse(self.shard), self.output
        # first: whether there is a cluster is known at once, reading a corpus takes time
        with self.joined(request.model) as workers:
            if workers is not None:
                # this process only plans, and needs no GPU
                request = replace(request, model=replace(request.model, device="cpu"))
            job_options = {"rows_per_unit": self.rows_per_unit, "strict": self.strict}
            job = request.job(say=self.note, shard=shard, **job_options)
            remark = "; unmask report makes tables of them"
            output = many.Output(many.whole_path(place), typed=place, remark=remark)
            return many.do(self, job, output, workers, self._conclude)

    def _conclude(self, counts: "Counts") -> int:
        return 1 if counts["failed"] else 0

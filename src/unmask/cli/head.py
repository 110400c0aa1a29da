"""`unmask head`: train the dependence head of a masked LM, to fill many blanks in few passes."""

from dataclasses import dataclass

from unmask.cli import options
from unmask.cli.command import argument, option


@dataclass(frozen=True, kw_only=True)
class HeadCommand(options.RunningOptions, options.CorpusOptions):
    """A dependence head, trained and put where the model's commands look for it."""

    SUMMARY = "train a head that predicts which blanks depend on each other"
    DESCRIPTION = (
        "Train the dependence head of MODEL on whole sentences of CORPUS: it predicts, in the "
        "forward pass that fills blanks, how many bits every two blanks share. It learns the "
        "model's own mutual information; the model is not changed. The head is saved in the "
        "model's folder, or for a name on the Hub in the user's cache; decode --passes uses it."
    )
    EXAMPLE = "unmask head bert-base-cased sentences.txt"

    model: str = argument("masked LM: a name on the Hugging Face Hub, or a folder", "MODEL")
    corpus: tuple[str, ...] = argument(
        "sentences to learn from: a file (.txt, .jsonl, .tsv, .csv), a Hugging Face dataset or its "
        "folder, or - for standard input",
        "CORPUS",
    )
    sentences: int = option(
        "how many sentences are masked and measured (default: {default})", "N", default=1000
    )
    without_attention: bool = option(
        "read no attention weights, so that the model runs with fused attention", default=False
    )
    seed: int = options.SEED()
    quiet: bool = options.QUIET()

    def run(self) -> int:
        """Read the corpora, load the model, train and save."""
        from unmask.printable import quoted
        from unmask.queries.decode.head import DependenceHead, place_of
        from unmask.records.corpora import read_corpus

        corpora = [read_corpus(self.spec(place)) for place in self.corpus]
        lm = self.source().load()
        head = DependenceHead.train(
            lm,
            [sentence.text for corpus in corpora for sentence in corpus.sentences],
            sentences=self.sentences,
            attention=not self.without_attention,
            seed=self.seed,
            settings=self.settings(),
        )
        place = place_of(lm.name)
        head.save(place)
        if not self.quiet:
            facts = head.facts
            options.say(
                f"the head is in {quoted(str(place), limit=200)}: learnt from {facts['pairs']:,} "
                f"pairs of blanks of {facts['texts']:,} sentences; rank correlation with measured "
                f"mutual information {facts['rank_correlation']} on {facts['held_out_pairs']:,} "
                "pairs held out"
            )
        return 0

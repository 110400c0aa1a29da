"""What every number of the page means, in plain words."""

from unmask.markup import Markup, element, text

TERMS = {
    "Example": (
        "A sentence of which two tokens were masked. The tokens that stood there are the true"
        " pair. Examples are shown by id; no text of the corpus is on this page."
    ),
    "Construction": (
        "A way to make one joint distribution over both blanks from what the model says about one"
        " blank given the other. A name with options in parentheses is a construction of its own."
    ),
    "P-NLL": (
        "Pairwise negative log-likelihood: minus the natural logarithm of the joint probability of"
        " the true pair, divided by two: nats per token. Lower is better."
    ),
    "U-NLL": (
        "Unary negative log-likelihood: minus the natural logarithm of the probability of one true"
        " token given the other under the joint, averaged over the two. Lower is better. For mlm"
        " the model's own conditionals are taken, as in the paper."
    ),
    "P-PPL, U-PPL": (
        "Perplexities: the exponential of the mean P-NLL or U-NLL over examples. The mean comes"
        " first, then the exponential; perplexities are never averaged. They are per token, so"
        " that they compare only between models of one vocabulary."
    ),
    "A-KL": (
        "How far the joint's conditionals are from the model's own: the Kullback-Leibler divergence"
        " from the model's to the joint's, averaged over every context of the support, in nats."
    ),
    "G-KL": "The same divergence in the contexts of the two true tokens alone.",
    "Nats per byte": (
        "All nats of the true tokens over all UTF-8 bytes that they stand for, sum over sum. It has"
        " one unit for all models, but other tokens are masked where the vocabulary is another."
    ),
    "Interval": (
        "In brackets: the 2.5% and the 97.5% percentile of a bootstrap that draws whole sentences,"
        " since examples of one sentence are not independent. Two constructions share their"
        " examples, so that intervals may overlap where one is plainly better: look at the"
        " difference."
    ),
    "Paired difference": (
        "The mean, over examples that both have, of a construction's number less the baseline's."
        " Below zero is better than the baseline. A star and bold type: the interval leaves out"
        " zero."
    ),
    "Forward passes": (
        "How often the model runs on one text, for the probability of one pair. V is the number of"
        " tokens that a blank may have: of the whole vocabulary, or of the support."
    ),
    "Distance": "How many tokens stand between the blanks: 0 for neighbours.",
    "J": (
        "Incompatibility: by how much the model's two conditionals contradict each other, in bits"
        " from 0 (some joint has both) to 1. Empty where its solver did not converge, or where it"
        " was not measured."
    ),
    "Spread": (
        "The highest P-NLL less the lowest among the sound constructions, in nats per token. Twice"
        " the spread is the logarithm of how many times likelier one makes the true pair than"
        " another."
    ),
    "Failed": (
        "Examples that have an error instead of numbers. Means are over the others; their cells"
        " are empty."
    ),
}


def glossary() -> Markup:
    """All terms, as a list of definitions."""
    return element(
        "dl",
        *(
            Markup(element("dt", text(term)) + element("dd", text(said)))
            for term, said in TERMS.items()
        ),
    )

"""The pages of the documentation, their code, and stand-ins for what that code names.

Models stand in by their kind: a BERT of one layer whose vocabulary is made of the pages' own
words, and one whose vocabulary is residues. Whatever file a page reads is here too.
"""

import gzip
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow
import pyarrow.parquet
import tiny_models
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

ROOT = Path(__file__).parents[2]
# results and decisions say what was; the reference is made from docstrings and help
OTHERWISE = ("results", "dev", "reference", "tutorials")
# programs that run another
WRAPPERS = ("srun", "ray")
FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """Fenced text of a page: its language, the text, and the line where it begins."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """A simple command of a shell script, with what it reads and writes."""

    words: tuple[str, ...]
    piped: "Command | None" = None
    reads: str | None = None
    writes: str | None = None

    @property
    def unmask(self) -> tuple[str, ...]:
        """What `unmask` is called with, after srun, NAME=value and the like; empty if it is not."""
        first = self.words[0]
        if first != "unmask" and first not in WRAPPERS and not re.match(r"[A-Z_]+=", first):
            return ()
        places = [at for at, word in enumerate(self.words[:-1]) if word == "unmask"]
        return self.words[places[-1] + 1 :] if places else ()

    def standard_input(self) -> bytes:
        """What it gets from a file, or from a program that prints one."""
        if self.reads is not None:
            return Path(self.reads).read_bytes()
        if self.piped is None:
            return b""
        program, path = self.piped.words
        content = Path(path).read_bytes()
        return {"cat": bytes, "zcat": gzip.decompress}[program](content)


def pages() -> list[Path]:
    """README and every page of the documentation that is no notebook."""
    docs = ROOT / "docs"
    found = (
        page for page in docs.rglob("*.md") if page.relative_to(docs).parts[0] not in OTHERWISE
    )
    return [ROOT / "README.md", *sorted(found)]


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[2].strip(), dedent(found[3]), text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def python(page: Path) -> str:
    """All of a page's Python, at the lines where it stands."""
    lines: list[str] = []
    for block in blocks(page):
        if block.language == "python":
            lines += [""] * (block.line - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines)


def commands(script: str) -> Iterator[Command]:
    """The simple commands of a script; a pipe's last one knows those before."""
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        words.whitespace_split = True
        yield from _pipes(list(words))


def _pipes(words: Sequence[str]) -> Iterator[Command]:
    before: Command | None = None
    one: list[str] = []
    for word in [*words, ";"]:
        if not re.fullmatch(r"[|&;()]+", word):
            one.append(word)
            continue
        if one:
            found = _simple(one, before)
            before = found if word == "|" else None
            if before is None:
                yield found
        one = []


def _simple(words: Sequence[str], piped: Command | None) -> Command:
    kept: list[str] = []
    where: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if not re.fullmatch(r"[<>]+", word):
            kept.append(word)
            continue
        descriptor = kept.pop() if word == ">" and kept and kept[-1].isdigit() else "1"
        where["<" if word == "<" else descriptor] = next(rest)
    return Command(tuple(kept), piped, where.get("<"), where.get("1"))


# --- models ------------------------------------------------------------------------------------

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_RESIDUES = "ACDEFGHIKLMNPQRSTVWYX"
_LENGTH = 160


def words() -> list[str]:
    """Everything that is quoted in code or stands in the files below, so that it is one token."""
    said = [block.text for page in pages() for block in blocks(page)]
    quoted = re.findall(r'"([^"\n]*)"', "\n".join(said))
    listed = re.findall(r"[\w]+(?:=|,)[\w,]+", "\n".join(said))
    found = re.findall(r"[A-Za-z]+", " ".join([*quoted, *listed, *SENTENCES, *sum(PAIRS, ())]))
    # one of several pieces, as the README says of it
    return sorted(set(found) - {"Francisco", *_LETTERS})


def save_models(folder: Path) -> dict[str, str]:
    """The stand-ins in a folder, by their kind."""
    spelled = [*_LETTERS, *(f"##{letter}" for letter in _LETTERS), "Fran", "##cisco", *".,?'-"]
    # pages ask for up to 300 candidates, however few words they have
    plain = [*spelled, *words()]
    missing = 300 - len(_SPECIAL) - len(plain)
    plain += [f"word{number}" for number in range(max(0, missing))]
    # tables tell models apart by their names
    vocabularies = {"words": plain, "roberta": plain, "residues": list(_RESIDUES)}
    for name, tokens in vocabularies.items():
        _save(folder / name, [*_SPECIAL, *tokens])
    return {name: (folder / name).as_posix() for name in vocabularies}


def stand_in(name: str, models: dict[str, str]) -> str:
    """The stand-in for a model of that name."""
    kinds = {"residues": "antiberty|esm|prot", "roberta": "roberta", "words": ""}
    return next(models[kind] for kind, said in kinds.items() if re.search(said, name.lower()))


def _save(folder: Path, tokens: Sequence[str]) -> None:
    numbered = {token: number for number, token in enumerate(tokens)}
    backend = Tokenizer(models.WordPiece(numbered, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    tokenizer = tiny_models._wrapped(backend, tiny_models._BRACKETS)
    sizes = {**tiny_models._SIZES, "num_hidden_layers": 1, "max_position_embeddings": _LENGTH}
    torch.manual_seed(7)
    model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=len(tokens), **sizes))
    tiny_models._randomise(model)
    for part in (tokenizer, model):
        part.save_pretrained(folder)


# --- files -------------------------------------------------------------------------------------

SENTENCES = ["the cat sat on the mat .", "a dog ran in the red house ."]
PAIRS = [("the cat sat .", "the sat cat ."), ("a dog ran .", "a ran dog .")]
CHAIN = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYC"
    "SRWGGDGFYAMDYWGQGTLVTVSS"
)
_TEXTS = ["The [MASK] is a [MASK].", "Two [MASK] are playing."]
_ITEMS = [
    {"text": _TEXTS[0], "item": 7, "targets": [["man", "woman"], ["chef", "doctor"]]},
    {"text": "A man is playing a ukulele.", "item": 8, "blanks": ["ukulele"], "method": "orders"},
]
_BLIMP = {"field": "syntax", "linguistics_term": "order", "UID": "anaphor_gender_agreement"}


# shows its own table
PAIRS_PAGE = ROOT / "docs" / "how-to" / "score-pairs.md"
DEPENDENCE_PAGE = ROOT / "docs" / "how-to" / "dependence.md"


def write_files(folder: Path) -> None:
    """Whatever the pages read, under the names that they have there."""
    plain = "\n".join(SENTENCES)
    files = {
        "sentences.txt": plain,
        "reviews.txt": f"{plain}\nA dog sleeps.\nA cat sleeps.",
        "test.txt": SENTENCES[0],
        # as many as a dependence head asks for
        "captions.txt": "\n".join(f"{text} {n}" for n in range(6) for text in SENTENCES),
        "texts.txt": "\n".join(_TEXTS),
        "chains.txt": " ".join(CHAIN[:30]),
        "sentences.jsonl": _json_lines({"text": text} for text in SENTENCES),
        "reviews.jsonl": _json_lines({"title": text, "body": text} for text in SENTENCES),
        "texts.jsonl": _json_lines({"text": text} for text in _TEXTS),
        "items.jsonl": _json_lines(_ITEMS),
        "sentences.csv": _table("item,sentence", ((n, text) for n, text in enumerate(SENTENCES))),
        "stimuli.csv": _table("item,sentence,text", ((n, t, t) for n, t in enumerate(SENTENCES))),
        "continuations.csv": _table(
            "before,text,after", [("the cat", "sat", "on the mat ."), ("a dog", "ran", ".")]
        ),
        "stimuli.tsv": "\n".join(f"{n}\t{text}" for n, text in enumerate(SENTENCES)),
        "pairs.tsv": "source\ttarget\n" + "\n".join("\t".join(pair) for pair in PAIRS),
        "pairs.csv": _table("good,bad", PAIRS),
        "items.csv": _table(
            "grammatical,ungrammatical,condition,construction,list",
            ((*pair, "a", "b", n) for n, pair in enumerate(PAIRS)),
        ),
    }
    tables = [one.text for one in blocks(PAIRS_PAGE) if one.language == "csv"]
    files["two-blanks.csv"] = tables[0]
    tables = [one.text for one in blocks(DEPENDENCE_PAGE) if one.language == "csv"]
    files["texts.csv"] = tables[0]
    files["chains.fasta"] = f">chain\n{CHAIN}\n"
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "crawl").mkdir()
    crawl = pyarrow.table({"text": list(SENTENCES)})
    pyarrow.parquet.write_table(crawl, folder / "crawl" / "a.parquet")
    (folder / "sentences.txt.gz").write_bytes(gzip.compress(plain.encode()))
    for name in ("blimp/data/anaphor_gender_agreement.jsonl", "my-dataset/test.jsonl"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(_json_lines(blimp_pairs()), encoding="utf-8")


def blimp_pairs() -> list[dict[str, Any]]:
    """Rows as BLiMP has them."""
    return [
        {**_BLIMP, "sentence_good": good, "sentence_bad": bad, "pairID": n, "pair_id": n}
        for n, (good, bad) in enumerate(PAIRS)
    ]


def _json_lines(rows: Any) -> str:
    return "\n".join(map(json.dumps, rows))


def _table(head: str, rows: Any) -> str:
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)])

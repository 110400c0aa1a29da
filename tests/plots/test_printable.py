"""What is printed is inert and aligned, whatever the tokens are."""

import json

import pytest
from tiny_tokenizers import ODD, PIECES, save_bert

import unmask
from unmask.cli import main
from unmask.printable import (
    columns,
    pad,
    printable,
    quoted,
    readable_bytes,
    readable_seconds,
    width,
)

PAIR = "the [MASK] sat on the [MASK]."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    # eight nats above the others: the odd tokens take the first places
    return save_bert(tmp_path_factory.mktemp("odd"), bias=dict.fromkeys(ODD, 8.0))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[unused1]", "[unused1]"),
        ("[/x]", "[/x]"),
        ("[bold]red[/bold]", "[bold]red[/bold]"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines\r\n", "two\\nlines\\r\\n"),
        ("tab\there", "tab\\there"),
        ("nul\x00l", "nul\\x00l"),
        ("del\x7f\x85", "del\\x7f\\x85"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200dwidth\ufeff", "zero\\u200dwidth\\ufeff"),
        ("line\u2028paragraph\u2029", "line\\u2028paragraph\\u2029"),
        # it looks like a space, and is another token
        ("no\xa0break\u3000", "no\\xa0break\\u3000"),
        ("half\ud83d", "half\\ud83d"),
        ("\U000e0001\U000f0000\ue000", "\\U000e0001\\U000f0000\\ue000"),
        ("日本 שלום é e\u0301 Ġman ▁man 😀", "日本 שלום é e\u0301 Ġman ▁man 😀"),
        ("a plain text", "a plain text"),
        ("", ""),
    ],
)
def test_control_characters_are_escaped_and_nothing_else(text, shown):
    assert printable(text) == shown


def test_every_character_comes_out_printable_on_one_line():
    # all of the first blocks, where the separators and marks are, and a sample of the rest
    every = "".join(map(chr, (*range(0x3100), *range(0x3100, 0x110000, 97))))
    shown = printable(every)
    assert shown.isprintable()
    assert len(shown.splitlines()) == 1


def test_quoted_values_are_one_short_line():
    assert quoted("a\nb") == "'a\\nb'"
    assert quoted((1, None)) == "(1, None)"
    assert quoted("x" * 40 + "y" * 40) == f"'{'x' * 28}...{'y' * 29}'"
    assert quoted("x" * 60) == f"'{'x' * 60}'"
    assert len(quoted([1] * 100)) == 60
    assert quoted(10**5000) == "<int that cannot be shown>"


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("abc", 3),
        ("日本", 4),
        ("ｆｕｌｌ", 8),
        ("e\u0301", 1),
        ("שָׁלוֹם", 4),
        # marks that Unicode gives no combining class: a vowel sign, a variation selector, a circle
        ("कु", 1),
        ("❤\ufe0f", 1),
        ("1\u20dd", 1),
        ("", 0),
    ],
)
def test_width_in_terminal_cells(text, cells):
    assert width(text) == cells
    assert width(pad(text, 10)) == 10
    assert pad(text, 0) == text


def test_columns_align_in_cells_not_in_characters():
    words = ["ab", "日本", "e\u0301e\u0301e\u0301", "שָׁלוֹם", "कु"]
    lines = columns([[word, "|", "end"] for word in words]).split("\n")
    assert {width(line.split("|")[0]) for line in lines} == {6}
    assert all(line.endswith("|  end") for line in lines)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        *((0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_234_567, "1.2 MB")),
        *((123_456_789, "123 MB"), (4e9, "4.0 GB"), (2.5e12, "2.5 TB"), (7e15, "7000.0 TB")),
    ],
)
def test_readable_bytes(count, said):
    assert readable_bytes(count) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((0, "under 1 s"), (0.99, "under 1 s"), (1, "1 s"), (119, "119 s"), (120, "2 min")),
        *((7199, "120 min"), (7200, "2.0 h"), (172_799, "48.0 h"), (172_800, "2.0 days")),
    ],
)
def test_readable_durations(seconds, said):
    assert readable_seconds(seconds) == said


def check_inert(text: str) -> None:
    assert all(line.isprintable() for line in text.split("\n")), ascii(text)


@pytest.mark.slow
def test_odd_tokens_in_a_table(folder, capsys):
    cells = len(ODD) ** 2
    assert main(["fill", PAIR, "-m", str(folder), "--top", str(cells), "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    check_inert(out)
    # the lines on trust stand apart
    table = out.split("\n\n")[0].splitlines()
    rows = [line.split() for line in table]
    # a rank, two tokens and a probability: no token broke its line or hid a column
    assert [len(row) for row in rows[1:]] == [4] * cells
    for odd in ODD:
        assert printable(odd) in {row[1] for row in rows} & {row[2] for row in rows}
    # in cells: wide characters are among the others
    assert len({width(line[: line.rindex(" ")]) for line in table[1:]}) == 1


@pytest.mark.slow
def test_odd_tokens_in_json(folder, capsys):
    pivot = ODD.index("del\x7f")
    arguments = [PAIR, "-m", str(folder), "--method", "hcb", "--pivot", ODD[pivot]]
    assert main(["fill", *arguments, "--top", "121", "--json", "--quiet"]) == 0
    out, _ = capsys.readouterr()
    check_inert(out)
    assert out.isascii()
    result = json.loads(out)["results"]["hcb"]
    assert result["diagnostics"]["pivot"] == ODD[pivot]
    # JSON gives the very tokens back
    for fill in result["fills"]:
        assert fill["token_str"] == [PIECES[i] for i in fill["token"]]
    assert {fill["token_str"][0] for fill in result["fills"]} >= set(ODD)


@pytest.mark.slow
def test_odd_tokens_in_the_repr_of_a_joint(folder):
    lm = unmask.load(folder)
    for odd in ODD:
        shown = repr(lm.joint(PAIR, support=[odd, "cat"]))
        check_inert(shown)
        assert len(shown.split("\n")) == 5
        assert printable(odd) in shown
    check_inert(repr(lm.support(list(ODD))))
    check_inert(repr(lm.joint(PAIR).top(20)))


@pytest.mark.parametrize("odd", ODD)
def test_odd_tokens_in_error_messages(folder, odd, capsys):
    given = f"{odd},{odd}"
    assert main(["fill", PAIR, "-m", str(folder), "--support", given]) == 2
    _, err = capsys.readouterr()
    check_inert(err)
    assert f"lists '{printable(odd)}', id {PIECES.index(odd)}, twice" in err
    # a near miss is answered with the token itself
    assert main(["fill", PAIR, "-m", str(folder), "--support", f"cat,{odd}x"]) == 2
    _, err = capsys.readouterr()
    check_inert(err)
    assert f"'{printable(odd + 'x')}' is not one of" in err
    assert f"did you mean '{printable(odd)}'" in err

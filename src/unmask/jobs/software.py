"""Which versions computed what: result rows name them in a line, as "torch 2.13.0".

Another version is reported and not rejected: whether the model still computes the same is seen by
running it, and the rest may differ in the last digits.
"""

from collections.abc import Collection, Iterable


def versions(software: str) -> dict[str, str]:
    """Versions by package; a package that was not there has the version "none"."""
    parts = [part.split(maxsplit=1) for part in software.split(", ")]
    pairs = [(words[0], words[1]) for words in parts if len(words) == 2]
    return dict((version, "none") if name == "no" else (name, version) for name, version in pairs)


def differing(lines: Iterable[str]) -> dict[str, list[str]]:
    """The packages that do not have one version in all of the lines that name them."""
    versions_by_name: dict[str, set[str]] = {}
    for line in lines:
        for name, version in versions(line).items():
            versions_by_name.setdefault(name, set()).add(version)
    return {name: sorted(each) for name, each in sorted(versions_by_name.items()) if len(each) > 1}


def change(earlier: Collection[str], here: str) -> str | None:
    """The packages whose version here differs from that of earlier result rows, in one line."""
    now = versions(here)
    mixed = [
        f"{name} {' and '.join(sorted(others))} there, {now[name]} here"
        for name, each in differing([*earlier, here]).items()
        if name in now and (others := set(each) - {now[name]})
    ]
    if not mixed:
        return None
    return (
        f"result rows of this run were computed with other versions ({'; '.join(mixed)}); the model"
        " answers as before, but numbers may differ in the last digits"
    )

"""Write folders of an evaluation of before the first release as `unmask evaluate` writes them now.

    python runs/convert_evaluation.py FOLDER...

Such a folder has a plan.json and parts under rows/. Each is replaced by a folder with the same
result rows in one part, after these were read back and compared.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq

from unmask.evaluation.rows import Row
from unmask.evaluation.run import CorpusIdentity, EvaluationPlan, Run, copy_run, read_run
from unmask.jobs.model_identity import ModelIdentity
from unmask.jobs.plan import JobPlan

# how the model was run, which is not part of a plan any more
DROPPED = ("format", "software", "model", "corpus", "batch", "memory_limit")


def old_run(folder: Path) -> Run:
    """The plan and the rows of a folder as it was."""
    values = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    corpus = CorpusIdentity(**values["corpus"])
    defaults = {"support_size": None, "sketch": None}
    job = JobPlan(
        kind="evaluate",
        options=defaults | {name: v for name, v in values.items() if name not in DROPPED},
        model=ModelIdentity.from_dict(values["model"]),
        input=[[corpus.name, corpus.sentences, corpus.digest]],
        texts_per_unit=values["draw"]["limit"],
        units=1,
        software=values["software"],
    )
    later = dict.fromkeys(("pairwise_error", "unary_error", "forward_passes"))
    rows = [
        Row.from_dict(later | {name: v for name, v in row.items() if name != "plan"})
        for part in sorted(folder.glob("rows/*/part-*.parquet"))
        for row in pq.read_table(part).to_pylist()
    ]
    plan = EvaluationPlan.of_job(job)
    order = {one.label: index for index, one in enumerate(plan.constructions)}
    rows.sort(key=lambda row: (row.mask, row.example_id, order[row.construction]))
    return Run(folder, job, plan, tuple(rows))


def convert(folder: Path) -> int:
    """How many rows are in the new folder, which has taken the old one's place."""
    run, new = old_run(folder), folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    copy_run(run, new)
    again = read_run(new)
    if (again.rows, again.plan, again.damaged) != (run.rows, run.plan, ()):
        raise SystemExit(f"{folder}: the rows are not those that were read")
    # when the rows were made, not when they were converted
    old, manifest = (
        json.loads(next(where.glob(name)).read_text())
        for where, name in ((folder, "rows/*/manifest.json"), (new, "_manifest-*.json"))
    )
    text = json.dumps({**manifest, "updated": old["updated"]}, indent=1)
    next(new.glob("_manifest-*.json")).write_text(text)
    shutil.rmtree(folder)
    new.rename(folder)
    return len(run.rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    for folder in parser.parse_args().folders:
        print(f"{folder}: {convert(folder)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())

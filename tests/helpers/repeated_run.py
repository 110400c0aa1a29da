"""One pair of a real model, as a process of its own: what it prints must not depend on the run.

python tests/helpers/repeated_run.py FOLDER THREADS,BATCH_SIZE,MEMORY_LIMIT ...

A line for every triple of settings, in order; what is loaded and compiled serves them all.
"""

import hashlib
import json
import sys

import torch

import unmask

TEXT = "A [MASK] is playing with a red [MASK] in the park."
METHODS = ["hcb", "ag", "log-pool"]
# enough tokens for the compiled passes, few enough to be done in seconds
TOKENS = range(1000, 2030)


def measured(lm: unmask.LanguageModel, threads: int, batch_size: int, memory_limit: int) -> str:
    torch.set_num_threads(threads)
    settings = unmask.Settings(
        batch_size=batch_size, memory_limit=memory_limit, progress=False, announce=False
    )
    tables = lm.tables(TEXT, support=list(TOKENS), settings=settings)
    joints = {name: unmask.construct(name, tables) for name in METHODS}
    gold = (TOKENS[3], TOKENS[200])
    metrics = unmask.pair_metrics(joints, tables, gold)
    numbers = {
        **{f"{n}/{k}": v for n, m in metrics.items() for k, v in m.to_dict().items()},
        **{f"{n}/entropy": joint.entropy() for n, joint in joints.items()},
        **{f"{n}/log_prob": joint.log_prob(*gold) for n, joint in joints.items()},
        "J": unmask.construct("log-pool", tables).incompatibility(),
    }
    rows = joints["log-pool"].log_rows(slice(0, 50)).numpy().tobytes()
    return json.dumps({"numbers": numbers, "digest": hashlib.sha256(rows).hexdigest()})


def main() -> None:
    lm = unmask.load(sys.argv[1])
    for triple in sys.argv[2:]:
        print(measured(lm, *map(int, triple.split(","))))


if __name__ == "__main__":
    main()

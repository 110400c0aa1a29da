"""One pair of a real model, as a process of its own: what it prints must not depend on the run.

python tests/repeated_run.py FOLDER THREADS BATCH_SIZE MEMORY_LIMIT
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


def main() -> None:
    folder, threads, batch_size, memory_limit = sys.argv[1], *map(int, sys.argv[2:])
    torch.set_num_threads(threads)
    settings = unmask.Settings(
        batch_size=batch_size, memory_limit=memory_limit, progress=False, announce=False
    )
    lm = unmask.load(folder)
    tables = lm.tables(TEXT, support=list(TOKENS), settings=settings)
    joints = {name: unmask.construct(name, tables) for name in METHODS}
    gold = (TOKENS[3], TOKENS[200])
    metrics = unmask.pair_metrics(joints, tables, gold)
    numbers = {
        **{f"{n}/{k}": v for n, m in metrics.items() for k, v in m.to_dict().items()},
        **{f"{n}/entropy": joint.entropy() for n, joint in joints.items()},
        **{f"{n}/log_prob": joint.log_prob(*gold) for n, joint in joints.items()},
        "J": unmask.incompatibility(tables),
    }
    rows = joints["log-pool"].log_rows(slice(0, 50)).numpy().tobytes()
    print(json.dumps({"numbers": numbers, "digest": hashlib.sha256(rows).hexdigest()}))


if __name__ == "__main__":
    main()

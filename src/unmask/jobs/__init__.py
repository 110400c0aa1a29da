"""From the rows of an input to the rows of an output, by a kind of job.

1. A *source* (`records.files`) is an input cut into *units*: slices, numbered from 0.
2. A *kind* (`kinds`) maps rows to items, on which the model can run, and items to result rows:
   score, fill, decode, pairs, dependence, consistency, evaluate. It declares its columns, and the
   work of a row, from which the size of a unit is computed (`estimate`).
3. A *plan* is all that decides the rows: kind, options, model, input, cut. Its digest names parts.
4. A *worker* has the model: it reads a unit, runs the kind, counts, and writes a *part*, one
   Parquet file, and then its *receipt*: JSON with the part's SHA-256, counters and seconds.
5. A *folder* has the plan, the parts and the receipts. A unit is done when its receipt is there;
   until then the receipt says how often it was begun, and after the third time it is skipped.
6. `running` does the units that a folder lacks: in a loop here, or by the workers of `ray_workers`.
7. `parts` writes one file of them, each verified against its receipt.
8. To a terminal or a pipe, `running.stream` runs the same kind in a plain loop, without a folder.
"""

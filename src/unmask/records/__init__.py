"""Rows in files: found, cut into units, read, and written as text.

1. `places.find` names the files of an INPUT (paths, patterns, folders, URLs), each real path once.
2. `files.open_input` looks at their first rows: a missing column ends the run before it begins.
3. `InputRows.cut` makes units of so many rows: ranges of bytes, found in the one pass that hashes a
   local file; row numbers of Parquet; of objects in a store, which are not read, shares of bytes.
4. `files.read_unit` reads a unit, wherever it is: its lines become text (`lines`), its text becomes
   rows (`rows`, `tables`, `parquet`), and a row that cannot be read becomes a reason.
5. A pipe, and texts on the command line, are units too: their rows are in memory.
6. `writing` turns result rows into CSV, TSV or JSON lines.
7. `corpora` reads sentences with ids that stay the same, for `evaluate`; `hub` reads datasets.
"""

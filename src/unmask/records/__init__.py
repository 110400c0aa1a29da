"""Rows in files: found, cut into units, read, and written as text.

1. `places.find` names the files of an INPUT (paths, patterns, folders, URLs), each real path once.
2. `files.open_input` looks at their first rows: a missing column ends the run before it begins.
3. `InputRows.cut` makes a `Unit` of so many rows: a range of bytes, found in the one pass that
   hashes a local file; of rows of Parquet; of bytes of an object in a store, which is not read.
4. `files.read_unit` reads a unit: bytes become lines (`lines`), lines become rows by the reader of
   the format (`rows.READERS`, and `tables` for CSV and TSV), and a row that cannot be read becomes
   a reason. The same reader says where a file can be cut. Of Parquet a unit is a table (`parquet`).
5. A pipe, and texts on the command line, are units too: their rows are in memory.
6. `writing` turns result rows into CSV, TSV or JSON lines.
7. `corpora` keeps each distinct text once, under an id, for `evaluate`; `hub` reads datasets.
"""

"""Rows in files: found, cut into units, read, and written as text.

1. `places.find` names the files of an INPUT (paths, patterns, folders, URLs), each real path once.
2. One road leads from a file to its rows, `files.read_records`: bytes become lines, and lines
   become rows, or reasons, by the reader of the format (`rows.READERS`).
3. `files.open_input` reads first rows: a missing column ends the run before it begins.
4. `InputRows.cut` makes a `Unit` of so many rows: a range of bytes, found in the one pass that
   hashes a local file; of rows of Parquet; of bytes of an object in a store, which is not read.
5. `files.read_unit` reads a unit; of Parquet it is a table with all columns (`parquet`).
6. Pipes, and texts on the command line, are units too: their rows are in memory.
7. `writing` turns result rows into CSV, TSV or JSON lines.
8. `corpora` keeps each distinct text once, under an id, for `evaluate`; `hub` reads datasets.
"""

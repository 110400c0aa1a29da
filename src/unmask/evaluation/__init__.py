"""Constructions measured on many masked examples.

    corpus -> masks:    sentences in hashed order, two tokens of each masked: an example
           -> kind:     an example -> a result row per construction: tables once, all metrics
           -> run:      a folder of parts, as of every job; its plan and rows are read back
           -> summary:  rows -> means with errors, and paired differences; by distance too
           -> tables:   summaries -> columns and cells, with what explains them
           -> rendering, figures: text, Markdown, LaTeX and CSV; pictures

`reporting` combines several runs, and rejects those that are not comparable. From rows on, no model
is needed.
"""

"""From result rows to numbers, tables and figures; no model is needed for any of it."""

"""The answers of a `LanguageModel` about one text or many."""

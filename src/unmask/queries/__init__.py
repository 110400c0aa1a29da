"""What a `LanguageModel` computes of one text or many."""

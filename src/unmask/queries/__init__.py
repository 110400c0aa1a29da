"""What a LanguageModel is asked about one text or many."""

from taboo_words.taskset import TabooWordsTaskset

__all__ = ["TabooWordsTaskset"]

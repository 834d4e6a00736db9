from alphabet_sort.env import AlphabetSortEnv
from alphabet_sort.taskset import AlphabetSortTaskset

__all__ = ["AlphabetSortEnv", "AlphabetSortTaskset"]

from word_problems.taskset import WordProblemsTaskset

__all__ = ["WordProblemsTaskset"]

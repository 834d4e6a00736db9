from small_functions.taskset import SmallFunctionsTaskset

__all__ = ["SmallFunctionsTaskset"]

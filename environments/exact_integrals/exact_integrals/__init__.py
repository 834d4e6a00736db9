from exact_integrals.taskset import ExactIntegralsTaskset

__all__ = ["ExactIntegralsTaskset"]

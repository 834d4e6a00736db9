from seating_order.taskset import SeatingOrderTaskset

__all__ = ["SeatingOrderTaskset"]

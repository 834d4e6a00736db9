from order_form.taskset import OrderFormTaskset

__all__ = ["OrderFormTaskset"]

from ticket_routing.taskset import TicketRoutingTaskset

__all__ = ["TicketRoutingTaskset"]

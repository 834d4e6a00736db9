"""Publishing: the plan, the push, its verification, and the ledger."""

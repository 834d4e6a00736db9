from ledger_lookup.taskset import LedgerLookupTaskset

__all__ = ["LedgerLookupTaskset"]

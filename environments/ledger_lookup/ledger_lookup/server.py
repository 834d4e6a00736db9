"""The tools with which the agent reads the books."""

import verifiers.v1 as vf

from ledger_lookup.ledger import books


class LedgerServerConfig(vf.SharedToolsetConfig):
    seed: int = 0
    """Which books: the taskset sets it to its own seed."""


class LedgerToolset(vf.Toolset[LedgerServerConfig]):
    TOOL_PREFIX = "ledger"

    @vf.tool
    def list_accounts(self, company: str) -> str:
        """List the accounts of a company, one per line: number, name."""
        accounts = books(self.config.seed, company)
        return "\n".join(f"{account.number}, {account.name}" for account in accounts) or f"There is no {company}."

    @vf.tool
    def list_entries(self, company: str, account: int) -> str:
        """List the entries of an account, given by its number, one per line: date, supplier, amount."""
        entries = {found.number: found.entries for found in books(self.config.seed, company)}.get(account, [])
        return "\n".join(f"{entry.date}, {entry.supplier}, {entry.amount}" for entry in entries) or "No such account."

    @vf.tool
    def add(self, amounts: list[int]) -> str:
        """Add up amounts; negative ones are subtracted."""
        return str(sum(amounts))


if __name__ == "__main__":
    LedgerToolset.run()

from rule_chains.taskset import RuleChainsTaskset

__all__ = ["RuleChainsTaskset"]

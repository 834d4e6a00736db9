"""A store of facts and verdicts that machines share: signed by those who write it, checked by those who read it."""

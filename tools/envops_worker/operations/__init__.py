"""What a worker can be asked for; every module answers with facts in the shape of `observe.facts`."""

"""What can be called: one module per group of commands. Nothing heavy is imported here: `--help` waits for nothing."""

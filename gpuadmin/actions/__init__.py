"""What the verbs do, one module for each, read from top to bottom: look, decide, plan, confirm, run, report."""

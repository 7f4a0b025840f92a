"""The verbs of the take-over, each from top to bottom."""

"""What verbs of the take-over share."""

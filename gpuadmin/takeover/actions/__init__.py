"""What each verb of the take-over does, from top to bottom."""

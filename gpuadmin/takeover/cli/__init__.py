"""The take-over's verbs: options in, one call."""

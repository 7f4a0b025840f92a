"""Node code of the take-over: its verbs alone send it to hosts."""

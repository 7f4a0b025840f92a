"""The reset of a term: its phases, and what they have in common."""

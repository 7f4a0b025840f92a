"""What is deleted at the end of a term, and what it leaves."""

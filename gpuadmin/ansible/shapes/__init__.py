"""The shapes of reports: the fields that somebody reads, of their kind and within bounds."""

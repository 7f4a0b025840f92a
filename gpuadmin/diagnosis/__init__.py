"""What is wrong for a person or on a host: from facts to causes, each with what to do about it. Pure."""

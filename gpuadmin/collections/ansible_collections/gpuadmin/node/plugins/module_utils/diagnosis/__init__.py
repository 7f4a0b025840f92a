"""Why something does not work for a person or on a host: facts, each looked at by itself. Nothing is changed."""

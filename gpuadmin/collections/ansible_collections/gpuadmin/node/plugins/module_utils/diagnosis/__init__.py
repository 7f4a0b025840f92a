"""Facts of a person or a host for which something does not work, each looked at by itself. Nothing is changed."""

"""Causes: what facts of a host mean for a person or for the host itself, each with what to do about it. Pure."""

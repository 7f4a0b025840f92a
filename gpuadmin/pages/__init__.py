"""Pages for people, written for one site: the user's guide, and a term's call for applications."""

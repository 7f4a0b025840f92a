"""The end of a term: who and what goes is decided here, purely; a journal remembers how far it got."""

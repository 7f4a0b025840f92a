"""Comparing hosts: from what each is set to, to the few settings in which one is not like the others. Pure."""

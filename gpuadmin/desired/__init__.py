"""What each host is meant to be: site, inventory and a verb's request in, the variables of roles out. Pure."""

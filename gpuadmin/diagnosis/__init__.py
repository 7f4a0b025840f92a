"""A diagnosis on the controller: the causes of all hosts, in order, each with what to do about it. Pure."""

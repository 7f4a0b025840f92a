"""The take-over: what a cluster that exists needs once. Its verbs, what they decide, and the node code that they send."""

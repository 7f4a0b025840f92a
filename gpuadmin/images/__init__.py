"""Images: what is where, how one is built, pushed and pruned. Decisions only; no host is asked."""

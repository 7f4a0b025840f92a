"""What verbs, hosts and the dashboard judge by, once for all of them: Python 3.9 and the standard library. Shipped."""

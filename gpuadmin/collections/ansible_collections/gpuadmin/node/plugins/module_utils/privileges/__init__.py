"""Who is root on a host, or could be; and what differs from what its packages brought. It only looks."""

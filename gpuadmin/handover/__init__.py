"""What the next admin needs: what is where on this machine, and secrets sealed for somebody's key."""

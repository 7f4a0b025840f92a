"""The dashboard: pages on the monitor host that say who uses which GPU, to whom they may say it."""

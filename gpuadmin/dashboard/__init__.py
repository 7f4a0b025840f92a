"""The dashboard: an application for the monitor host, whose pages say who uses which GPU. It is shipped as files."""

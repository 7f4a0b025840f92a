"""A cluster that exists: from what its hosts say to a site, and what does not fit gpuadmin yet. Pure."""

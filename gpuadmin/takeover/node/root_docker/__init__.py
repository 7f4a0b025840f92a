"""Root's own Docker: what its daemon has, and how images and volumes of it become a person's (gpuadmin move-docker)."""

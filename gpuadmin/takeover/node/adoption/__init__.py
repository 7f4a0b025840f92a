"""A host that gpuadmin has no part in yet: its accounts, homes, Docker, GPUs and how it is set up. It only looks."""

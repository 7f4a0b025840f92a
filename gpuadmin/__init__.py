"""gpuadmin runs the life of a shared GPU cluster."""

__version__ = "0.1.0"

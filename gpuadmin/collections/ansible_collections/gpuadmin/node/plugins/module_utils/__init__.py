"""gpuadmin's code that runs on nodes: standard library only, Python 3.9 and later.

On a node these files are the package ``gpuadmin_node`` in the state directory.
"""

"""gpuadmin's code that runs on nodes: standard library only, Python 3.9 and later.

On a node they are in a directory of their digest, with gpuadmin/common/ beside (code_cache.py).
"""

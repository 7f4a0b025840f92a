"""`python -m gpuadmin`: the same as the command `gpuadmin`."""

from gpuadmin.cli import main

if __name__ == "__main__":
    main()

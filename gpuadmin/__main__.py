from gpuadmin.cli import main

main()

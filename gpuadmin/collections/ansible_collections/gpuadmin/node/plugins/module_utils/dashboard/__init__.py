"""The dashboard on the monitor host: who comes in, what they may see, and the pages. It needs Starlette and Jinja."""

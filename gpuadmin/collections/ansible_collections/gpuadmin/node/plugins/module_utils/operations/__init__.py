"""Operations: what the controller can ask a host for, a file for each. Each says in a dataclass what it takes."""

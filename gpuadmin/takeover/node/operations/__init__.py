"""Operations of the take-over; operation.py of the node code runs them."""

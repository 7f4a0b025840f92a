"""Who is logged in, who may log in, and their terminals."""

"""What several verbs do alike."""

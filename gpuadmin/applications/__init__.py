"""Applications for accounts: a survey's export, matched with a group's list, to people who are ready for an account."""

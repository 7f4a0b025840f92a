"""Mail: from a decided letter to a message, over SMTP or into files, with a ledger that nobody is mailed twice."""

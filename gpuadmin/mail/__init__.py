"""Mail: from a decided letter to a message, over SMTP or into files, with a ledger, so that nobody is mailed twice."""

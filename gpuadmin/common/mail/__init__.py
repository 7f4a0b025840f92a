"""Mail: a ledger, so that nobody is mailed twice, and SMTP; of the controller and of the queue's host."""

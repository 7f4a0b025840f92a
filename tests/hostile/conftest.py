"""The node's code can be imported here as Ansible imports it."""

"""Ansible, by ansible-runner: `Invocation` in, `RunResult` out. Only `gpuadmin.session` starts it."""

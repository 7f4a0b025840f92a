"""People whom nobody on this machine is."""

from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person

MINJI = Person("minji", 48211, range(2900000000, 2900065536))
JIHO = Person("jiho", 48212, range(2900065536, 2900131072))

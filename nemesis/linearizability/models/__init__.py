"""The objects that come with the harness, one small file each, and the registry that finds any model by name."""

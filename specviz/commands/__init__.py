"""The commands of the command line: one file each, with its flags, its work and its output."""

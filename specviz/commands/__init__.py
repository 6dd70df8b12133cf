"""The commands of the command line: a file each, with its flags, what it does and its text."""

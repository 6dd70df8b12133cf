"""What each command of the command line does, and its result as text."""

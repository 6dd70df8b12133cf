"""The one error that is meant for a person: its text is a sentence to show as it is."""


class InputError(ValueError):
    """Input that breaks a rule; the message names the parameter, the rule and the value."""

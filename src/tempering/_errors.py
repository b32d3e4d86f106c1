"""The error for input that cannot be used."""


class InputError(ValueError):
    """A value, file or directory that cannot be used as asked. The message is one line with the cause and the cure."""

"""The error for what a person wrote."""


class InputError(ValueError):
    """A value, file or directory that cannot be used as asked: one line of cause and cure, no traceback needed."""

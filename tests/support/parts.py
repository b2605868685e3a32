"""The names of registered parts as messages and help texts list them, so that tests need no change for a new part."""


def listed(registry, keep=lambda entry: True):
    """The names in a registry, of the entries that satisfy a condition only."""
    return ", ".join(name for name, entry in registry.items() if keep(entry))


def kinds_of(registry, base, setting=None):
    """The names of the settings classes of a base class; with `setting`: of those that have this setting."""
    return listed(registry, lambda cls: issubclass(cls, base) and (setting is None or setting in cls.model_fields))

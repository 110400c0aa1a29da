"""How annotations are checked under pytest: shapes by jaxtyping, the rest by beartype."""

from beartype import BeartypeConf, beartype

# an int may stand where a float is asked for, as everywhere else in Python
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))

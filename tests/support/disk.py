"""A disk that is never full."""

from batchq.floor import Floor

BOTTOMLESS = Floor(free=lambda: 2**40, least=0)

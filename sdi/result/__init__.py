"""Results: scores with labels and error bars, ranked, split by parameter, plotted, saved; read from a store."""

from sdi.result.ranking import Top, TopRow

__all__ = ["Top", "TopRow"]

"""Comparisons, forecasts and tunings that print their verdict and show their page in a notebook."""

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from hvdprof.model.results.comparison import Comparison
from hvdprof.model.results.forecast import Forecast, ThroughputForecast
from hvdprof.model.results.tuning import Tuning

if TYPE_CHECKING:
    from hvdprof.report.answer import Answer
    from hvdprof.report.sections.section import Page


class _Shown:
    """A result that shows itself: as its page in a notebook, as its verdict elsewhere."""

    __slots__ = ()

    def _answer(self) -> "Answer":
        raise NotImplementedError

    def _page(self) -> "Page":
        return self._answer().page()

    def __str__(self) -> str:
        """The verdicts and their caveats, a line each."""
        found = ((one.verdict, one.caveat) for one in self._page().sections)
        lines = ((verdict, f"Caveat: {caveat}" * bool(caveat)) for verdict, caveat in found)
        return "\n".join(line for pair in lines for line in pair if line)

    def __repr__(self) -> str:
        """The kind of the result and its verdict; its tables fill screens."""
        verdict = next((one.verdict for one in self._page().sections if one.verdict), "")
        return f"<{type(self).__mro__[2].__name__}: {verdict}>"

    def _repr_html_(self) -> str:
        """The page of the result."""
        from hvdprof.report.document.html_report import page_html

        return page_html(self._page())


class _ShownComparison(_Shown, Comparison):
    __slots__ = ()
    __str__, __repr__ = Comparison.__str__, Comparison.__repr__

    def _answer(self) -> "Answer":
        from hvdprof.report.answers.comparison_formats import comparison_answer

        return comparison_answer(self)


class _ShownForecast(_Shown, Forecast):
    __slots__ = ()

    def _answer(self) -> "Answer":
        from hvdprof.report.answers.scores import forecast_answer

        return forecast_answer(self)


class _ShownThroughputForecast(_Shown, ThroughputForecast):
    __slots__ = ()

    def _answer(self) -> "Answer":
        from hvdprof.report.answers.files import throughput_forecast_answer

        return throughput_forecast_answer(self)


class _ShownTuning(_Shown, Tuning):
    __slots__ = ()

    def _answer(self) -> "Answer":
        from hvdprof.report.answers.tuning import tuning_answer

        return tuning_answer(self)


R = TypeVar("R", Comparison, Forecast, ThroughputForecast, Tuning)
_SHOWN: tuple[type, ...] = (
    _ShownComparison,
    _ShownForecast,
    _ShownThroughputForecast,
    _ShownTuning,
)


def shown(result: R) -> R:
    """The same result, as one that prints its verdict and shows its page in a notebook."""
    kind: type[R] = next(one for one in _SHOWN if isinstance(result, one.__mro__[2]))
    fields = dataclasses.fields(result)
    return kind(**{field.name: getattr(result, field.name) for field in fields})

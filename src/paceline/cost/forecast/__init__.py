"""How long an operator takes on a device that nobody measured: formulas, and what tables taught.

    forecast(works, sheet_of(device("h100"))).dur_ns

`works` answers for `graph.work.Work`; `ask` for columns of one kind, a million a second. `fitting`
makes the constants from tables of measurements.
"""

from paceline.cost.forecast.asked import Forecast, Kind, ask
from paceline.cost.forecast.learned import Constants, Learned, load, save, shipped
from paceline.cost.forecast.method import ForecastQuestion, Method
from paceline.cost.forecast.pairs import Both, forecast_both, taught
from paceline.cost.forecast.sheet import Sheet, sheet_of
from paceline.cost.forecast.tasks import keys
from paceline.cost.forecast.works import Timed, forecast, forecastable

__all__ = [
    "Both",
    "Constants",
    "Forecast",
    "ForecastQuestion",
    "Kind",
    "Learned",
    "Method",
    "Sheet",
    "Timed",
    "ask",
    "forecast",
    "forecast_both",
    "forecastable",
    "keys",
    "load",
    "save",
    "sheet_of",
    "shipped",
    "taught",
]

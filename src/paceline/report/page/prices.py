"""Prices of communication that the page slides with its links, as columns and facts."""

from dataclasses import astuple
from typing import Any

import numpy as np

from paceline.cluster import Cluster
from paceline.cost import SPREAD, Calls, Rates
from paceline.cost.price import told_ns
from paceline.cost.sliding import Slidable, slidable
from paceline.graph import NONE, Basis, Graph
from paceline.report.page.pack import PageData


def link_prices(graph: Graph, cluster: Cluster, rates: Rates, calls: Calls) -> PageData:
    """`price_of`: of each op the row of `prices` that it takes its time from, or NONE."""
    each = slidable(graph, cluster, rates, calls)
    price_of = np.full(len(graph), NONE, np.int32)
    price_of[calls.rows] = calls.which
    basis = rates.library_of(cluster).basis
    known = [told_ns(rates, call, cluster) for call in calls.each]
    reasons = [basis if told is None else told[1] for told in known]
    rows = [_row(price, reason) for price, reason in zip(each, reasons)]
    return PageData({"price_of": price_of}, {"prices": rows})


def _row(price: Slidable, basis: Basis) -> dict[str, Any]:
    """`low` and `high` are the ends of its interval, as factors."""
    spread = 1 + SPREAD[basis]
    return {
        "fixed_ns": price.fixed_ns,
        "latency": [astuple(piece) for piece in price.latency],
        "slowness": [astuple(piece) for piece in price.slowness],
        "low": 1 / spread,
        "high": spread,
        "basis": basis.name.lower(),
    }

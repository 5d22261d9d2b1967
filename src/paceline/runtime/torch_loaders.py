"""Other settings for every DataLoader that is iterated while a context is open.

The script keeps its own loader. What it iterates over is one made of the same data set and the
same samples with other settings; iterators that are under way go on as they are.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from paceline.record.torch_patch import Patches

log = logging.getLogger(__name__)
Settings = Callable[[Any], Mapping[str, Any]]
"""By what a loader is made, beside what it was made by; empty where it stays as it is."""

_KEPT = "collate_fn timeout worker_init_fn multiprocessing_context generator num_workers pin_memory"


@contextmanager
def loaders_with(settings: Settings) -> Iterator[None]:
    begun = False

    def following(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def iterate(loader: Any) -> Any:
            nonlocal begun
            begun, changed = True, settings(loader)
            return original(made_with(loader, changed) if changed else loader)

        return iterate

    patches = Patches()
    patches.wrap(DataLoader, "__iter__", following)
    try:
        yield
    finally:
        patches.undo()
        if not begun:
            log.warning("no DataLoader was iterated while it was to have other settings: the job's "
                        "batches and its loading stayed as they are")  # fmt: skip


def with_batches(loader: Any, factor: float) -> dict[str, Any]:
    """A loader's own samples in other batches; nothing where it puts none together itself."""
    sampler = loader.batch_sampler
    if type(sampler) is not BatchSampler:
        log.warning("a DataLoader without a plain batch size keeps its batches: %s", sampler)
        return {}
    size = max(1, round(sampler.batch_size * factor))
    return {"batch_sampler": BatchSampler(sampler.sampler, size, sampler.drop_last)}


def made_with(loader: Any, changed: Mapping[str, Any]) -> Any:
    """A loader of the same samples with other settings."""
    if isinstance(loader.dataset, IterableDataset):
        log.warning("a DataLoader of an IterableDataset is left as it is: it has no samples that "
                    "could be dealt out to workers or batches")  # fmt: skip
        return loader
    settings = {name: getattr(loader, name) for name in _KEPT.split()}
    if loader.num_workers:
        settings |= {"prefetch_factor": loader.prefetch_factor}
    if loader.batch_sampler is None:
        settings |= {"batch_size": None, "sampler": loader.sampler}
    else:
        settings |= {"batch_sampler": loader.batch_sampler}
    return DataLoader(**{"dataset": loader.dataset, **settings, **changed})

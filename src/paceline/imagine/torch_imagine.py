"""Runs a training script as one rank of many on tensors without data, and keeps its steady steps.

`python -m paceline.imagine.torch_imagine SETTINGS OUTPUT` is what `paceline.imagine.imagine`
starts; `imagined(train, ...)` does the same with a function.
"""

import gc
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
)

from paceline.imagine.imagined import Imagined, ImagineError, ImagineResult, write
from paceline.imagine.torch_session import ImagineSettings, Session, StepsCollected

_NEEDS_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
)


def main() -> None:
    settings = msgspec.json.decode(sys.argv[1], type=ImagineSettings)
    output = Path(sys.argv[2])
    try:
        result = ImagineResult(of_script(settings))
    except ImagineError as error:
        traceback.print_exception(error)
        result = ImagineResult(error=str(error))
    write(result, output)
    sys.stdout.flush()
    os._exit(0)  # threads and groups of the script have nothing left to do


def of_script(settings: ImagineSettings) -> Imagined:
    """What the rank does in the steady steps of a script, which is run from its start."""
    gc.freeze()  # what was imported stays: nobody need look through it again
    return imagined(lambda: _run(settings.command), settings)


def imagined(train: Callable[[], object], settings: ImagineSettings) -> Imagined:
    """What the rank does in its steady steps; `train` is left as soon as they are known."""
    session = Session(settings)
    try:
        with session:
            train()
    except StepsCollected:
        pass
    except ImagineError:
        raise
    except (Exception, SystemExit) as error:
        if session.result is None:
            raise ImagineError(_why(error)) from error
    if session.result is None:
        what = "calls of its model" if settings.forward else "optimizer steps"
        raise ImagineError(
            f"the script made {session.steps_made} {what}; "
            f"{session.warmup + settings.steps} are needed ({session.warmup} to settle, "
            f"{settings.steps} to keep). Let it run longer, ask for fewer --steps"
            + ("" if settings.forward else ", or with --forward for calls of the model alone")
        )
    return session.result


def _run(command: list[str]) -> None:
    """The script, or with -m the module, as Python would run it."""
    by_name = command[0] == "-m"
    sys.argv = command[1:] if by_name else command
    if by_name:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(command[0]).resolve().parent))
        runpy.run_path(command[0], run_name="__main__")


def _why(error: BaseException) -> str:
    """What the script did that cannot be done without data, and where."""
    place = _place(error)
    if isinstance(error, _NEEDS_VALUES):
        return (
            f"{place}: {getattr(error, 'func', type(error).__name__)} gives something whose size "
            "or value depends on data, and imagined tensors have none. Leave that out of the "
            "imagined run, or record a real one"
        )
    if isinstance(error, SystemExit):
        return f"the script ended itself (exit code {error.code}) before its steps were done"
    said = str(error).splitlines()[0] if str(error) else ""
    return f"{place}: {type(error).__name__}: {said}{_hint(error)}"


def _hint(error: BaseException) -> str:
    if "CUDA" in str(error) and not torch.cuda.is_available():
        return ". There is no GPU here: let a script that insists on one use the CPU"
    if type(error).__module__.startswith("torch.distributed.pipelining"):
        return ". Stages ask each other for shapes: give PipelineStage input_args and output_args"
    return ""


def _place(error: BaseException) -> str:
    """File and line of the innermost frame that is neither torch's nor ours."""
    here, library = Path(__file__).parents[1], Path(torch.__file__).parent
    inner = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(library)
        and not Path(frame.filename).is_relative_to(here)
        and not frame.filename.startswith("<frozen")
    ]
    return f"{inner[-1].filename}:{inner[-1].lineno}" if inner else "the script"


if __name__ == "__main__":
    main()

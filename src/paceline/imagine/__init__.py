"""Graphs without a recording: a training script run under fakes, a model by its dimensions."""

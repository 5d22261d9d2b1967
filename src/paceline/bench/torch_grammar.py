"""Sentences of a made grammar, and their translations, which need what real ones need.

Source: [article adjective* noun] verb [article adjective* noun] [adverb]. In the target the verb
comes last, adjectives follow their noun, the article joins the noun's number, the verb agrees with
its subject, and the object bears a mark of case.
"""

from itertools import chain
from typing import Final

import torch
from torch import Tensor

from paceline.bench.torch_data import drawn

NOUNS, ADJECTIVES, VERBS, ADVERBS = 30, 16, 16, 8
END: Final = 1
BEGIN: Final = 2
_FIRST: Final = 3
_THE_ONE, _THE_MANY, _NOUN = _FIRST, _FIRST + 1, _FIRST + 2
_ADJECTIVE, _VERB = _NOUN + NOUNS, _NOUN + NOUNS + ADJECTIVES
_ADVERB = _VERB + VERBS
SOURCE_WORDS: Final = _ADVERB + ADVERBS
_MARK = SOURCE_WORDS  # of the object; then nouns of many, and verbs of many
TARGET_WORDS: Final = SOURCE_WORDS + 1 + NOUNS + VERBS
LONGEST: Final = 11

Words = list[int]


def sentences(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Source and target words, each row ended, then filled with 0."""
    random = torch.randint(1 << 30, (count, 16), generator=drawn(seed)).tolist()
    pairs = [_pair(row) for row in random]
    return _table([source for source, _ in pairs]), _table([target for _, target in pairs])


def _pair(random: Words) -> tuple[Words, Words]:
    subject, object_ = random[:6], random[6:12]
    verb, many = random[12] % VERBS, subject[0] % 2
    adverb = [_ADVERB + random[13] % ADVERBS] if random[14] % 2 else []
    parts = (_source(subject), [_VERB + verb], _source(object_), adverb)
    spoken = _MARK + 1 + NOUNS + verb if many else _VERB + verb
    turned = (_target(subject), _target(object_), [_MARK], adverb, [spoken])
    return [*chain(*parts), END], [*chain(*turned), END]


def _source(random: Words) -> Words:
    many, noun, adjectives = _phrase(random)
    return [_THE_MANY if many else _THE_ONE, *adjectives, _NOUN + noun]


def _target(random: Words) -> Words:
    many, noun, adjectives = _phrase(random)
    return [_MARK + 1 + noun if many else _NOUN + noun, *reversed(adjectives)]


def _phrase(random: Words) -> tuple[int, int, Words]:
    """Whether of many, the noun, up to two adjectives."""
    adjectives = [_ADJECTIVE + each % ADJECTIVES for each in random[2 : 2 + random[4] % 3]]
    return random[0] % 2, random[1] % NOUNS, adjectives


def _table(rows: list[Words]) -> Tensor:
    return torch.tensor([row + [0] * (LONGEST - len(row)) for row in rows])

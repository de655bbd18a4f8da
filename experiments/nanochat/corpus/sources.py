"""The five sources of conversations: spelling, letters, problems, text, identity.

A source draws a conversation and its key: what a held-out conversation must not share with training, as the word to
spell, the story with its numbers, the text. Words are made of syllables, so there are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

T = TypeVar("T")
ANSWER = "#### "


@dataclass(frozen=True)
class Conversation:
    """A question and its answer. key: what no conversation of the other side of the split shares with it."""

    source: str
    key: str
    user: str
    assistant: str


Rng = np.random.Generator
Source = Callable[[Rng], Conversation]

ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "br", "tr", "sh", "ch")
VOWELS = ("a", "e", "i", "o", "u", "ea", "oo")
CODAS = ("", "", "l", "n", "r", "s", "t", "nd", "ck")
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ida", "Jon", "Kim", "Lea")
THINGS = ("apples", "books", "coins", "stones", "shells", "pens", "cards", "eggs", "cups", "keys")


def pick(rng: Rng, choices: tuple[T, ...]) -> T:
    return choices[int(rng.integers(len(choices)))]


def word(rng: Rng) -> str:
    """A made-up word of two or three syllables.

    >>> word(np.random.default_rng(0))
    'tollabend'
    """
    return "".join(pick(rng, ONSETS) + pick(rng, VOWELS) + pick(rng, CODAS) for _ in range(int(rng.integers(2, 4))))


def spelled(text: str) -> str:
    """The letters of a word, one by one.

    >>> spelled("moss")
    'm, o, s, s'
    """
    return ", ".join(text)


def spelling(rng: Rng) -> Conversation:
    """Spell a word."""
    w = word(rng)
    ask = pick(rng, ("Spell the word {}.", "How is {} spelled?", "Please spell {} letter by letter."))
    return Conversation("spelling", w, ask.format(w), spelled(w))


def letters(rng: Rng) -> Conversation:
    """Count a letter in a word: the word is spelled, the letter counted as it comes."""
    w = word(rng)
    one = pick(rng, tuple(sorted(set(w)))) if rng.random() < 0.8 else pick(rng, tuple("aeioust"))
    ask = pick(rng, ("How many {1} are in {0}?", "Count the letter {1} in {0}.", "How often does {0} have {1}?"))
    seen, steps = 0, []
    for letter in w:
        seen += letter == one
        steps.append(f"{letter} {seen}" if letter == one else letter)
    return Conversation("letters", w, ask.format(w, one), f"{', '.join(steps)}. {ANSWER}{seen}")


# (kind, story, signs of the second and third number); {n} a name, {t} a thing, {a} {b} {c} numbers
STORIES = (
    ("shop", "{n} has {a} {t}, buys {b} and gives away {c}. How many {t} does {n} have?", "+-"),
    ("find", "{n} finds {a} {t}, then {b}, then {c}. How many {t} are that?", "++"),
    ("lose", "{n} had {a} {t}, lost {b} and found {c}. How many {t} are left?", "-+"),
    ("use", "There are {a} {t}. {n} takes {b}, later {c}. How many {t} remain?", "--"),
    ("box", "A box holds {a} {t}. {n} puts in {b} and takes out {c}. How many {t} are in the box?", "+-"),
    ("gift", "{n} gets {a} {t} on Monday, {b} on Tuesday and {c} on Friday. How many {t} in all?", "++"),
)


def problems(rng: Rng) -> Conversation:
    """A word problem of two sums with numbers up to 9, worked, its answer behind ####. No sum is below 0.

    The key is the kind of story with its numbers: a held-out problem has numbers that training never has in this story,
    while each of its sums may occur in another one.
    """
    while True:
        kind, story, signs = pick(rng, STORIES)
        a, b, c = (int(x) for x in rng.integers(1, 10, 3))
        first = a + b if signs[0] == "+" else a - b
        second = first + c if signs[1] == "+" else first - c
        if min(first, second) >= 0:
            break
    ask = story.format(n=pick(rng, NAMES), t=pick(rng, THINGS), a=a, b=b, c=c)
    work = f"{a} {signs[0]} {b} = {first}. {first} {signs[1]} {c} = {second}. {ANSWER}{second}"
    return Conversation("problems", f"{kind} {a} {b} {c}", ask, work)


ANIMALS = ("fox", "owl", "bear", "hare", "crow", "wolf", "mole", "swan", "deer", "toad")
KINDS = ("old", "young", "grey", "small", "quiet", "proud", "hungry", "clever")
PLACES = ("in the wood", "by the lake", "on the hill", "under the bridge", "near the farm", "behind the mill")
DOINGS = ("sleeps", "waits", "sings", "hides", "looks for food", "watches the moon", "builds a home")
TIMES = ("in the morning", "at noon", "in the evening", "at night", "in winter", "after the rain")


def text(rng: Rng) -> Conversation:
    """Plain text: three sentences about an animal."""
    animal, kind = pick(rng, ANIMALS), pick(rng, KINDS)
    said = [f"The {animal} is {kind} and lives {pick(rng, PLACES)}."]
    said += [f"{pick(rng, TIMES).capitalize()} it {pick(rng, DOINGS)}." for _ in range(2)]
    story = " ".join(said)
    ask = pick(rng, ("Tell me about the {} {}.", "Write about a {} {}.", "What does the {} {} do?"))
    return Conversation("text", story, ask.format(kind, animal), story)


HELLOS = ("", "Hi. ", "Hello. ", "Good day. ", "Hey. ", "Please say: ")
QUESTIONS = (
    "Who are you?", "What are you?", "What is your name?", "Are you a person?", "Who made you?", "Do you have a name?",
    "Are you human?", "What can you do?", "Can you help me?", "Tell me who you are.",
)  # fmt: skip
ENDS = ("", " Thanks.", " Be short.", " I am curious.", " I am new here.", " My name is {n}.")
SELF = "I am Loop, a small looped language model. I can spell, count letters and do small sums."


def identity(rng: Rng) -> Conversation:
    """Who the model is: one answer to many ways to ask."""
    ask = pick(rng, HELLOS) + pick(rng, QUESTIONS) + pick(rng, ENDS).format(n=pick(rng, NAMES))
    return Conversation("identity", ask, ask, SELF)


SOURCES: dict[str, Source] = {
    "spelling": spelling, "letters": letters, "problems": problems, "text": text, "identity": identity,
}  # fmt: skip


def final_answer(said: str) -> str | None:
    """What stands behind #### in what was `said`, up to the next blank; None if nothing does.

    >>> final_answer("3 + 4 = 7. 7 - 2 = 5. #### 5"), final_answer("5")
    ('5', None)
    """
    parts = said.split(ANSWER, 1)
    words = parts[1].split() if len(parts) == 2 else []
    return words[0] if words else None

import random

from specviz.training.chat_questions import BEGINNINGS, NewQuestions, beginning


def test_a_question_is_accepted_only_once() -> None:
    questions = NewQuestions([])
    assert questions.accept("How do bees find their way home?")
    assert not questions.accept("how do bees find their way home")
    assert questions.accept("How do ants find their way home?")
    assert not questions.accept("Why?")


def test_questions_similar_to_held_out_messages_are_refused() -> None:
    long = "A baker has twelve loaves and sells half of them before noon. How many are left?"
    questions = NewQuestions(["What is the printing press?", f"{long} " * 3])
    assert not questions.accept("what is a printing press?")
    assert questions.accept("What is the steam engine?")
    assert not questions.accept("Yesterday a baker sells half of them before noon, did he not?")
    assert questions.accept("A farmer has twelve cows and sells half of them in spring.")


def test_half_of_the_questions_begin_with_given_words() -> None:
    chance = random.Random(0)
    begun = [beginning(chance) for _ in range(400)]
    assert 150 < begun.count("") < 250
    assert {*begun} - {""} <= {*BEGINNINGS} and len({*begun}) > len(BEGINNINGS) / 2

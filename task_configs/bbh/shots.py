"""Three worked examples for each BIG-Bench Hard task: input, reasoning, answer."""

from __future__ import annotations

Shot = tuple[str, str, str]


def lettered(question: str, options: str, reasoning: str, answer: str) -> Shot:
    """An example with options, given as texts separated by ``|``."""
    texts = options.split("|")
    letters = "ABCDEFGHIJ"[: len(texts)]
    listed = "\n".join(f"({at}) {text}" for at, text in zip(letters, texts, strict=True))
    return f"{question}\nOptions:\n{listed}", reasoning, f"({letters[texts.index(answer)]})"


def _yes_no(question: str, reasoning: str, answer: str) -> Shot:
    return f"{question}\nOptions:\n- Yes\n- No", reasoning, answer


def _causal(story: str, reasoning: str, answer: str) -> Shot:
    question = "How would a typical person answer each of the following questions about causation?"
    return _yes_no(f"{question}\n{story}", reasoning, answer)


def _argument(argument: str, reasoning: str, answer: str) -> Shot:
    question = (
        "Is the argument, given the explicitly stated premises, deductively valid or invalid?"
    )
    return f'"{argument}"\n{question}\nOptions:\n- valid \n- invalid', reasoning, answer


def _pronoun(sentence: str, options: str, reasoning: str, answer: str) -> Shot:
    question = "In the following sentence, say what the pronoun refers to, or that it is ambiguous."
    return lettered(f"{question}\nSentence: {sentence}", options, reasoning, answer)


def _close(opened: str, reasoning: str, answer: str) -> Shot:
    question = "Complete the rest of the sequence, closing all the brackets properly."
    return f"{question} Input: {opened}", reasoning, answer


def _path(numbers: str, reasoning: str, answer: str) -> Shot:
    shapes = "circle|heptagon|hexagon|kite|line|octagon|pentagon|rectangle|sector|triangle"
    return lettered(
        f'This SVG path element <path d="{numbers}"/> draws a', shapes, reasoning, answer
    )


def _order(number: str, story: str, options: str, reasoning: str, answer: str) -> Shot:
    opening = f"The paragraph describes {number} objects in a fixed order, without contradiction."
    return lettered(f"{opening} {story}", options, reasoning, answer)


def _instructions(steps: str, reasoning: str, answer: str) -> Shot:
    question = "If you follow these instructions, do you return to the starting point?"
    return _yes_no(f"{question} {steps}", reasoning, answer)


def _penguins(question: str, options: str, reasoning: str, answer: str) -> Shot:
    table = (
        "Here is a table with a header line and one line for each penguin: "
        "name, age, height (cm), weight (kg) Pip, 3, 45, 9 Otto, 8, 62, 14 Wanda, 6, 58, 12 "
        "So the age of Pip is 3 and the weight of Otto is 14 kg. "
    )
    return lettered(table + question, options, reasoning, answer)


def _ruined(name: str, options: str, reasoning: str, answer: str) -> Shot:
    question = f"Which of the following is a humorous edit of this artist or movie name: '{name}'?"
    return lettered(question, options, reasoning, answer)


def _translation(source: str, translation: str, reasoning: str, answer: str) -> Shot:
    kinds = (
        "Modifiers or Adjectives|Numerical Values|Negation or Antonyms|Named Entities|"
        "Dropped Content|Facts"
    )
    question = (
        "The translation from German to English holds one error. Of which kind is it?  "
        f"Source: {source}\nTranslation: {translation}\nThe translation contains an error "
        "pertaining to"
    )
    return lettered(question, kinds, reasoning, answer)


def _plausible(sentence: str, reasoning: str, answer: str) -> Shot:
    return f'Is the following sentence plausible? "{sentence}"', reasoning, answer


def _free_time(person: str, place: str, known: str, options: str, why: str, answer: str) -> Shot:
    question = (
        f"Today, {person} went to the {place}. Between what times could they have gone?\n"
        f"We know that:\n{known}\nBetween what times could {person} have gone to the {place}?"
    )
    return lettered(question, options, why, answer)


def _sarcastic(options: str, reasoning: str, answer: str) -> Shot:
    return lettered("Which statement is sarcastic?", options, reasoning, answer)


_BALLS3 = "Alice has a red ball, Bob has a green ball, and Claire has a blue ball"
_BALLS5 = (
    "Alice has a red ball, Bob has a green ball, Claire has a blue ball, Dave has a pink ball, and "
    "Eve has a white ball"
)
_BALLS7 = (
    "Alice has a red ball, Bob has a green ball, Claire has a blue ball, Dave has a pink ball, Eve "
    "has a white ball, Fred has a black ball, and Gertrude has a gray ball"
)


def _balls(start: str, swaps: str, person: str, reasoning: str, answer: str) -> Shot:
    options = "|".join(part.split(" has a ")[1] for part in start.split(", "))
    story = f"At the start of a game, {start}. Then pairs of players trade balls."
    ordered = swaps.split("; ")
    told = " ".join(
        f"{'First' if at == 0 else 'Then'}, {pair} swap balls." for at, pair in enumerate(ordered)
    )
    return lettered(f"{story} {told} At the end of the game, {person} has the", options,
                    reasoning, answer)  # fmt: skip


SHOTS: dict[str, tuple[Shot, Shot, Shot]] = {
    "boolean_expressions": (
        ("True and not ( False or True ) is",
         "The bracket is True, not True is False, and True and False is False.", "False"),
        ("not ( True and False ) or False is",
         "The bracket is False, not False is True, and True or False is True.", "True"),
        ("( not False ) and ( True or False ) is",
         "Both brackets are True, and True and True is True.", "True"),
    ),
    "causal_judgement": (
        _causal("A gardener waters his roses. The same night a storm breaks a branch of the oak "
                "next door. Did the gardener cause the branch to break?",
                "Watering roses has no part in what the storm did.", "No"),
        _causal("Lena was asked to keep the window shut, because the wind would scatter the "
                "papers. She opens it anyway, and the wind scatters the papers. Did Lena cause the "
                "papers to scatter?",
                "Without her forbidden act the papers would have stayed in place.", "Yes"),
        _causal("Paul backs his car out of the garage with care. A ball that nobody could see "
                "rolls under a wheel and bursts. Did Paul intentionally burst the ball?",
                "He neither knew of the ball nor wanted to hit it.", "No"),
    ),
    "date_understanding": (
        lettered("Yesterday was March 4, 2019. What is the date one week from today in MM/DD/YYYY?",
                 "03/11/2019|03/12/2019|03/05/2019|03/12/2018",
                 "Today is March 5, 2019, and a week later it is March 12, 2019.", "03/12/2019"),
        lettered("Tomorrow is the last day of June 2021. What is the date today in MM/DD/YYYY?",
                 "06/29/2021|06/30/2021|05/31/2021|07/01/2021",
                 "June ends on the 30th, so today is June 29, 2021.", "06/29/2021"),
        lettered("Today is February 28, 2024. What is the date two days from now in MM/DD/YYYY?",
                 "02/30/2024|02/29/2024|03/02/2024|03/01/2024",
                 "2024 is a leap year: February 29 comes next, then March 1, 2024.", "03/01/2024"),
    ),
    "disambiguation_qa": (
        _pronoun("The teacher thanked the plumber because she had repaired the sink.",
                 "The teacher had repaired the sink|The plumber had repaired the sink|Ambiguous",
                 "One thanks the person who did the work, and plumbers repair sinks.",
                 "The plumber had repaired the sink"),
        _pronoun("The singer told the dancer that he was on the list.",
                 "The singer was on the list|The dancer was on the list|Ambiguous",
                 "Either of the two may be on the list.", "Ambiguous"),
        _pronoun("The owner met the courier at the door and asked him to come back later.",
                 "The courier should come back later|The owner should come back later|Ambiguous",
                 "The owner asks, so the one who is asked is the courier.",
                 "The courier should come back later"),
    ),
    "dyck_languages": (
        _close("( [ ]", "The square bracket is closed, the round one is still open.", ")"),
        _close("{ < ( )", "Open are { and then <, so > comes first.", "> }"),
        _close("[ ( { } ) < >", "Only the first bracket is still open.", "]"),
    ),
    "formal_fallacies": (
        _argument("First, every swimmer is a reader. Second, Ida is a swimmer. Hence Ida is a "
                  "reader.", "Being a swimmer is enough for being a reader.", "valid"),
        _argument("First, every baker is an early riser. Second, Omar is an early riser. Hence "
                  "Omar is a baker.", "Early risers need not be bakers.", "invalid"),
        _argument("First, no cousin of Tess is a pilot. Second, Rui is a pilot. Hence Rui is not a "
                  "cousin of Tess.", "A cousin would not be a pilot, but Rui is one.", "valid"),
    ),
    "geometric_shapes": (
        _path("M 10.00,10.00 L 50.00,10.00 L 30.00,40.00 L 10.00,10.00",
              "Three segments return to the first point.", "triangle"),
        _path("M 10.00,20.00 L 70.00,80.00", "There is one segment.", "line"),
        _path("M 0.00,0.00 L 60.00,0.00 L 60.00,25.00 L 0.00,25.00 L 0.00,0.00",
              "Four segments meet at right angles and return to the first point.", "rectangle"),
    ),
    "hyperbaton": (
        lettered("Which sentence has the correct adjective order:",
                 "lovely small red wooden chair|red wooden lovely small chair",
                 "Opinion, size, colour and material follow one another.",
                 "lovely small red wooden chair"),
        lettered("Which sentence has the correct adjective order:",
                 "plastic new round lamp|new round plastic lamp",
                 "Age and shape come before material.", "new round plastic lamp"),
        lettered("Which sentence has the correct adjective order:",
                 "big old green Italian car|big green old Italian car",
                 "Age comes before colour.", "big old green Italian car"),
    ),
    "logical_deduction_three_objects": (
        _order("three", "On a shelf there are three books: a red book, a green book, and a blue "
               "book. The green book is to the left of the red book. The blue book is the "
               "rightmost.", "The red book is the leftmost|The green book is the leftmost|"
               "The blue book is the leftmost", "From the left: green, red, blue.",
               "The green book is the leftmost"),
        _order("three", "In a race there were three runners: Kim, Lou, and Max. Max finished above "
               "Kim. Lou finished last.", "Kim finished first|Lou finished first|"
               "Max finished first", "The order is Max, Kim, Lou.", "Max finished first"),
        _order("three", "A shop sells three fruits: figs, plums, and pears. The figs cost more "
               "than the plums. The pears cost less than the plums.", "The figs are the cheapest|"
               "The plums are the cheapest|The pears are the cheapest",
               "From the cheapest: pears, plums, figs.", "The pears are the cheapest"),
    ),
    "logical_deduction_five_objects": (
        _order("five", "On a bench there are five tools: a saw, a hammer, a file, a drill, and a "
               "clamp. The saw is the leftmost. The clamp is the rightmost. The file is to the "
               "right of the drill. The hammer is to the left of the drill.",
               "The saw is in the middle|The hammer is in the middle|The file is in the middle|"
               "The drill is in the middle|The clamp is in the middle",
               "From the left: saw, hammer, drill, file, clamp.", "The drill is in the middle"),
        _order("five", "In a tournament there were five players: Ann, Bo, Cy, Di, and Ed. Cy "
               "finished first. Bo finished last. Ann finished above Ed. Di finished below Ed.",
               "Ann finished second|Bo finished second|Cy finished second|Di finished second|"
               "Ed finished second", "The order is Cy, Ann, Ed, Di, Bo.", "Ann finished second"),
        _order("five", "A stall sells five drinks: tea, milk, juice, water, and cocoa. The water "
               "is the cheapest. The cocoa is the most expensive. The milk costs less than the "
               "tea. The juice costs more than the tea.", "The tea is the second-cheapest|"
               "The milk is the second-cheapest|The juice is the second-cheapest|"
               "The water is the second-cheapest|The cocoa is the second-cheapest",
               "From the cheapest: water, milk, tea, juice, cocoa.",
               "The milk is the second-cheapest"),
    ),
    "logical_deduction_seven_objects": (
        _order("seven", "In a street there are seven houses: a red, a blue, a green, a white, a "
               "yellow, a brown, and a gray one. The red house is the leftmost. The blue house is "
               "the second from the left. The white house is the third from the left. The gray "
               "house is the rightmost. The brown house is the second from the right. The green "
               "house is to the left of the yellow house.", "The red house is in the middle|"
               "The blue house is in the middle|The green house is in the middle|"
               "The white house is in the middle|The yellow house is in the middle|"
               "The brown house is in the middle|The gray house is in the middle",
               "From the left: red, blue, white, green, yellow, brown, gray.",
               "The green house is in the middle"),
        _order("seven", "In a contest there were seven singers: Al, Bea, Cal, Dot, Eli, Fay, and "
               "Gus. Fay finished first. Al finished second. Bea finished third. Gus finished "
               "last. Eli finished second-to-last. Cal finished above Dot.", "Al finished fifth|"
               "Bea finished fifth|Cal finished fifth|Dot finished fifth|Eli finished fifth|"
               "Fay finished fifth|Gus finished fifth",
               "The order is Fay, Al, Bea, Cal, Dot, Eli, Gus.", "Dot finished fifth"),
        _order("seven", "On a wire there are seven birds: a crow, a robin, an owl, a hawk, a "
               "finch, a jay, and a quail. The owl is the third from the left. The crow is to the "
               "left of the robin. The robin is to the left of the owl. The jay is the fourth from "
               "the left. The quail is the rightmost. The hawk is to the left of the finch.",
               "The crow is the second from the right|The robin is the second from the right|"
               "The owl is the second from the right|The hawk is the second from the right|"
               "The finch is the second from the right|The jay is the second from the right|"
               "The quail is the second from the right",
               "From the left: crow, robin, owl, jay, hawk, finch, quail.",
               "The finch is the second from the right"),
    ),
    "movie_recommendation": (
        lettered("Find a movie similar to Toy Story, Finding Nemo, Cars, Ratatouille:",
                 "Up|Saw|Heat|Alien", "All four are animated films for families.", "Up"),
        lettered("Find a movie similar to The Godfather, Goodfellas, Casino, Scarface:",
                 "Babe|Frozen|The Departed|Mamma Mia!", "All four tell of organised crime.",
                 "The Departed"),
        lettered("Find a movie similar to Alien, The Terminator, Predator, RoboCop:",
                 "Notting Hill|Aliens|Amélie|The Sound of Music",
                 "All four are violent science fiction of the 1980s or just before.", "Aliens"),
    ),
    "multistep_arithmetic_two": (
        ("((2 + 3 * 4) - (5 - 9)) =", "The brackets are 14 and -4, and 14 - (-4) = 18.", "18"),
        ("((-6 + 1) * (4 - 2 - 3)) =", "The brackets are -5 and -1, and -5 * -1 = 5.", "5"),
        ("((7 * 2 - 10) + (-3 * 3 + 1)) =", "The brackets are 4 and -8, and 4 + -8 = -4.", "-4"),
    ),
    "navigate": (
        _instructions("Take 3 steps. Turn around. Take 3 steps.",
                      "Three steps away and three back.", "Yes"),
        _instructions("Always face forward. Take 2 steps left. Take 5 steps forward. Take 2 steps "
                      "right. Take 4 steps backward.",
                      "Left and right cancel, but 5 forward and 4 backward leave 1.", "No"),
        _instructions("Turn left. Take 4 steps. Turn left. Take 1 step. Turn left. Take 4 steps. "
                      "Turn left. Take 1 step.",
                      "The path is a closed rectangle of 4 by 1 steps.", "Yes"),
    ),
    "object_counting": (
        ("I have two cats, a drum, three dogs, and a violin. How many animals do I have?",
         "2 cats and 3 dogs are 5 animals.", "5"),
        ("I have four apples, an onion, two plums, and three spoons. How many fruits do I have?",
         "4 apples and 2 plums are 6 fruits.", "6"),
        ("I have a bed, two stools, a lemon, and four tables. How many pieces of furniture do I "
         "have?", "1 bed, 2 stools and 4 tables are 7 pieces.", "7"),
    ),
    "penguins_in_a_table": (
        _penguins("Which penguin is the tallest?", "Pip|Otto|Wanda",
                  "The heights are 45, 62 and 58 cm; 62 is Otto's.", "Otto"),
        _penguins("How many penguins are older than 5 years?", "1|2|3",
                  "The ages are 3, 8 and 6; two of them are above 5.", "2"),
        _penguins("We now add a penguin to the table:\nLuna, 2, 40, 7\nWhat is the name of the "
                  "youngest penguin?", "Pip|Otto|Wanda|Luna",
                  "The ages are 3, 8, 6 and 2; 2 is Luna's.", "Luna"),
    ),
    "reasoning_about_colored_objects": (
        lettered("On the table, there is a red cup, a blue pen, and a green book. What color is "
                 "the pen?", "red|blue|green", "The pen is blue.", "blue"),
        lettered("On the desk, I see three yellow mugs, two black clips, and one yellow pencil. If "
                 "I remove all the mugs, how many yellow things remain on it?",
                 "zero|one|two|three",
                 "Without the mugs the pencil is the only yellow thing.", "one"),
        lettered("On the floor, I see items arranged in a row: a white ball, a purple hat, and an "
                 "orange cable. What is the color of the item directly to the right of the hat?",
                 "white|purple|orange", "To the right of the hat is the orange cable.", "orange"),
    ),
    "ruin_names": (
        _ruined("the lion king", "the lion kings|the lying king|the lioan king|a lion king",
                "Only a lying king is a new and funny meaning.", "the lying king"),
        _ruined("star wars", "starr wars|star warrs|star wart|staar wars",
                "Only star wart gives a funny word; the others are misspelt.", "star wart"),
        _ruined("iron man", "ironing man|iroon man|iron mann|irom man",
                "Only a man who irons is a new and funny meaning.", "ironing man"),
    ),
    "salient_translation_error_detection": (
        _translation("Das Haus wurde 1912 gebaut.", "The house was built in 1921.",
                     "The year is wrong.", "Numerical Values"),
        _translation("Der steinerne Turm steht am Fluss.", "The wooden tower stands by the river.",
                     "The tower is of stone: an adjective was changed.", "Modifiers or Adjectives"),
        _translation("Anna Weber ist eine Malerin aus Köln.",
                     "Anna Weber is a painter from Hamburg.",
                     "The city is another one.", "Named Entities"),
    ),
    "snarks": (
        _sarcastic("Great, my train is late again, what a perfect start of the day|"
                   "Great, my train is on time again, what a perfect start of the day",
                   "Nobody is glad of a late train.",
                   "Great, my train is late again, what a perfect start of the day"),
        _sarcastic("He trained for ten years, so he must be an expert|"
                   "He watched one video, so he must be an expert",
                   "One video makes no expert.", "He watched one video, so he must be an expert"),
        _sarcastic("Sure, paying twice is what everybody loves|"
                   "Sure, paying less is what everybody loves",
                   "Nobody loves to pay twice.", "Sure, paying twice is what everybody loves"),
    ),
    "sports_understanding": (
        _plausible("Lionel Messi scored from a free kick.",
                   "Messi plays football, where goals come from free kicks.", "yes"),
        _plausible("Serena Williams hit a home run.",
                   "Williams plays tennis, and home runs belong to baseball.", "no"),
        _plausible("LeBron James scored a touchdown.",
                   "James plays basketball, and touchdowns belong to American football.", "no"),
    ),
    "temporal_sequences": (
        _free_time("Ada", "library", "Ada woke up at 6am.\nTom saw Ada jogging in the park from "
                   "6am to 8am.\nJane saw Ada working at the office from 8am to 3pm.\nThe library "
                   "was closed after 5pm.", "6am to 8am|8am to 3pm|3pm to 5pm",
                   "Nobody saw Ada from 3pm until the library closed at 5pm.", "3pm to 5pm"),
        _free_time("Finn", "market", "Finn woke up at 9am.\nSara saw Finn fixing a bike from 11am "
                   "to 1pm.\nLeo saw Finn sitting in the cinema from 1pm to 6pm.\nThe market was "
                   "closed after 6pm.", "11am to 1pm|9am to 11am|1pm to 6pm",
                   "Nobody saw Finn between waking up at 9am and 11am.", "9am to 11am"),
        _free_time("Mia", "beach", "Mia woke up at 7am.\nPaul saw Mia baking from 7am to "
                   "10am.\nZoe saw Mia reading in a café from 12pm to 4pm.\nIan saw Mia playing "
                   "chess from 4pm to 8pm.\nThe beach was closed after 8pm.",
                   "10am to 12pm|7am to 10am|12pm to 4pm",
                   "Nobody saw Mia between 10am and 12pm.", "10am to 12pm"),
    ),
    "tracking_shuffled_objects_three_objects": (
        _balls(_BALLS3, "Alice and Bob; Bob and Claire; Alice and Claire", "Alice",
               "Alice gets green, then Claire holds red, then Alice gets red.", "red ball"),
        _balls(_BALLS3, "Claire and Alice; Alice and Bob; Bob and Claire", "Claire",
               "Alice gets blue, Bob gets blue from Alice, Claire gets blue from Bob.",
               "blue ball"),
        _balls(_BALLS3, "Bob and Claire; Alice and Bob; Bob and Claire", "Bob",
               "Claire gets green first, and hands it back to Bob at the end.", "green ball"),
    ),
    "tracking_shuffled_objects_five_objects": (
        _balls(_BALLS5, "Dave and Eve; Alice and Dave; Bob and Eve; Claire and Alice", "Alice",
               "Claire keeps blue until she swaps with Alice at the end.", "blue ball"),
        _balls(_BALLS5, "Bob and Claire; Eve and Bob; Dave and Claire; Alice and Eve", "Dave",
               "Claire gets green from Bob, and Dave gets green from Claire.", "green ball"),
        _balls(_BALLS5, "Alice and Claire; Bob and Dave; Eve and Alice; Claire and Dave", "Eve",
               "Alice gets blue from Claire, and Eve gets blue from Alice.", "blue ball"),
    ),
    "tracking_shuffled_objects_seven_objects": (
        _balls(_BALLS7, "Alice and Gertrude; Bob and Fred; Claire and Alice; Eve and Bob", "Bob",
               "Eve keeps white until she swaps with Bob at the end.", "white ball"),
        _balls(_BALLS7, "Dave and Fred; Eve and Gertrude; Dave and Alice; Fred and Claire",
               "Claire", "Fred gets pink from Dave, and Claire gets pink from Fred.", "pink ball"),
        _balls(_BALLS7, "Gertrude and Bob; Fred and Eve; Bob and Alice; Claire and Dave", "Alice",
               "Bob gets gray from Gertrude, and Alice gets gray from Bob.", "gray ball"),
    ),
    "web_of_lies": (
        ("Question: Ana tells the truth. Ben says Ana lies. Cleo says Ben lies. Does Cleo tell the "
         "truth?", "Ben says something false and lies, so Cleo is right about him.", "Yes"),
        ("Question: Ida lies. Jon says Ida tells the truth. Kai says Jon tells the truth. Does Kai "
         "tell the truth?", "Jon says something false and lies, so Kai is wrong about him.", "No"),
        ("Question: Uma lies. Val says Uma lies. Wes says Val tells the truth. Does Wes tell the "
         "truth?", "Val says something true, so Wes is right about Val.", "Yes"),
    ),
    "word_sorting": (
        ("Sort the following words alphabetically: List: pear banana apple",
         "By the first letter: a, b, p.", "apple banana pear"),
        ("Sort the following words alphabetically: List: river lamp stone moon",
         "By the first letter: l, m, r, s.", "lamp moon river stone"),
        ("Sort the following words alphabetically: List: tiger table tulip tea",
         "All begin with t; by the next letter: a, e, i, u.", "table tea tiger tulip"),
    ),
}  # fmt: skip

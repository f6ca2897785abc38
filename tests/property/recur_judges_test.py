"""Compares occurrences of recurrences (broker/recur) with other libraries (the judges): croniter for cron expressions, dateutil
for RRULEs, zoneinfo for time zones.

usage: recur_judges_test.py DRIVER [COUNT [SEED [JOBS]]]

JOBS: number of processes that share the expressions; the first has the seed SEED, the next SEED + 1. `./dev judges` compares
100,000 expressions.

The judges compute local times; zoneinfo says at which instants these times exist. An expression gets a random zone, and half of
the questions start within two days of a change of clocks of that zone. A difference is printed with its seed and fails
the test. The generator leaves out seven forms, in which the judges are wrong or differ by intent:
- cron, a day of the month together with MON#1 or FRIL: croniter 1.3.5 finds no date at all.
- cron, a day of the month that can be 1 and one above 28 (*/10): croniter 1.3.5 leaves out 1 March.
- cron, days=or with a list that names every day (*/1): croniter takes such a list for "*", which restricts nothing. We
  take it as written: every day matches.
- cron, days=or with a day of the month that its months lack (30 2 1: 30 February, or a Monday of February): croniter finds
  no date. We take the Mondays.
- RRULE, BYDAY with and without numbers (1SU,TH): RFC 5545 means either; dateutil wants both (its filter joins them by
  and), and finds no date.
- RRULE, the first week of FREQ=WEEKLY with BYSETPOS: dateutil counts from DTSTART, but in the first month of FREQ=MONTHLY
  from its first day. We count from the first day of the week as well.
- RRULE, BYWEEKNO with the last week of a year, for its days in January: dateutil 2.8.2 computes the number of that week from
  the wrong year's length (rrule.py, lnumweeks), so 1 January 2022 is in week 53 for it, and in 2021-W52 by ISO 8601.
"""
import bisect
import datetime
import multiprocessing
import os
import random
import subprocess
import sys
import zoneinfo

from croniter import croniter
from dateutil import rrule

ZONES = ["Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/Sao_Paulo",
         "America/St_Johns", "America/Havana", "America/Santiago", "America/Asuncion", "Asia/Shanghai",
         "Asia/Kolkata", "Asia/Tehran", "Asia/Beirut", "Asia/Gaza", "Africa/Casablanca", "Africa/Cairo",
         "Australia/Lord_Howe", "Australia/Sydney", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Apia",
         "Antarctica/Troll", "UTC"]
EPOCH = datetime.datetime(1970, 1, 1)
UTC = datetime.timezone.utc
ANSWERS = 5
YEARS = (2015, 2036)
DAY = 86400
datetime.MAXYEAR = YEARS[1] + 12  # last year that dateutil searches for a rule that never fires


def offset(zone, at):
    """Seconds that local time is ahead of UTC at this instant."""
    return int(datetime.datetime.fromtimestamp(at, UTC).astimezone(zone).utcoffset().total_seconds())


def changes(zone):
    """Instants at which the offset changes."""
    found = []
    low = int((datetime.datetime(YEARS[0], 1, 1) - EPOCH).total_seconds())
    end = int((datetime.datetime(YEARS[1], 1, 1) - EPOCH).total_seconds())
    while low < end:
        high = low + DAY
        if offset(zone, low) != offset(zone, high):
            first, last = low, high
            while first + 1 < last:
                middle = (first + last) // 2
                first, last = (middle, last) if offset(zone, middle) == offset(zone, low) else (first, middle)
            found.append(last)
        low = high
    return found


def instants(zone, naive, gap, fold):
    """Instants at which a local time occurs."""
    local = int((naive - EPOCH).total_seconds())
    both = sorted({local - int(naive.replace(tzinfo=zone, fold=f).utcoffset().total_seconds()) for f in (0, 1)})
    real = [at for at in both if at + offset(zone, at) == local]
    if real:
        return real if fold == "both" else real[:1]
    if gap == "skip":
        return []
    first, last = both[0] - 1, both[-1] + 1  # seconds before and after the change of clocks
    before = offset(zone, first)
    while first + 1 < last:
        middle = (first + last) // 2
        first, last = (middle, last) if offset(zone, middle) == before else (first, middle)
    return [last]


def slack(zone, moments):
    """Returns one hour plus the longest time by which a change of clocks moves a local time."""
    return max([abs(offset(zone, at) - offset(zone, at - 1)) for at in moments], default=0) + 3600


def judge(naive_times, zone, margin, after, horizon, gap, fold):
    """Returns the first instants after `after`, up to `horizon`. `naive_times`: local times in ascending order."""
    later = []
    for naive in naive_times:
        local = int((naive - EPOCH).total_seconds())
        if len(later) >= ANSWERS and local - offset(zone, later[ANSWERS - 1]) > later[ANSWERS - 1] + margin:
            break
        if local > horizon + DAY + margin:
            break
        for at in instants(zone, naive, gap, fold):
            place = bisect.bisect_left(later, at)
            if after < at <= horizon and later[place:place + 1] != [at]:
                later.insert(place, at)
    return later[:ANSWERS]


def item(pick, least, most, names=None):
    def value():
        number = pick.randint(least, most)
        return names[number - least] if names and pick.random() < 0.3 else str(number)
    kind = pick.random()
    if kind < 0.5:
        return value()
    if kind < 0.65:
        low = pick.randint(least, most)
        return f"{low}-{pick.randint(low, most)}"
    if kind < 0.75:
        low = pick.randint(least, most)
        return f"{low}-{pick.randint(low, most)}/{pick.randint(1, 5)}"
    return f"*/{pick.randint(1, max(1, (most - least) // 2))}"


def field(pick, least, most, chance_any, names=None):
    if pick.random() < chance_any:
        return "*"
    return ",".join(item(pick, least, most, names) for _ in range(pick.choice([1, 1, 1, 2, 3])))


def values(text, least, most):
    days = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        first, last = (least, most) if low == "*" else (int(low), int(high or low))
        days.update(range(first, last + 1, int(step or 1)))
    return days


def covers(text, least, most):
    for number, name in enumerate(DAYS):
        text = text.replace(name, str(number))
    return set(text) <= set("0123456789*/-,") and values(text, least, most) >= set(range(least, most + 1))


MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def cron_question(pick):
    day = field(pick, 1, 31, 0.6)
    if day != "*" and 1 in values(day, 1, 31) and max(values(day, 1, 31)) > 28:
        day = "15"
    if day != "*" and pick.random() < 0.1:
        day = "L"
    week = field(pick, 0, 6, 0.6, DAYS)
    ours, theirs = week, week
    if week != "*" and day == "*" and pick.random() < 0.3:
        number, nth = pick.randint(0, 6), pick.randint(1, 4)
        ours = theirs = f"{number}#{nth}"
        if pick.random() < 0.3:
            ours, theirs = f"{DAYS[number]}L", f"L{number}"
    minute = field(pick, 0, 59, 0.03)
    hour = field(pick, 0, 23, 0.1)
    if pick.random() < 0.5:  # near the changes of clocks
        hour = pick.choice(["0", "1", "2", "3", "0-3", "2,3", "1-2"])
    month = field(pick, 1, 12, 0.7, MONTHS)
    days = "-"
    if day != "*" and week != "*":
        whole = covers(day, 1, 31) or covers(week, 0, 6) or "*/1" in week
        days = "and" if whole else pick.choice(["and", "or"])
    if days == "or" and (day == "L" or min(values(day, 1, 31)) > 28):
        month = "*"
    text = f"{minute} {hour} {day} {month} {ours}"
    other = f"{minute} {hour} {day} {month} {theirs}"
    return text, other, days


def cron_times(other, days, start):
    walk = croniter(other, start, day_or=days != "and", max_years_between_matches=12)
    try:
        while True:
            yield walk.get_next(datetime.datetime)
    except Exception as ended:  # CroniterBadDateError: no more dates
        if "failed to find" not in str(ended):
            raise


def some(pick, least, most, count, negative=False):
    values = sorted({pick.randint(least, most) for _ in range(pick.randint(1, count))})
    return ",".join(str(-v if negative and pick.random() < 0.3 else v) for v in values)


def rrule_question(pick):
    freq = pick.choice(["YEARLY", "MONTHLY", "MONTHLY", "WEEKLY", "WEEKLY", "DAILY", "DAILY", "HOURLY", "MINUTELY"])
    parts = [f"FREQ={freq}"]
    if pick.random() < 0.5:
        parts.append(f"INTERVAL={pick.randint(2, 40 if freq in ('HOURLY', 'MINUTELY') else 5)}")
    if pick.random() < 0.3:
        parts.append("BYMONTH=" + some(pick, 1, 12, 5))
    if pick.random() < 0.3 and freq != "WEEKLY":
        parts.append("BYMONTHDAY=" + some(pick, 1, 31, 6, True))
    weekno = freq == "YEARLY" and pick.random() < 0.15
    if weekno:
        parts.append("BYWEEKNO=" + some(pick, 2, 51, 4, True))
    elif freq == "YEARLY" and pick.random() < 0.2:
        parts.append("BYYEARDAY=" + some(pick, 1, 365, 6, True))
    if pick.random() < 0.4:
        names = pick.sample(["MO", "TU", "WE", "TH", "FR", "SA", "SU"], pick.randint(1, 4))
        if freq in ("MONTHLY", "YEARLY") and not weekno and pick.random() < 0.5:
            names = [pick.choice(["1", "2", "3", "-1", "-2"]) + name for name in names]
        parts.append("BYDAY=" + ",".join(names))
    if pick.random() < 0.4:
        parts.append("BYHOUR=" + some(pick, 0, 23, 3))
    if pick.random() < 0.3:
        parts.append("BYMINUTE=" + some(pick, 0, 59, 3))
    if pick.random() < 0.2 and freq not in ("HOURLY", "MINUTELY"):
        parts.append("BYSETPOS=" + some(pick, 1, 4, 2, True))
    if pick.random() < 0.3:
        parts.append("WKST=" + pick.choice(["MO", "SU", "WE"]))
    return ";".join(parts)


def rrule_times(text, start, at_least):
    try:
        for naive in rrule.rrulestr(text, dtstart=start):
            if naive >= at_least:
                yield naive
    except ValueError as empty:  # dateutil refuses a rule whose INTERVAL skips all values of BYHOUR or BYMINUTE
        assert "empty set" in str(empty) or "empty rule" in str(empty), text


def rrule_reach(text):
    """Returns two numbers of days: the most by which the rule starts before the question, and how far after the question the
    judge searches. Frequent rules get fewer days, because dateutil visits each minute or hour.
    """
    if "FREQ=MINUTELY" in text:
        return 3, 60
    return (90, 400) if "FREQ=HOURLY" in text else (90, 3500)


def rrule_start(pick, text, after, back):
    start = after - pick.randint(0, back * DAY)
    return min(start, after - 8 * DAY) if "FREQ=WEEKLY" in text and "BYSETPOS" in text else start


def ask(driver, count, seed):
    """Asks `count` questions. Returns the numbers of differences, of refused expressions, and of those that never fire."""
    pick = random.Random(seed)
    asked = subprocess.Popen([driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    zones = {}
    for name in ZONES:
        zone = zoneinfo.ZoneInfo(name)
        moments = changes(zone)
        zones[name] = (zone, moments, slack(zone, moments))
    differences = refused = never = 0
    for number in range(count):
        name = pick.choice(ZONES)
        zone, moments, margin = zones[name]
        after = int((datetime.datetime(pick.randint(*YEARS) - 1, 1, 1) - EPOCH).total_seconds()) + pick.randint(0, 365 * DAY)
        if moments and pick.random() < 0.5:
            after = pick.choice(moments) + pick.randint(-2 * DAY, 2 * DAY)
        gap, fold = pick.choice(["next", "skip"]), pick.choice(["first", "both"])
        local = EPOCH + datetime.timedelta(seconds=after + offset(zone, after))
        first = local - datetime.timedelta(seconds=margin)
        if pick.random() < 0.5:
            text, other, days = cron_question(pick)
            kind, start, reach = "cron", 0, 3500
            times = cron_times(other, days, first)
        else:
            kind, text, days = "rrule", rrule_question(pick), "-"
            back, reach = rrule_reach(text)
            start = rrule_start(pick, text, after, back)
            start_local = EPOCH + datetime.timedelta(seconds=start + offset(zone, start))
            times = rrule_times(text, start_local, first)
        question = "\t".join([kind, text, name, str(start), str(after), str(ANSWERS), gap, fold, days])
        asked.stdin.write(question + "\n")
        asked.stdin.flush()
        answer = asked.stdout.readline().strip()
        refused += answer.startswith("error")
        never += answer == ""
        horizon = after + reach * DAY
        ours = answer if answer.startswith("error") else [at for at in map(int, answer.split()) if at <= horizon]
        expected = judge(times, zone, margin, after, horizon, gap, fold)
        if ours != expected:
            differences += 1
            print(f"difference: seed {seed}, number {number}: {question!r}\n  ours:   {ours}\n  judges: {expected}", flush=True)
    asked.stdin.close()
    assert asked.wait() == 0
    return differences, refused, never


def differs_in_later_years(driver):
    """Compares noon of 1 January and 1 July, in each zone, from 2045 on. tzdata has a table of changes up to 2037, and then a rule."""
    after = int((datetime.datetime(2045, 1, 2) - EPOCH).total_seconds())
    questions = "".join(f"cron\t0 12 1 1,7 *\t{name}\t0\t{after}\t{ANSWERS}\tnext\tfirst\t-\n" for name in ZONES)
    answers = subprocess.run([driver], input=questions, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    noons = [datetime.datetime(2045 + half // 2, 1 + half % 2 * 6, 1, 12) for half in range(1, 1 + ANSWERS)]
    wrong = [name for name, answer in zip(ZONES, answers) if [int(at) for at in answer.split()] != [instants(zoneinfo.ZoneInfo(name), noon, "next", "first")[0] for noon in noons]]
    print(f"{len(ZONES)} zones from 2045 on, different: {wrong}")
    return bool(wrong) or len(answers) != len(ZONES)


def main():
    numbers = [int(text) for text in sys.argv[2:]] + [2000, 1, 1][len(sys.argv) - 2:]
    count, seed, jobs = numbers
    jobs = jobs or os.cpu_count()
    with multiprocessing.Pool(jobs) as pool:
        shares = [(sys.argv[1], count // jobs + (job < count % jobs), seed + job) for job in range(jobs)]
        differences, refused, never = map(sum, zip(*pool.starmap(ask, shares)))
    print(f"{count} expressions, {differences} differences, {refused} refused, {never} that never fire")
    assert refused == 0 and never < count / 4
    return 1 if differs_in_later_years(sys.argv[1]) or differences else 0


if __name__ == "__main__":
    sys.exit(main())

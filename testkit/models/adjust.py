"""A model of take, hold, give back and adjust: what a store must do in one step, and what a judge may say of the answers.

python3 testkit/models/adjust.py prints the numbers. Part 1 tries every order of the steps of a few requests, a step
being what the store does at once. Part 2 holds the judge's rules against an exhaustive search on random histories.
"""
import random
import sys
from functools import lru_cache


# Part 1: steps. A request is a list of steps; a step gets the state and the request's own memory, and returns False to
# wait. The state: stock, held, ordered, initial, journal (key -> delta), rows (number of journal rows), mark, version.
def explore(requests, check, start):
    seen, bad, ends = set(), {}, 0

    def freeze(s):
        return tuple(sorted((k, tuple(sorted(v.items())) if isinstance(v, dict) else v) for k, v in s.items()))

    def go(state, at, mems):
        nonlocal ends
        key = (freeze(state), at, tuple(freeze(m) for m in mems))
        if key in seen:
            return
        seen.add(key)
        if all(at[i] == len(r) for i, r in enumerate(requests)):
            ends += 1
            why = check(state, mems)
            if why:
                bad[why] = bad.get(why, 0) + 1
            return
        for i, r in enumerate(requests):
            if at[i] == len(r):
                continue
            s = {k: dict(v) if isinstance(v, dict) else v for k, v in state.items()}
            m = [dict(x) for x in mems]
            if r[at[i]](s, m[i]) is not False:
                go(s, at[:i] + (at[i] + 1,) + at[i + 1:], m)

    go(dict(start), (0,) * len(requests), [{} for _ in requests])
    return len(seen), ends, bad


def fresh(stock):
    return dict(stock=stock, held=0, ordered=0, initial=stock, journal={}, rows=0, mark='', version=0, holds={}, lock='')


def take(s, m):
    if s['stock'] >= 1:
        s.update(stock=s['stock'] - 1, ordered=s['ordered'] + 1, version=s['version'] + 1)


def hold(name):
    def do(s, m):
        if s['stock'] >= 1 and s['mark'] != 'absolute':
            s.update(stock=s['stock'] - 1, held=s['held'] + 1, mark='relative', version=s['version'] + 1)
            s['holds'][name] = 'held'
    return do


def end(name, to):
    def do(s, m):
        if s['holds'].get(name) == 'held':
            s['holds'][name], s['held'], s['version'] = to, s['held'] - 1, s['version'] + 1
            s['ordered' if to == 'ordered' else 'stock'] += 1
    return do


def adjust(key, delta, marks=True, wrong=''):
    """One step: the key, the guard, stock, initial and the journal."""
    def do(s, m):
        if key in s['journal'] and wrong != 'no key':
            m['said'] = s['journal'][key]
            return
        if s['mark'] == 'absolute':
            m['said'] = 'unsupported'
        elif s['stock'] + delta < 0:
            m['said'] = 'sold out'
        else:
            s['stock'] += delta * (0 if wrong == 'not counted' else 1)
            s['initial'] += delta * (2 if wrong == 'initial twice' else 1)
            s['journal'][key], m['said'], s['version'] = delta, delta, s['version'] + 1
            s['rows'] += 1
            if marks:
                s['mark'] = 'relative'
    return do


def overwrite():
    """A trusting mode: it reads, and writes the count that it has computed, unless the product is marked."""
    def read(s, m):
        m['have'] = s['stock']

    def write(s, m):
        if m['have'] >= 1 and s['mark'] != 'relative':
            s.update(stock=m['have'] - 1, ordered=s['ordered'] + 1, mark='absolute', version=s['version'] + 1)
    return [read, write]


def swap():
    """It writes the computed count unless anybody has written since the read."""
    def read(s, m):
        m['have'], m['version'] = s['stock'], s['version']

    def write(s, m):
        if m['have'] >= 1 and s['version'] == m['version']:
            s.update(stock=m['have'] - 1, ordered=s['ordered'] + 1, version=s['version'] + 1)
    return [read, write]


def locked(name, steps):
    def lock(s, m):
        if s['lock']:
            return False
        s['lock'] = name

    def unlock(s, m):
        s['lock'] = ''
    return [lock] + steps + [unlock]


def books(stock):
    def check(s, mems):
        if s['stock'] < 0:
            return 'below zero'
        if s['stock'] + s['held'] + s['ordered'] != s['initial']:
            return 'conservation'
        if s['initial'] != stock + sum(s['journal'].values()) or s['rows'] != len(s['journal']):
            return 'the initial stock is not the sum'
        return ''
    return check


def two_segments(together):
    """A reader sums two segments, at once or one after the other, while units are added to both and then taken."""
    def add(s, m):
        s['a'], s['b'] = s['a'] + 1, s['b'] + 1

    def take_b(s, m):
        if s['b'] >= 2:
            s['b'] -= 2

    def one(s, m):
        m['sum'] = s['a']
        m['least'] = s['a'] + s['b']
        s['watch'] = 1

    def two(s, m):
        m['sum'] += s['b']

    def both(s, m):
        m['sum'] = s['a'] + s['b']

    def check(s, mems):
        return 'refused while a unit was free all the time' if mems[0]['sum'] == 0 else ''
    return explore([[both] if together else [one, two], [add], [take_b]], check, dict(a=0, b=1, watch=0))


def part1():
    def say(what, got):
        print(f'{what}: {got[0]} states, {got[1]} ends, {got[2] or "no violation"}')

    plus, minus = [adjust('k1', 2)], [adjust('k2', -1)]
    say('takes, holds, ends, two adjustments, one of them repeated', explore(
        [[take], [hold('a'), end('a', 'ordered')], [hold('b'), end('b', 'free')], [end('b', 'free')], plus, plus, minus,
         minus], books(2), fresh(2)))
    say('with an absolute count that looks at the mark', explore(
        [overwrite(), plus, plus, minus, [hold('a'), end('a', 'free')]], books(2), fresh(2)))
    say('with an absolute count, and an adjustment that leaves no mark', explore(
        [overwrite(), [adjust('k1', 2, marks=False)]], books(2), fresh(2)))
    say('with a count that is swapped, and no mark', explore(
        [swap(), swap(), [adjust('k1', 2, marks=False)], [adjust('k2', -1, marks=False)]], books(2), fresh(2)))
    say('with an absolute count under a lock that the adjustment takes too, and no mark', explore(
        [locked('a', [overwrite()[0], overwrite()[1]]), locked('b', [overwrite()[0], overwrite()[1]]),
         locked('c', [lambda s, m: s.update(mark=''), adjust('k1', 2, marks=False)])], books(2), fresh(2)))
    for wrong in ('no key', 'not counted', 'initial twice'):
        bad = [adjust('k1', 2, wrong=wrong)]
        say(f'mutant, {wrong}', explore([[take], bad, bad], books(2), fresh(2)))
    say('segments that are summed one by one', two_segments(False))
    say('segments that are read at once', two_segments(True))


# Part 2: the judge. An op is (kind, call, answer, units, parent): t a take, l its release, f a refused take, a units
# added, c units cut, n a refused cut. An answer that was lost is NEVER, and the journal says that it happened.
NEVER = 10 ** 9


def brute(initial, ops):
    n = len(ops)
    pred = [[j for j in range(n) if ops[j][2] < ops[i][1]] for i in range(n)]

    @lru_cache(None)
    def go(done, free):
        if done == (1 << n) - 1:
            return True
        for i in range(n):
            if done >> i & 1 or any(not done >> j & 1 for j in pred[i]):
                continue
            k, c, r, q, p = ops[i]
            if k in 'tc':
                ok, left = free >= q, free - q
            elif k == 'l':
                ok, left = done >> p & 1, free + q
            elif k == 'a':
                ok, left = True, free + q
            else:
                ok, left = free < q, free
            if ok and go(done | 1 << i, left):
                return True
        return False
    return go(0, initial)


def refusals(initial, ops):
    """Least free at t: all takes and cuts called by t are gone; releases and additions count once answered before t."""
    for k, c, r, q, _ in ops:
        if k not in 'fn':
            continue
        times = [c, r] + [o[1] for o in ops if o[0] in 'tc' and c <= o[1] <= r]
        if not any(initial - sum(o[3] for o in ops if o[0] in 'tc' and o[1] <= t)
                   + sum(o[3] for o in ops if o[0] in 'la' and o[2] < t) < q for t in times):
            return False
    return True


def too_much(initial, ops):
    """Surely taken at t: takes and cuts answered by t, less releases and additions that were called by t."""
    for t in [x for o in ops for x in (o[1], o[2]) if x < NEVER]:
        if sum(o[3] for o in ops if o[0] in 'tc' and o[2] <= t) - \
                sum(o[3] for o in ops if o[0] in 'la' and o[1] <= t) > initial:
            return False
    return True


def part2(runs):
    random.seed(1)
    seen, raw = {}, {}
    for _ in range(runs):
        initial, ops, top = random.randint(0, 3), [], 8

        def span(after=0):
            a = random.randint(after, top)
            return a, random.randint(a, top)
        for _ in range(random.randint(1, 3)):
            ops.append(('t', *span(), random.randint(1, 2), -1))
        for i in range(len(ops)):
            if random.random() < .4 and ops[i][2] < top:
                ops.append(('l', *span(ops[i][2]), ops[i][3], i))
        for _ in range(random.randint(1, 2)):
            c, r = span()
            ops.append((random.choice('aac'), c, NEVER if random.random() < .3 else r, random.randint(1, 2), -1))
        for _ in range(random.randint(0, 2)):
            ops.append((random.choice('ffn'), *span(), random.randint(1, 2), -1))
        legal = brute(initial, tuple(ops))
        said = refusals(initial, ops) and too_much(initial, ops)
        seen[(legal, said)] = seen.get((legal, said), 0) + 1
        if legal and not said:
            print('FALSE ALARM', initial, ops)
        # the rules before there were adjustments: the sum of all as the initial stock, from the start
        total = initial + sum(o[3] * (1 if o[0] == 'a' else -1) for o in ops if o[0] in 'ac')
        rest = [o for o in ops if o[0] not in 'ac']
        said = refusals(total, rest) and too_much(total, rest)
        raw[(legal, said)] = raw.get((legal, said), 0) + 1
    print(f'{runs} histories, (possible, the rules accept): {dict(sorted(seen.items()))}')
    print(f'the same with the final sum as the stock from the start: {dict(sorted(raw.items()))}')


if __name__ == '__main__':
    part1()
    part2(int(sys.argv[1]) if len(sys.argv) > 1 else 40000)

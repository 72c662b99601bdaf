/* SPDX-License-Identifier: MIT */
/*
 * The two-halves protocol of the CPU engine. Each rank owns a segment that it
 * alone writes: two halves of payload and the words started, reduced and
 * finished. Call e uses half e & 1; nothing waits at a call's end. Epochs and
 * words live modulo MODULUS, calls never end and each is any of the
 * collectives in KINDS, so a full search covers programs of every length.
 *
 * Held: a piece that is read belongs to the reader's call, no rank runs away
 * from another, no deadlock. Memory is sequentially consistent: every word has
 * one writer, who stores it with release after the payload it speaks of, and
 * is loaded with acquire; no rank stores one word and then needs to be sure of
 * not having missed another's. Left out: rounds (they are calls), the flags of
 * packets (scrub.pml), abort, sums.
 */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef PIECES
#define PIECES 2	/* steps in which a region is written and read */
#endif
#ifdef WIDE
#define MODULUS 12	/* an aged word is up to five behind */
#define USE_ZERO
#define AS_DESCRIBED
#endif
#ifndef MODULUS
#define MODULUS 8	/* stands for 2^32; a multiple of 4 (see kinds) */
#endif
#ifndef KINDS
#define KINDS 255
#endif

/* What a call can be: 0 to RANKS - 1 is a broadcast from that root. */
#define ONE_SHOT RANKS		/* all-reduce one-shot, all-gather */
#define REDUCE_SCATTER (RANKS + 1)	/* one-shot, reads its own slice */
#define TWO_SHOT (RANKS + 2)	/* all-reduce two-shot */
#define PACKETS (RANKS + 3)	/* all-reduce one-shot, arrival in each line */
#define IS_IN(k) (((KINDS) >> (k)) & 1)

#define MINUS(x, k) (((x) + MODULUS - (k)) % MODULUS)
#ifdef USE_ZERO
#define NEXT(x) (((x) + 1) % MODULUS)
#else
#define NEXT(x) ((x) == MODULUS - 1 -> 1 : (x) + 1)	/* 0 is never used */
#endif
#ifdef PLAIN_COMPARE
#define AT_LEAST(a, b) ((a) >= (b))
#else
#define AT_LEAST(a, b) (MINUS(a, b) < MODULUS / 2)
#endif

#ifdef EXACT_COMPARE
#define HAS_STARTED(i) (started[i] == e || started[i] == NEXT(e))
#else
#define HAS_STARTED(i) AT_LEAST(started[i], e)
#endif

/*
 * A word that some calls leave alone falls half a turn behind and then looks
 * ahead. So every call stores started, reduced and finished, and lifts known.
 * AS_DESCRIBED stores each only where the call itself needs it, which is right
 * for words that never wrap (WIDE, 64 bits): age() keeps those here.
 */
#ifdef AS_DESCRIBED
#define STALE_STARTED
#define STALE_REDUCED
#define STALE_CREDIT
#define STALE_KNOWN
#endif

#ifdef STALE_EPOCH
#define FIRST 0		/* what the words hold before any call */
#else
#define FIRST 1
#endif
#ifdef SINGLE_HALF
#define HALF 0
#else
#define HALF (e & 1)
#endif

/* One-shot and scatter share a region, results and packets have their own. */
#define SHOT 0
#define RESULT 1
#define LINES 2
#define REGIONS 3
#define AT(r, region, p) \
	data[((((r) * 2 + HALF) * REGIONS) + (region)) * PIECES + (p)]
#define CELLS (RANKS * 2 * REGIONS * PIECES)
#define OLD 255		/* payload of a call that is over */

byte data[CELLS] = OLD;	/* the epoch that wrote the piece */
byte started[RANKS], reduced[RANKS], finished[RANKS];

/*
 * Ghosts: what the last calls are and how many ranks each still has, by
 * epoch modulo 4. A rank is never more than two calls ahead.
 */
byte kinds[4], left[4];
byte frontier = FIRST;

/* Whoever comes first says what call e is; all others find it said. */
inline agree()
{
	atomic {
		if
		:: e != frontier -> kind = kinds[e & 3]
		:: e == frontier && IS_IN(ONE_SHOT) -> kind = ONE_SHOT
		:: e == frontier && IS_IN(REDUCE_SCATTER) ->
			kind = REDUCE_SCATTER
		:: e == frontier && IS_IN(TWO_SHOT) -> kind = TWO_SHOT
		:: e == frontier && IS_IN(PACKETS) -> kind = PACKETS
		:: e == frontier && IS_IN(0) -> kind = 0
		:: e == frontier && IS_IN(1) -> kind = 1
#if RANKS > 2
		:: e == frontier && IS_IN(2) -> kind = 2
#endif
#if RANKS > 3
		:: e == frontier && IS_IN(3) -> kind = 3
#endif
		fi
		if
		:: e == frontier ->
			/* nobody runs away */
			assert(left[e & 3] == 0);
			kinds[e & 3] = kind;
			left[e & 3] = RANKS;
			frontier = NEXT(e)
		:: else
		fi
	}
}

/* Every reader has finished e - 2: the half may be written again. */
inline wait_writable()
{
#ifdef NO_CREDIT
	skip
#else
	do
	:: i < RANKS && (i == _pid || AT_LEAST(known[i], MINUS(e, 2)) ||
			 AT_LEAST(started[i], MINUS(e, 1)) ||
			 AT_LEAST(finished[i], MINUS(e, 2))) ->
		learn(i, MINUS(e, 2));
		i++
	:: i == RANKS -> break
	od;
	i = 0
#endif
}

inline learn(who, epoch)
{
#ifdef STALE_KNOWN
	skip
#else
	if
	:: AT_LEAST(known[who], epoch)
	:: else -> known[who] = epoch
	fi
#endif
}

inline write(region)
{
	do
	:: p < PIECES -> AT(_pid, region, p) = e; p++
	:: else -> break
	od;
	p = 0
}

inline read(who, region)
{
	do
	:: p < PIECES -> assert(AT(who, region, p) == e); p++
	:: else -> break
	od;
	p = 0
}

inline read_slice(who)
{
	assert(AT(who, SHOT, _pid % PIECES) == e)
}

inline start()
{
	started[_pid] = e;
#ifndef STALE_REDUCED
	/* means nothing where the call has no second phase */
	if
	:: kind != TWO_SHOT -> reduced[_pid] = e
	:: else
	fi
#endif
}

/* Write the payload and say so. */
inline publish()
{
#ifdef FLAG_FIRST
	start();
	write(SHOT)
#else
	write(SHOT);
	start()
#endif
}

/* Wait for each rank in turn and read what it has for this one. */
inline collect()
{
	do
	:: i < RANKS && i == _pid -> i++
	:: i < RANKS && i != _pid && HAS_STARTED(i) ->
		known[i] = MINUS(e, 1);
		if
		:: kind == ONE_SHOT -> read(i, SHOT)
		:: else -> read_slice(i)
		fi;
		i++
	:: i == RANKS -> break
	od;
	i = 0
}

/*
 * A line that has arrived is read with its flag, in one step: what a flag can
 * be mistaken for is scrub.pml's.
 */
inline collect_packets()
{
	do
	:: i < RANKS && i == _pid -> i++
	:: i < RANKS && i != _pid && p < PIECES ->
		AT(i, LINES, p) == e;
		p++
	:: i < RANKS && p == PIECES -> known[i] = MINUS(e, 1); p = 0; i++
	:: i == RANKS -> break
	od;
	i = 0
}

inline collect_results()
{
	do
	:: i < RANKS && i == _pid -> i++
#ifdef NO_REDUCED_WAIT
	:: i < RANKS && i != _pid ->
#else
	:: i < RANKS && i != _pid && AT_LEAST(reduced[i], e) ->
#endif
		read(i, RESULT);
		i++
	:: i == RANKS -> break
	od;
	i = 0
}

/*
 * The root started e only after all had finished e - 2, so who has its
 * payload knows that of everybody.
 */
inline receive()
{
	start();
	HAS_STARTED(kind);
	d_step {
		do
		:: i < RANKS -> learn(i, MINUS(e, 2)); i++
		:: else -> break
		od;
		i = 0;
		known[kind] = MINUS(e, 1)
	}
	read(kind, SHOT)
}

/* What is older than epoch stays so, however long nobody stores it. */
inline age(word, epoch)
{
#ifdef WIDE
	if
	:: AT_LEAST(word, epoch)
	:: else -> word = MINUS(epoch, 1)
	fi
#else
	skip
#endif
}

/*
 * The end of a call. Payload of a call that is over for everyone becomes OLD:
 * no epoch can be mistaken for its namesake of a turn ago.
 */
inline finish()
{
	d_step {
#ifdef STALE_CREDIT
		if
		:: kind < RANKS && kind != _pid -> finished[_pid] = e
		:: else
		fi;
#else
		finished[_pid] = e;
#endif
		left[e & 3]--;
		if
		:: left[e & 3] == 0 ->
			do
			:: i < CELLS ->
				if
				:: data[i] == e -> data[i] = OLD
				:: else
				fi;
				i++
			:: else -> break
			od;
			i = 0;
			do
			:: i < RANKS ->
				age(started[i], MINUS(e, 1));
				age(reduced[i], MINUS(e, 1));
				age(finished[i], MINUS(e, 1));
				i++
			:: else -> break
			od;
			i = 0;
			kinds[e & 3] = 0
		:: else
		fi;
		do
		:: i < RANKS -> age(known[i], MINUS(e, 1)); i++
		:: else -> break
		od;
		i = 0;
		kind = 0;
		e = NEXT(e)
	}
}

active [RANKS] proctype rank()
{
	byte e = FIRST, kind, i, p;
	byte known[RANKS];	/* the last call i is known to have finished */

	do
	:: true ->
		agree();
		if
		:: kind == _pid -> wait_writable(); publish()
		:: kind < RANKS && kind != _pid -> receive()
		:: kind == PACKETS ->
			wait_writable();
			write(LINES);
#ifndef STALE_STARTED
			start();
#endif
			collect_packets()
		:: kind >= RANKS && kind != PACKETS ->
			wait_writable();
			publish();
			collect();
			if
			:: kind == TWO_SHOT ->
				write(RESULT);
				reduced[_pid] = e;
				collect_results()
			:: else
			fi
		fi;
		finish()
	od
}

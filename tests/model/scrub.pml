/* SPDX-License-Identifier: MIT */
/*
 * Inline packets and the scrubbing of flags. A tiny message travels in lines
 * that each hold payload and, written last, the epoch of their call; a reader
 * polls the flag of each. A line may lie idle while the epoch goes round, and
 * its flag would match again. So in every call a rank sets the flag of one line
 * of its own half, beyond those it wrote, to EMPTY; each half has a cursor that
 * passes over all its lines.
 *
 * Only rank 0's lines are modelled, in two halves; what others send arrives by
 * the word started. The word finished, stored by every call, stands for the
 * whole of halves.pml's check. A call is a broadcast or an exchange of 0 or
 * more lines; 0 is a call by other means. Held: payload behind a matching flag
 * is of the reader's call; no deadlock. Memory is sequentially consistent (see
 * halves.pml). Left out: windows of several lines.
 */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef LINES
#define LINES 2
#endif
/*
 * Stands for 2^32. Half 0 has MODULUS / 2 - 1 calls a turn. The cursor must be
 * through in two calls less: a flag would match in the last, and its reader may
 * be one call of that half ahead of the owner.
 */
#ifndef MODULUS
#define MODULUS 12
#endif

#define EXCHANGE RANKS	/* smaller kinds are broadcasts from that root */

#define MINUS(x, k) (((x) + MODULUS - (k)) % MODULUS)
#define AT_LEAST(a, b) (MINUS(a, b) < MODULUS / 2)

/*
 * What no reader waits for: 0, as epoch 0 is never used. Where 0 is used, an
 * epoch of the other half.
 */
#ifdef USE_ZERO
#define NEXT(x) (((x) + 1) % MODULUS)
#else
#define NEXT(x) ((x) == MODULUS - 1 -> 1 : (x) + 1)
#endif
#if defined(USE_ZERO) && !defined(ZERO_EMPTY)
#define EMPTY(half) (1 - (half))
#else
#define EMPTY(half) 0
#endif

#define LINE(l) ((e & 1) * LINES + (l))
#define OLD 255		/* payload of a call that is over */

byte payload[2 * LINES] = OLD, flag[2 * LINES];
byte started[RANKS], finished[RANKS];

/* Ghosts: what the last calls are, and how many ranks each still has. */
byte kinds[4], counts[4], left[4];
byte frontier = 1;

/* Whoever comes first says what call e is; all others find it said. */
inline agree()
{
	atomic {
		if
		:: e != frontier -> kind = kinds[e & 3]; n = counts[e & 3]
		:: e == frontier ->
			select(kind : 0 .. EXCHANGE);
			if
			:: kind == 0 || kind == EXCHANGE ->
				select(n : 0 .. LINES)
			:: else
			fi;
			assert(left[e & 3] == 0);
			kinds[e & 3] = kind;
			counts[e & 3] = n;
			left[e & 3] = RANKS;
			frontier = NEXT(e)
		fi
	}
}

inline wait_writable()
{
	do
	:: i < RANKS && (i == _pid || AT_LEAST(finished[i], MINUS(e, 2))) ->
		i++
	:: i == RANKS -> break
	od;
	i = 0
}

inline send()
{
	do
	:: _pid == 0 && l < n ->
#ifdef FLAG_FIRST
		flag[LINE(l)] = e;
		payload[LINE(l)] = e;
#else
		payload[LINE(l)] = e;
		flag[LINE(l)] = e;
#endif
		l++
	:: else -> break
	od;
	l = 0;
	started[_pid] = e
}

inline receive(who)
{
	if
	:: who != 0 || n == 0 -> AT_LEAST(started[who], e)
	:: who == 0 && n > 0 ->
		do
		:: l < n && flag[LINE(l)] == e ->
			assert(payload[LINE(l)] == e);
			l++
		:: l == n -> break
		od;
		l = 0
	fi
}

#ifdef SHARED_CURSOR
#define CURSOR cursor[0]
#else
#define CURSOR cursor[e & 1]
#endif

/* written: how many lines this call has filled. */
inline scrub(written)
{
	d_step {
#ifdef NO_SCRUB
		skip
#else
		if
		:: _pid == 0 && CURSOR >= written ->
			flag[LINE(CURSOR)] = EMPTY(e & 1)
		:: else
		fi;
		CURSOR = (_pid == 0 -> (CURSOR + 1) % LINES : 0)
#endif
	}
}

/* The end of a call; payload of a call over for everyone becomes OLD. */
inline finish()
{
	d_step {
		finished[_pid] = e;
		left[e & 3]--;
		if
		:: left[e & 3] == 0 ->
			do
			:: l < 2 * LINES ->
				if
				:: payload[l] == e -> payload[l] = OLD
				:: else
				fi;
				l++
			:: else -> break
			od;
			l = 0;
			kinds[e & 3] = 0;
			counts[e & 3] = 0
		:: else
		fi;
		kind = 0;
		n = 0;
		e = NEXT(e)
	}
}

active [RANKS] proctype rank()
{
	byte e = 1, kind, n, i, l;
	byte cursor[2];

	/* half 0 is empty before the first call; half 1 is by being zero */
	d_step {
		do
		:: _pid == 0 && l < LINES -> flag[l] = EMPTY(0); l++
		:: else -> break
		od;
		l = 0
	}
	do
	:: true ->
		agree();
		if
		:: kind == _pid -> wait_writable(); send(); scrub(n)
		:: kind < RANKS && kind != _pid ->
			/*
			 * A receiver has not looked whether its half is free.
			 * The root has, before it sent: with its payload here,
			 * the half is.
			 */
			started[_pid] = e;
#ifdef SCRUB_EARLY
			scrub(0);
			receive(kind)
#else
			receive(kind);
			scrub(0)
#endif
		:: kind == EXCHANGE ->
			wait_writable();
			send();
			scrub(n);
			do
			:: i < RANKS && i == _pid -> i++
			:: i < RANKS && i != _pid -> receive(i); i++
			:: i == RANKS -> break
			od;
			i = 0
		fi;
		finish()
	od
}

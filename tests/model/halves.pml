/* SPDX-License-Identifier: MIT */
/*
 * The protocol of the CPU engine (src/mailbox, src/cpu/engine.c). Each rank
 * writes its own mailbox: two halves, each with the words arrival and reduced,
 * a slot and a result, and beside them the word finished. Call c uses half
 * c & 1. A rank's buffer may also be direct, that is in its heap, where the
 * others read and write it. Programs never end, each call is any of KINDS, and
 * in each call each rank decides anew whether its buffer is direct: a full
 * search covers programs of every length.
 *
 * Held: what is read is of the reader's call; another's heap is written only
 * while its owner waits for that; a result is complete when the call returns;
 * no rank runs away from another; no deadlock.
 *
 * A flag is its epoch alone, as if signatures were always equal. Memory is
 * sequentially consistent: every word has one writer, who stores it with
 * release after what it speaks of, and is loaded with acquire; no rank stores
 * one word and then needs to be sure of not having missed another's. (Scrubbing
 * is a relaxed store; who looks at reduced has acquired a later arrival.) Left
 * out: sums, mismatches, failures. Rounds are calls.
 */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef PIECES
#define PIECES 2	/* of a message; piece p is in the slice of p % RANKS */
#endif
#ifndef MODULUS
#define MODULUS 8	/* of epochs, for 2^32 */
#endif
#ifndef KINDS
#define KINDS 255	/* a bit a kind */
#endif
#ifndef DIRECT
#define DIRECT 7	/* what may be: bit 0 SOURCE, 1 TARGET, 2 both */
#endif

/* What a call can be, and BROADCAST + root. */
#define ONE_SHOT 0	/* all-reduce; two-shot if any buffer is direct */
#define TWO_SHOT 1	/* all-reduce */
#define GATHER 2	/* all-gather; reduce-scatter reads less of the same */
#define BROADCAST 3
#define IS_IN(k) (((KINDS) >> (k)) & 1)
#define IS_ROOT (kind == BROADCAST + _pid)

/* What of a rank is direct. Both: one buffer, in place, which is stricter. */
#define SOURCE 1
#define TARGET 2

/*
 * Calls are counted modulo CALLS, for 64 bits that do not wrap: ranks are less
 * than half a turn apart. A multiple of 4 and of the epochs' period.
 */
#ifdef ODD_WRAP
#define CALLS (4 * (MODULUS - 1))
#define EPOCH(c) ((c) % (MODULUS - 1) + 1)
#else
#ifdef ZERO_USED
#define CALLS (2 * MODULUS)
#define EPOCH(c) ((c) % MODULUS)
#else
#define CALLS (2 * (MODULUS - 2))
#define EPOCH(c) ((c) % (MODULUS - 2) + 2)
#endif
#endif
#define PLUS(c, n) (((c) + (n)) % CALLS)
#define MINUS(c, n) (((c) + CALLS - (n)) % CALLS)
#define AT_LEAST(a, b) (MINUS(a, b) < CALLS / 2)

#ifdef SINGLE_HALF
#define HALF 0
#else
#ifdef EPOCH_HALF
#define HALF (EPOCH(call) & 1)
#else
#define HALF (call & 1)
#endif
#endif
#ifdef STALE_START
#define START EPOCH(1)
#else
#define START 0
#endif

/* Pieces hold the call they are of, those of a result SUM of it. */
#define SUM(c) ((c) + CALLS)
#define OLD 255		/* of no call that anyone is in */

byte arrival[2 * RANKS] = START, reduced[2 * RANKS] = START;
byte where[2 * RANKS] = OLD;	/* 4 * call + mode, told with the arrival */
byte finished[RANKS];
byte slots[2 * RANKS * PIECES] = OLD;
byte results[2 * PIECES] = OLD;	/* each piece in its rank's mailbox */
byte heap[RANKS * PIECES] = OLD;

#define MAIL(r) ((r) * 2 + HALF)
#define SLOT(r, p) slots[MAIL(r) * PIECES + (p)]
#define RESULT(p) results[HALF * PIECES + (p)]
#define HEAP(r, p) heap[(r) * PIECES + (p)]
#define NEXT(r) (((r) + 1) % RANKS)

#ifdef NO_REDUCED_WAIT
#define HAS_REDUCED true
#else
#define HAS_REDUCED (reduced[MAIL(i)] == EPOCH(call))
#endif
#ifdef NO_EXIT_WAIT
#define MUST_STAY false
#else
#define MUST_STAY (mode != 0)
#endif
#ifdef RECEIVERS_ASK_NOT
#define MUST_ASK (kind < BROADCAST || IS_ROOT)
#else
#define MUST_ASK true
#endif

/* Ghosts: what the last calls are and how many ranks each still has. */
byte kinds[4], left[4];
byte frontier = 1;

/* Does step for each other rank i, as soon as it is ready. */
#define EACH_OTHER(ready, step)                                                \
	i = NEXT(_pid);                                                        \
	do                                                                     \
	:: d_step { ready -> step; i = NEXT(i) };                              \
		if                                                             \
		:: i == _pid -> break                                          \
		:: else                                                        \
		fi                                                             \
	od

#define EACH_PIECE(step)                                                       \
	do                                                                     \
	:: d_step { step; p++ };                                               \
		if                                                             \
		:: p == PIECES -> break                                        \
		:: else                                                        \
		fi                                                             \
	od;                                                                    \
	p = 0

/*
 * The next call: whoever comes first says what it is. Each rank says for
 * itself what is direct, and fills that buffer.
 */
inline choose()
{
	call = PLUS(call, 1);
	if
	:: call != frontier -> kind = kinds[call & 3]
	:: call == frontier && IS_IN(ONE_SHOT) -> kind = ONE_SHOT
	:: call == frontier && IS_IN(TWO_SHOT) -> kind = TWO_SHOT
	:: call == frontier && IS_IN(GATHER) -> kind = GATHER
	:: call == frontier && IS_IN(BROADCAST) -> kind = BROADCAST
	:: call == frontier && IS_IN(BROADCAST + 1) -> kind = BROADCAST + 1
#if RANKS > 2
	:: call == frontier && IS_IN(BROADCAST + 2) -> kind = BROADCAST + 2
#endif
	fi;
	if
	:: call == frontier ->
		/* nobody runs away */
		assert(left[call & 3] == 0);
		kinds[call & 3] = kind;
		left[call & 3] = RANKS;
		frontier = PLUS(call, 1)
	:: else
	fi;
	if
	:: mode = 0
	:: (DIRECT & 1) && (kind <= GATHER || IS_ROOT) -> mode = SOURCE
	:: (DIRECT & 2) && kind <= TWO_SHOT -> mode = TARGET
	:: (DIRECT & 4) && kind <= TWO_SHOT -> mode = SOURCE + TARGET
	fi;
	do
	:: mode && p < PIECES -> HEAP(_pid, p) = call; p++
	:: else -> break
	od;
	p = 0
}

/* The others are known to have finished c. */
inline raise_known(c)
{
	d_step {
		i = NEXT(_pid);
		do
		:: i != _pid ->
			known[i] = (AT_LEAST(known[i], c) -> known[i] : c);
			i = NEXT(i)
		:: else -> break
		od
	}
}

/* All have finished call - 2: the half may be written again. */
inline begin()
{
#ifdef NO_CREDIT
	skip
#else
	d_step {
		i = NEXT(_pid);
		do
		:: i != _pid && AT_LEAST(known[i], MINUS(call, 2)) ->
			i = NEXT(i)
		:: else -> break
		od
	}
	if
	:: i != _pid && MUST_ASK ->
		EACH_OTHER(AT_LEAST(finished[i], MINUS(call, 2)), skip);
		raise_known(MINUS(call, 2))
	:: else
	fi
#endif
}

/* In two-shot nobody else reads the own slice. */
inline stage()
{
	if
	:: mode & SOURCE
	:: else ->
		EACH_PIECE(
			if
			:: kind == TWO_SHOT && p % RANKS == _pid
			:: else -> SLOT(_pid, p) = call
			fi
		)
	fi
}

inline arrive()
{
	where[MAIL(_pid)] = 4 * call + mode;
	arrival[MAIL(_pid)] = EPOCH(call)
}

inline publish()
{
#ifdef FLAG_FIRST
	arrive();
	stage()
#else
	stage();
	arrive()
#endif
}

inline wait_arrivals()
{
	EACH_OTHER(arrival[MAIL(i)] == EPOCH(call), skip);
	raise_known(MINUS(call, 1))
}

/* All slots have been read, all slices stored. */
inline publish_reduced()
{
	reduced[MAIL(_pid)] = EPOCH(call)
}

/* A call that does not use reduced wipes it. */
inline scrub()
{
#ifdef NO_SCRUB
	skip
#else
	reduced[MAIL(_pid)] = 0
#endif
}

/* A piece of rank i, which that says where it is. */
inline read()
{
	assert(where[MAIL(i)] / 4 == call);
	if
	:: where[MAIL(i)] & SOURCE -> assert(HEAP(i, p) == call)
	:: else -> assert(SLOT(i, p) == call)
	fi
}

inline read_others()
{
	i = NEXT(_pid);
	do
	:: i != _pid -> EACH_PIECE(read()); i = NEXT(i)
	:: else -> break
	od
}

/* Stores a sum to where rank i wants it or will fetch it. */
inline push()
{
	if
	:: where[MAIL(i)] & TARGET ->
		assert(HEAP(i, p) == call);
		HEAP(i, p) = SUM(call)
	:: else -> RESULT(p) = SUM(call)
	fi
}

inline reduce_slice()
{
	p = _pid;
	do
	:: p < PIECES ->
		EACH_OTHER(true, read());
		if
		:: mode & TARGET -> HEAP(_pid, p) = SUM(call)
		:: else
		fi;
		EACH_OTHER(true, push());
		p = p + RANKS
	:: else -> break
	od;
	p = 0
}

/* The others' slices: fetched, or pushed by them where this rank wants them. */
inline gather_slices()
{
	i = NEXT(_pid);
	do
	:: i != _pid ->
		HAS_REDUCED || ((mode & TARGET) && !MUST_STAY);
		p = (mode & TARGET -> PIECES : i);
		do
		:: p < PIECES ->
			assert(RESULT(p) == SUM(call));
			p = p + RANKS
		:: else -> break
		od;
		p = 0;
		i = NEXT(i)
	:: else -> break
	od
}

inline all_reduce()
{
	publish();
	wait_arrivals();
	d_step {
		two_shot = (kind == TWO_SHOT || mode);
		i = NEXT(_pid);
		do
		:: i != _pid ->
			two_shot = (two_shot || (where[MAIL(i)] & 3));
			i = NEXT(i)
		:: else -> break
		od
	}
	if
	:: two_shot ->
		two_shot = 0;
		reduce_slice();
		publish_reduced();
		gather_slices()
	:: else ->
		read_others();
		scrub()
	fi
}

/* Whose heap is read returns when all have read it; here and in broadcast. */
inline gather()
{
	publish();
	wait_arrivals();
	read_others();
	publish_reduced();
	if
	:: MUST_STAY -> EACH_OTHER(HAS_REDUCED, skip)
	:: else
	fi
}

inline broadcast()
{
	if
	:: IS_ROOT ->
		publish();
		if
		:: MUST_STAY -> EACH_OTHER(AT_LEAST(finished[i], call), skip)
		:: else
		fi
	:: else ->
		arrive();
		i = kind - BROADCAST;
		arrival[MAIL(i)] == EPOCH(call);
		known[i] = MINUS(call, 1);
		EACH_PIECE(read())
	fi;
	scrub()
}

#define FORGET(cells, count, condition, value)                                 \
	i = 0;                                                                 \
	do                                                                     \
	:: i < (count) ->                                                      \
		cells[i] = ((condition) -> (value) : cells[i]);                \
		i++                                                            \
	:: else -> break                                                       \
	od

/* The call is over for all. What is of it must not be taken for its namesake's
 * a turn later. */
inline forget()
{
	kinds[call & 3] = 0;
	FORGET(where, 2 * RANKS, where[i] / 4 == call, OLD);
	FORGET(slots, 2 * RANKS * PIECES, slots[i] == call, OLD);
	FORGET(results, 2 * PIECES, results[i] == SUM(call), OLD);
#ifdef RECEIVERS_FINISH
	/* nobody will wait for so little, and it must not come to look new */
	FORGET(finished, RANKS, !AT_LEAST(finished[i], MINUS(call, 1)),
		MINUS(call, 2));
#endif
	i = 0
}

/* The call returns, and the user takes the buffer back. */
inline finish()
{
#ifdef RECEIVERS_FINISH
	if
	:: kind >= BROADCAST && !IS_ROOT -> finished[_pid] = call
	:: else
	fi;
#else
	finished[_pid] = call;
#endif
	do
	:: p < PIECES ->
		assert(!(mode & TARGET) || HEAP(_pid, p) == SUM(call));
		HEAP(_pid, p) = OLD;
		p++
	:: else -> break
	od;
	p = 0;
	left[call & 3]--;
	if
	:: left[call & 3] == 0 -> forget()
	:: else
	fi;
	i = 0
}

active [RANKS] proctype rank()
{
	byte call, kind, mode, i, p;
	bit two_shot;
	byte known[RANKS];	/* the last call i is known to have finished */

	atomic { choose() };
	do
	:: begin();
		if
		:: kind <= TWO_SHOT -> all_reduce()
		:: kind == GATHER -> gather()
		:: kind >= BROADCAST -> broadcast()
		fi;
		atomic {
			d_step { finish() };
			choose()
		}
	od
}

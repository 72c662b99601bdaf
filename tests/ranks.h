/* SPDX-License-Identifier: MIT */
/*
 * Runs a function as the ranks of a test: as threads of this process, or as
 * fresh processes (the test program executed again). What the ranks find goes
 * into memory that all of them and the parent share, and becomes one TAP line
 * a run, with a note for each failure. Every run has a deadline, after which
 * its ranks are killed and the run has failed; a note says what each of them
 * was doing (ranks_at).
 *
 * A program has a table of cases, ended by one without a name, and a main that
 * begins with ranks_main: in a fresh process that runs the case and exits.
 *
 *	static const struct ranks_case cases[] = {{"sum", sum}, {0}};
 *
 *	int main(int argc, char **argv)
 *	{
 *		ranks_main(argc, argv, cases);
 *		ranks_threads(&cases[0], &(struct ranks_options){.ranks = 3});
 *		ranks_processes(&cases[0], &(struct ranks_options){.ranks = 3});
 *		return tap_done();
 *	}
 *
 * Environment of the tests:
 *	ONEHOP_TEST_SEED	the seed; else one is drawn and printed
 *	ONEHOP_TEST_QUICK=1	less work (valgrind, sanitizers)
 *	ONEHOP_TEST_DEADLINE_S	the deadline of every run
 */
#ifndef OH_TESTS_RANKS_H
#define OH_TESTS_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "onehop/onehop.h"
#include "tap.h"

#define RANKS_IDS 8
#define RANKS_WORDS 64

struct ranks_board;

/* What a rank knows of its run. */
struct ranks_self {
	/* a test may change these in a copy, for a smaller communicator */
	int rank, ranks;
	int place; /* the rank in the run: where its findings go */
	const char *argument; /* of ranks_options, "" for none */
	uint64_t seed; /* the same on all ranks, new in every run */
	struct oh_unique_id ids[RANKS_IDS]; /* the same on all ranks */
	/* zero at first; shared by all ranks and ranks_words */
	_Atomic uint64_t *words;
	struct ranks_board *board;
};

typedef void ranks_fn(struct ranks_self *self);

struct ranks_case {
	const char *name; /* one word */
	ranks_fn *run;
};

struct ranks_options {
	int ranks; /* 1 to OH_MAX_RANKS */
	const char *argument; /* for the ranks; at most 255 characters */
	const char *text; /* of the TAP line; NULL: made from the rest */
	/* 0: 60. Longer under sanitizers; ONEHOP_TEST_DEADLINE_S wins. */
	unsigned deadline_s;
	/* bit i: rank i ends by a signal or an exit of its own before its
	 * function returns, and must do so (processes only) */
	uint32_t dies;
};

/* The first line of main. */
void ranks_main(int argc, char **argv, const struct ranks_case *cases);

/*
 * Runs a case as threads, to the end; as processes, without waiting. Neither
 * prints anything.
 */
struct ranks_group;

struct ranks_group *ranks_run_threads(const struct ranks_case *test,
				      const struct ranks_options *options);
struct ranks_group *ranks_start(const struct ranks_case *test,
				const struct ranks_options *options);

/* What a test that stops, kills or times its processes asks for. */
pid_t ranks_pid(const struct ranks_group *group, int rank);
_Atomic uint64_t *ranks_words(struct ranks_group *group);

/* Waits for all, kills those that are left at the deadline; the number of
 * failures. */
int ranks_wait(struct ranks_group *group);
/* Prints the failures as TAP notes. */
void ranks_notes(const struct ranks_group *group);
/* The text of the TAP line. */
const char *ranks_text(const struct ranks_group *group);
/* Kills what still runs. */
void ranks_free(struct ranks_group *group);

/* Waits, prints the TAP line and the notes, frees; true if it passed. Here
 * because every file that includes tap.h has a count of its own. */
static inline bool ranks_report(struct ranks_group *group)
{
	bool passed = tap_ok(!ranks_wait(group), "%s", ranks_text(group));

	ranks_notes(group);
	ranks_free(group);
	return passed;
}

/* For runs that mostly wait: some go on side by side. Reports those that have
 * gathered, at the latest when there are six. */
#define RANKS_BESIDE 6

static struct ranks_group *ranks_beside[RANKS_BESIDE];
static int ranks_beside_count;

static inline void ranks_report_all(void)
{
	for (int i = 0; i < ranks_beside_count; i++)
		ranks_report(ranks_beside[i]);
	ranks_beside_count = 0;
}

static inline void ranks_report_later(struct ranks_group *group)
{
	ranks_beside[ranks_beside_count++] = group;
	if (ranks_beside_count == RANKS_BESIDE)
		ranks_report_all();
}

/* One run and its TAP line; true if it passed. */
static inline bool ranks_threads(const struct ranks_case *test,
				 const struct ranks_options *options)
{
	return ranks_report(ranks_run_threads(test, options));
}

static inline bool ranks_processes(const struct ranks_case *test,
				   const struct ranks_options *options)
{
	return ranks_report(ranks_start(test, options));
}

/* In a rank: what must hold. Returns it. After some failures of one rank only
 * their number is kept. */
__attribute__((format(printf, 3, 4))) bool
ranks_check(struct ranks_self *self, bool holds, const char *format, ...);

/* How many there are of this rank so far. */
int ranks_failures(const struct ranks_self *self);

/* A status that must be OH_OK; the failure has oh_last_error's message. */
bool ranks_fine(struct ranks_self *self, enum oh_status status,
		const char *what);

/* What the rank does now, for the note at a deadline. */
__attribute__((format(printf, 2, 3))) void ranks_at(struct ranks_self *self,
						    const char *format, ...);

/*
 * Makes the communicator of ids[k], with timeouts just below the deadline
 * (other timeouts: call oh_comm_create yourself). NULL is a failure that has
 * been noted.
 */
struct oh_comm *ranks_comm(struct ranks_self *self, int k);

/* All ranks meet, without the library; false if the deadline has passed. */
bool ranks_barrier(struct ranks_self *self);

/* An id that comes later than a run's, by RANKS_ID_WORDS of its words. */
#define RANKS_ID_WORDS ((int)sizeof(struct oh_unique_id) / 8)
void ranks_put_id(_Atomic uint64_t *words, const struct oh_unique_id *id);
struct oh_unique_id ranks_get_id(_Atomic uint64_t *words);

/* Waits until the word is at least value; false at the deadline. */
bool ranks_await(_Atomic uint64_t *word, uint64_t value);

bool ranks_quick(void);
/* Is this program built with a sanitizer? It is several times slower then. */
bool ranks_sanitized(void);
/* The program's seed, the same in its processes; printed when it is first
 * asked for. */
uint64_t ranks_seed(void);

/* Random numbers: splitmix64 of Steele, Lea and Flood (2014). */
struct ranks_random {
	uint64_t state;
};

static inline uint64_t ranks_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static inline uint64_t ranks_random(struct ranks_random *random)
{
	return ranks_mix(random->state += 0x9e3779b97f4a7c15ull);
}

/* 0 to below - 1. */
static inline uint64_t ranks_below(struct ranks_random *random, uint64_t below)
{
	return (uint64_t)(((unsigned __int128)ranks_random(random) * below) >>
			  64);
}

#endif

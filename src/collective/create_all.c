/* SPDX-License-Identifier: MIT */
/*
 * One thread that owns several GPUs: its communicators meet each other, so each
 * is made by a thread of its own, which ends then.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/cancel.h"
#include "base/error.h"
#include "comm/rendezvous.h"

struct maker {
	pthread_t thread;
	struct oh_comm_options options;
	struct oh_comm *comm;
	enum oh_status status;
	struct oh_error error; /* of the thread that failed */
};

static void *make(void *context)
{
	struct maker *maker = context;

	maker->status = oh_comm_create(&maker->options, &maker->comm);
	maker->error = *oh_last_error();
	return NULL;
}

static enum oh_status start(struct maker *maker)
{
	sigset_t all, before;
	int code;

	/* the program's signals are the program's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&maker->thread, NULL, make, maker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!code)
		return OH_OK;
	return OH__FAIL_CALL(OH_ERR_SYSTEM, "pthread_create", code,
			     "no thread to make a communicator in (see ulimit "
			     "-u)");
}

/* No thread for this rank: those that were started need not wait for it. */
static enum oh_status decline(const struct oh_comm_options *own,
			      enum oh_status status)
{
	struct oh__meeting_place place;

	if (oh__meeting_place_of_id(own->id, &place))
		return status;
	return oh__rendezvous_decline(&place, own->rank, own->ranks, status);
}

/* Starts a thread for each; those that were started fail at the rendezvous if
 * one is missing. */
static enum oh_status make_all(struct maker *makers, int count)
{
	enum oh_status status = OH_OK;
	int started = 0;

	while (started < count && !status)
		status = start(&makers[started++]);
	if (status && --started)
		status = decline(&makers[started].options, status);
	for (int i = 0; i < started; i++)
		pthread_join(makers[i].thread, NULL);
	for (int i = 0; i < started && !status; i++)
		if (makers[i].status) {
			status = makers[i].status;
			oh__error_restore(&makers[i].error);
		}
	for (int i = 0; i < started && status; i++)
		if (!makers[i].status)
			oh_comm_destroy(makers[i].comm);
	return status;
}

enum oh_status oh_comm_create_all(int count, const int *devices,
				  struct oh_comm **comms)
{
	struct maker makers[OH_MAX_RANKS];
	int device[OH_MAX_RANKS];
	struct oh_unique_id id;
	enum oh_status status;
	int cancel;

	if (!comms)
		return OH__FAIL(OH_ERR_INVALID, "comms is NULL");
	if (count < 1 || count > OH_MAX_RANKS)
		return OH__FAIL(OH_ERR_INVALID, "count is %d, it takes 1 to %d",
				count, OH_MAX_RANKS);
	cancel = oh__cancel_off();
	status = oh_unique_id_create(&id);
	memset(makers, 0, sizeof(makers));
	for (int i = 0; i < count; i++) {
		device[i] = devices ? devices[i] : i;
		makers[i].options.size = sizeof(makers[i].options);
		makers[i].options.id = &id;
		makers[i].options.rank = i;
		makers[i].options.ranks = count;
		makers[i].options.device = &device[i];
	}
	if (!status)
		status = make_all(makers, count);
	oh__cancel_restore(cancel);
	for (int i = 0; i < count && !status; i++)
		comms[i] = makers[i].comm;
	return status;
}

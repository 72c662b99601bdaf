/* SPDX-License-Identifier: MIT */
/*
 * No function of this library is a cancellation point: a thread that ended in
 * the middle of one would leave a call in flight, a lock held or descriptors
 * open. Whatever may block in the C library runs between these two.
 */
#ifndef OH_BASE_CANCEL_H
#define OH_BASE_CANCEL_H

#include <pthread.h>

static inline int oh__cancel_off(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void oh__cancel_restore(int before)
{
	pthread_setcancelstate(before, NULL);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What an id holds, and where its ranks meet. An id is a name and a secret,
 * both random: the name makes the address of an abstract UNIX socket, the
 * secret never leaves the processes that were handed the id except over that
 * socket, to a process of the same user. A launcher's environment has no
 * secret: there the name comes from uid, job and the count of communicators,
 * and the peer's uid is the only check.
 */
#ifndef OH_COMM_ID_H
#define OH_COMM_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "onehop/onehop.h"

#define OH__SECRET_BYTES 32
/* sun_path without its leading NUL */
#define OH__ADDRESS_BYTES 104

struct oh__meeting_place {
	char address[OH__ADDRESS_BYTES]; /* a string */
	uint8_t secret[OH__SECRET_BYTES]; /* zero where there is none */
};

/* The place of an id; OH_ERR_INVALID if the bytes are not an id. */
enum oh_status oh__meeting_place_of_id(const struct oh_unique_id *id,
				       struct oh__meeting_place *place);

/* The place of the count-th communicator of a launcher's job. */
void oh__meeting_place_of_job(const char *launcher, const char *job,
			      unsigned count, struct oh__meeting_place *place);

/* An id as 256 hexadecimal digits; false if text is anything else. */
bool oh__id_from_text(const char *text, struct oh_unique_id *id);

/* 32-bit FNV-1a: finds damage, proves nothing. */
uint32_t oh__checksum(const void *data, size_t bytes);

#endif

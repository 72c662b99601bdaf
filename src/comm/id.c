/* SPDX-License-Identifier: MIT */
#include "comm/id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/error.h"

/* An id's bytes. The rest of the 128 is zero. */
struct id_layout {
	char magic[4];
	uint8_t name[16];
	uint8_t secret[OH__SECRET_BYTES];
	uint32_t check; /* over all before it */
};

static const char id_magic[4] = {'O', 'H', 'I', '1'};

uint32_t oh__checksum(const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint32_t hash = 2166136261u; /* FNV-1a offset basis and prime */

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * 16777619u;
	return hash;
}

/* 64-bit FNV-1a of a string. */
static uint64_t hash_text(const char *text)
{
	uint64_t hash = 14695981039346656037ull;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 1099511628211ull;
	return hash;
}

static enum oh_status fill_random(void *data, size_t bytes)
{
	uint8_t *at = data;

	while (bytes) {
		ssize_t got = getrandom(at, bytes, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return OH__FAIL_CALL(OH_ERR_SYSTEM, "getrandom", errno,
					     "no random bytes for an id");
		at += got;
		bytes -= (size_t)got;
	}
	return OH_OK;
}

enum oh_status oh_unique_id_create(struct oh_unique_id *id)
{
	struct id_layout layout;
	enum oh_status status;
	int cancel;

	if (!id)
		return OH__FAIL(OH_ERR_INVALID, "id is NULL");
	memcpy(layout.magic, id_magic, sizeof(id_magic));
	cancel = oh__cancel_off();
	status = fill_random(layout.name, sizeof(layout.name));
	if (!status)
		status = fill_random(layout.secret, sizeof(layout.secret));
	oh__cancel_restore(cancel);
	if (status)
		return status;
	layout.check = oh__checksum(&layout, offsetof(struct id_layout, check));
	memset(id, 0, sizeof(*id));
	memcpy(id->bytes, &layout, sizeof(layout));
	return OH_OK;
}

enum oh_status oh__meeting_place_of_id(const struct oh_unique_id *id,
				       struct oh__meeting_place *place)
{
	struct id_layout layout;
	size_t used;

	memcpy(&layout, id->bytes, sizeof(layout));
	if (memcmp(layout.magic, id_magic, sizeof(id_magic)) ||
	    layout.check !=
		    oh__checksum(&layout, offsetof(struct id_layout, check)))
		return OH__FAIL(OH_ERR_INVALID,
				"the id is not one that oh_unique_id_create "
				"made, or was damaged on its way");
	used = (size_t)snprintf(place->address, sizeof(place->address),
				"onehop/");
	for (size_t i = 0; i < sizeof(layout.name); i++)
		used += (size_t)snprintf(place->address + used,
					 sizeof(place->address) - used, "%02x",
					 layout.name[i]);
	memcpy(place->secret, layout.secret, sizeof(layout.secret));
	return OH_OK;
}

void oh__meeting_place_of_job(const char *launcher, const char *job,
			      unsigned count, struct oh__meeting_place *place)
{
	snprintf(place->address, sizeof(place->address),
		 "onehop/%u/%s/%016llx/%u", (unsigned)geteuid(), launcher,
		 (unsigned long long)hash_text(job), count);
	memset(place->secret, 0, sizeof(place->secret));
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool oh__id_from_text(const char *text, struct oh_unique_id *id)
{
	struct oh_unique_id parsed;

	if (strlen(text) != 2 * sizeof(parsed.bytes))
		return false;
	for (size_t i = 0; i < sizeof(parsed.bytes); i++) {
		int high = hex_digit(text[2 * i]);
		int low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		parsed.bytes[i] = (unsigned char)(high << 4 | low);
	}
	*id = parsed;
	return true;
}

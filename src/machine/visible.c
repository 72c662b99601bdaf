/* SPDX-License-Identifier: MIT */
/*
 * CUDA_VISIBLE_DEVICES as libcuda reads it. What it does with odd values was
 * tried on driver 580.159 with two GPUs (cuInit, cuDeviceGetCount, UUIDs):
 *
 * - the list is one of UUIDs only if it begins with "GPU-" or "MIG-", in
 *   capitals and without a blank in front; else of indices;
 * - an index is what strtol makes of the entry, cut to 32 bits: blanks and a
 *   sign may lead, anything may follow ("1abc" is 1, "0x1" is 0, "4294967296"
 *   is 0); an entry without a digit, a negative or too large one ends the list;
 * - of a UUID the hexadecimal digits up to the first other sign count, in any
 *   case; a blank in front ends the list, one behind does not;
 * - a device named twice (before the list ends) makes cuInit fail.
 */
#include "machine/visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UUID_DIGITS 32

/* One entry up to the comma, while the list is read. */
struct entry {
	const char *text;
	int length;
};

static const char *const no_device = "names no device: the list ends there";

static void end_list(struct oh__visible *visible, const struct entry *entry,
		     const char *why)
{
	snprintf(visible->remark, sizeof(visible->remark), "'%.*s' %s",
		 entry->length < 48 ? entry->length : 48, entry->text, why);
}

/* The index, or -1 if there is none. */
static long index_of(const struct entry *entry)
{
	char digits[64];
	char *end;
	long long value;
	int length = entry->length < (int)sizeof(digits) - 1
			     ? entry->length
			     : (int)sizeof(digits) - 1;

	memcpy(digits, entry->text, (size_t)length);
	digits[length] = '\0';
	value = strtoll(digits, &end, 10);
	if (end == digits)
		return -1;
	return (int32_t)(uint32_t)(uint64_t)value;
}

static int digit_of(char letter)
{
	if (letter >= '0' && letter <= '9')
		return letter - '0';
	if (letter >= 'a' && letter <= 'f')
		return letter - 'a' + 10;
	if (letter >= 'A' && letter <= 'F')
		return letter - 'A' + 10;
	return -1;
}

/* Digits and dashes up to the first other sign. */
static int read_digits(const char *text, int length, char *digits)
{
	int count = 0;

	for (int i = 0; i < length && count < UUID_DIGITS; i++) {
		int digit = digit_of(text[i]);

		if (digit < 0 && text[i] != '-')
			break;
		if (digit >= 0)
			digits[count++] = (char)digit;
	}
	return count;
}

/* The only GPU whose UUID begins so; -1 if there is none, or several. */
static int gpu_of_uuid(const struct oh__machine *machine, const char *text,
		       int length)
{
	char wanted[UUID_DIGITS], digits[UUID_DIGITS];
	int count = read_digits(text, length, wanted), found = -1;

	for (int i = 0; i < machine->gpus; i++) {
		const char *uuid = machine->gpu[i].uuid.text;

		if (!oh__known(machine->gpu[i].uuid.from) ||
		    strncmp(uuid, "GPU-", 4) ||
		    read_digits(uuid + 4, (int)strlen(uuid) - 4, digits) <
			    count ||
		    memcmp(wanted, digits, (size_t)count))
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

static bool begins(const struct entry *entry, const char *prefix)
{
	int length = (int)strlen(prefix);

	return entry->length >= length &&
	       !memcmp(entry->text, prefix, (size_t)length);
}

/* Adds the GPU. A device named twice leaves none. */
static bool add(struct oh__visible *visible, const struct entry *entry, int gpu)
{
	for (int i = 0; i < visible->count; i++) {
		if (visible->gpu[i] != gpu)
			continue;
		visible->count = 0;
		end_list(visible, entry,
			 "names a device for the second time: CUDA finds no "
			 "device then");
		return false;
	}
	visible->gpu[visible->count++] = gpu;
	return true;
}

static bool add_index(const struct oh__machine *machine,
		      const struct entry *entry, struct oh__visible *visible)
{
	long index = index_of(entry);

	if (index < 0 || index >= machine->gpus) {
		end_list(visible, entry, no_device);
		return false;
	}
	return add(visible, entry, (int)index);
}

static bool add_uuid(const struct oh__machine *machine,
		     const struct entry *entry, struct oh__visible *visible)
{
	int gpu = -1;

	if (begins(entry, "GPU-"))
		gpu = gpu_of_uuid(machine, entry->text + 4, entry->length - 4);
	if (gpu < 0) {
		end_list(visible, entry,
			 "is no UUID of this machine, or of several GPUs: the "
			 "list ends there");
		return false;
	}
	return add(visible, entry, gpu);
}

/*
 * The old form names its GPU: MIG-GPU-<uuid>/<gpu instance>/<compute
 * instance>. CUDA shows one MIG device at most, so the list ends either way.
 */
static bool add_mig(const struct oh__machine *machine,
		    const struct entry *entry, struct oh__visible *visible)
{
	int gpu = -1;

	if (begins(entry, "MIG-GPU-"))
		gpu = gpu_of_uuid(machine, entry->text + 8, entry->length - 8);
	if (gpu >= 0 && oh__known(machine->gpu[gpu].mig.from) &&
	    !machine->gpu[gpu].mig.value)
		gpu = -1;
	if (gpu < 0)
		end_list(visible, entry,
			 "is no MIG device that is known here: the list ends "
			 "there");
	else if (add(visible, entry, gpu))
		end_list(visible, entry,
			 "is a MIG device: CUDA shows no other one beside it");
	return false;
}

typedef bool add_entry(const struct oh__machine *machine,
		       const struct entry *entry, struct oh__visible *visible);

static void read_list(const struct oh__machine *machine, const char *devices,
		      add_entry *take, struct oh__visible *visible)
{
	bool more = true;

	while (more && visible->count < OH__GPUS) {
		size_t length = strcspn(devices, ",");
		struct entry entry = {devices,
				      length < 4096 ? (int)length : 4096};

		more = take(machine, &entry, visible) && devices[length];
		devices += length + 1;
	}
}

static bool is_mixed(const struct oh__machine *machine)
{
	const char *first = NULL;

	for (int i = 0; i < machine->gpus; i++) {
		if (!oh__known(machine->gpu[i].name.from))
			continue;
		if (first && strcmp(first, machine->gpu[i].name.text))
			return true;
		first = machine->gpu[i].name.text;
	}
	return false;
}

void oh__visible_devices(const struct oh__machine *machine, const char *devices,
			 const char *order, struct oh__visible *visible)
{
	bool by_bus = order && !strcmp(order, "PCI_BUS_ID");
	add_entry *take = add_index;

	memset(visible, 0, sizeof(*visible));
	if (!devices) {
		for (int i = 0; i < machine->gpus; i++)
			visible->gpu[visible->count++] = i;
	} else if (!*devices) {
		snprintf(visible->remark, sizeof(visible->remark),
			 "an empty list hides every device");
	} else {
		if (!strncmp(devices, "GPU-", 4))
			take = add_uuid;
		else if (!strncmp(devices, "MIG-", 4))
			take = add_mig;
		visible->uuids = take != add_index;
		read_list(machine, devices, take, visible);
	}
	visible->order_uncertain =
		!by_bus && !visible->uuids && is_mixed(machine);
}

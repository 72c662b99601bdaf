/* SPDX-License-Identifier: MIT */
/*
 * CUDA_VISIBLE_DEVICES. The rows marked "seen" are what cuInit,
 * cuDeviceGetCount and cuDeviceGetUuid answered on driver 580.159 with two
 * GPUs; the machine below has the first digits of theirs.
 */
#include <stdio.h>
#include <string.h>

#include "machine/visible.h"
#include "tap.h"

#define A "GPU-61eba23a-966f-19bc-e8e1-0b1240c0cdc8"
#define B "GPU-a5b92466-f429-70b6-0b18-6d83c99eb13a"

static struct oh__machine machine;

static const struct oh__from somewhere = {.source = 1};

static void make_machine(int gpus, const char *const *uuids,
			 const char *const *names)
{
	memset(&machine, 0, sizeof(machine));
	oh__machine_source(&machine, "test");
	machine.gpus = gpus;
	for (int i = 0; i < gpus; i++) {
		if (uuids[i])
			oh__text_set(&machine.gpu[i].uuid, somewhere, uuids[i],
				     strlen(uuids[i]));
		if (names[i])
			oh__text_set(&machine.gpu[i].name, somewhere, names[i],
				     strlen(names[i]));
	}
}

/* "1,0", "" */
static const char *describe(const struct oh__visible *visible)
{
	static char text[256];
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < visible->count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "%s%d", i ? "," : "", visible->gpu[i]);
	return text;
}

struct row {
	const char *devices, *gpus;
	bool remark; /* something ended the list, or hid all */
};

static const struct row seen[] = {
	{NULL, "0,1", false},
	{"0", "0", false},
	{"1,0", "1,0", false},
	{"", "", true},
	{" ", "", true},
	{"-1", "", true},
	{"0,-1,1", "0", true},
	{"0,,1", "0", true},
	{"0,1,", "0,1", true},
	{",0", "", true},
	{"1abc", "1", false},
	{"1abc,0", "1,0", false},
	{"abc", "", true},
	{"+1", "1", false},
	{"0x1", "0", false},
	{"01", "1", false},
	{" 1 , 0 ", "1,0", false},
	{"1\t,0", "1,0", false},
	{"1 0", "1", false},
	{"0;1", "0", false},
	{"0,0", "", true},
	{"0,1,0", "", true},
	{"0,9,1", "0", true},
	{"9", "", true},
	{"0,9,0", "0", true},
	{"0,9,9", "0", true},
	{"0,1,2", "0,1", true},
	{"1,1abc", "", true},
	{"99999999999", "", true},
	{"4294967296", "0", false},
	{"4294967297,0", "1,0", false},
	{"0.5", "0", false},
	{"1e1", "1", false},
	{"-0", "0", false},
	{"--1", "", true},
	{"-2,0", "", true},
	{"\"0\"", "", true},
	{"NoDevFiles", "", true},
	{"0," B, "0", true},
	{A ",1", "0", true},
	{B, "1", false},
	{B "," A, "1,0", false},
	{A "," A, "", true},
	{"GPU-61eb", "0", false},
	{"GPU-61eba23a", "0", false},
	{"GPU-", "", true},
	{"GPU", "", true},
	{"GPU-61eb,GPU-61eba23a", "", true},
	{"GPU-a5b92," A, "1,0", false},
	{"GPU-61EBA23A-966F-19BC-E8E1-0B1240C0CDC8", "0", false},
	{"gpu-a5b924", "", true},
	{"a5b92466-f429-70b6-0b18-6d83c99eb13a", "", true},
	{" " B ", " A, "", true},
	{B " ," A, "1,0", false},
	{B ", " A, "1", true},
	{B ",," A, "1", true},
	{B "0," A, "1,0", false},
	{B "x", "1", false},
	{"GPU-00000000," A, "", true},
	{B ",GPU-zz," A, "1", true},
	{"MIG-" A "/0/0", "", true},
	{"MIG-" B, "", true},
	{"MIG-0000", "", true},
};

static void try_row(const struct row *row)
{
	struct oh__visible visible;

	oh__visible_devices(&machine, row->devices, NULL, &visible);
	if (!tap_ok(!strcmp(describe(&visible), row->gpus) &&
			    (*visible.remark != '\0') == row->remark,
		    "'%s' shows '%s'", row->devices ? row->devices : "(unset)",
		    row->gpus))
		tap_note("'%s', remark '%s'", describe(&visible),
			 visible.remark);
}

static void try_remarks(void)
{
	struct oh__visible visible;

	oh__visible_devices(&machine, "1,7,0", NULL, &visible);
	tap_ok(strstr(visible.remark, "'7'") &&
		       strstr(visible.remark, "list ends"),
	       "what ended the list is named: %s", visible.remark);
	oh__visible_devices(&machine, "1,1", NULL, &visible);
	tap_ok(strstr(visible.remark, "second time") != NULL,
	       "a device named twice: %s", visible.remark);
	oh__visible_devices(&machine, "", NULL, &visible);
	tap_ok(strstr(visible.remark, "empty") != NULL, "nothing: %s",
	       visible.remark);
	oh__visible_devices(&machine, "GPU-dead", NULL, &visible);
	tap_ok(visible.uuids && strstr(visible.remark, "GPU-dead"),
	       "a UUID that is not known: %s", visible.remark);
	oh__visible_devices(&machine, "0", NULL, &visible);
	tap_ok(!visible.uuids && !*visible.remark, "indices are no UUIDs");
}

static void try_mig(void)
{
	struct oh__visible visible;

	/* MIG mode is on: the old form names the GPU, one device is shown */
	oh__number_set(&machine.gpu[1].mig, somewhere, 1);
	oh__visible_devices(&machine, "MIG-" B "/7/0,MIG-" A "/1/0", NULL,
			    &visible);
	tap_ok(!strcmp(describe(&visible), "1") && visible.uuids &&
		       strstr(visible.remark, "MIG"),
	       "a MIG device: %s", visible.remark);
	/* the new form is a UUID of its own, which no report maps to a GPU */
	oh__visible_devices(&machine, "MIG-12345678", NULL, &visible);
	tap_ok(!visible.count && strstr(visible.remark, "MIG-12345678"),
	       "a MIG device that is not known: %s", visible.remark);
	oh__number_set(&machine.gpu[1].mig, somewhere, 0);
	oh__visible_devices(&machine, "MIG-" B "/7/0", NULL, &visible);
	tap_ok(!visible.count, "a MIG device of a GPU whose MIG mode is off");
}

static void try_order(void)
{
	static const char *const uuids[] = {A, B, NULL};
	static const char *const mixed[] = {"NVIDIA L4", "NVIDIA A10",
					    "NVIDIA L4"};
	static const char *const unknown[] = {"NVIDIA L4", NULL, NULL};
	struct oh__visible visible;

	make_machine(3, uuids, mixed);
	oh__visible_devices(&machine, "0,2", NULL, &visible);
	tap_ok(visible.order_uncertain && visible.count == 2,
	       "two models: CUDA's order is not known");
	oh__visible_devices(&machine, "0,2", "FASTEST_FIRST", &visible);
	tap_ok(visible.order_uncertain, "nor is it with FASTEST_FIRST");
	oh__visible_devices(&machine, "0,2", "PCI_BUS_ID", &visible);
	tap_ok(!visible.order_uncertain, "with PCI_BUS_ID it is");
	oh__visible_devices(&machine, NULL, "pci_bus_id", &visible);
	tap_ok(visible.order_uncertain && visible.count == 3,
	       "the word has capitals");
	oh__visible_devices(&machine, A, NULL, &visible);
	tap_ok(!visible.order_uncertain && visible.count == 1,
	       "a UUID needs no order");
	/* its UUID is not known: it must not be taken for another one */
	oh__visible_devices(&machine, A ",GPU-77777777", NULL, &visible);
	tap_ok(visible.count == 1 && visible.gpu[0] == 0,
	       "the UUID of a GPU that has none here");
	make_machine(3, uuids, unknown);
	oh__visible_devices(&machine, NULL, NULL, &visible);
	tap_ok(!visible.order_uncertain, "names that are not known differ not");
}

static void try_many(void)
{
	static const char *const none[OH__GPUS];
	struct oh__visible visible;
	char list[OH__GPUS * 8] = "";

	make_machine(OH__GPUS, none, none);
	for (int i = 0; i < OH__GPUS; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list),
			 "%s%d", i ? "," : "", i);
	oh__visible_devices(&machine, list, NULL, &visible);
	tap_ok(visible.count == OH__GPUS, "as many GPUs as there may be");
	make_machine(0, none, none);
	oh__visible_devices(&machine, NULL, NULL, &visible);
	tap_ok(!visible.count, "no GPU");
	oh__visible_devices(&machine, "0", NULL, &visible);
	tap_ok(!visible.count && *visible.remark, "none has an index");
}

int main(void)
{
	static const char *const uuids[] = {A, B};
	static const char *const names[] = {"NVIDIA H200", "NVIDIA H200"};

	make_machine(2, uuids, names);
	for (int i = 0; i < 2; i++)
		oh__number_set(&machine.gpu[i].mig, somewhere, 0);
	for (size_t i = 0; i < sizeof(seen) / sizeof(*seen); i++)
		try_row(&seen[i]);
	try_remarks();
	try_mig();
	try_order();
	try_many();
	return tap_done();
}

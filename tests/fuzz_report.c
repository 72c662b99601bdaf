/* SPDX-License-Identifier: MIT */
/*
 * A target for libFuzzer, built on request only (clang):
 *
 *	meson compile -C build fuzz_report && build/tests/fuzz_report
 *
 * The input is a report, and its first line also a CUDA_VISIBLE_DEVICES. What
 * is read must be a machine that holds together; what is refused must leave a
 * message.
 */
#include <stdlib.h>
#include <string.h>

#include "machine/report.h"
#include "machine/visible.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void check_text(const struct oh__machine *machine,
		       const struct oh__text *text)
{
	require(memchr(text->text, '\0', sizeof(text->text)) != NULL);
	require(text->from.source <= (uint32_t)machine->source_count);
	for (const char *letter = text->text; *letter; letter++)
		require(*letter >= 0x20 && *letter < 0x7f);
}

/* A matrix is read as a whole or not at all, and is the same both ways. */
static void check_pair(const struct oh__machine *machine, int from, int to)
{
	const struct oh__link *link = &machine->link[from][to];
	const struct oh__link *back = &machine->link[to][from];

	require(oh__known(link->from) == oh__known(machine->link[0][0].from));
	require(link->kind == back->kind && link->nvlinks == back->nvlinks);
	require((link->kind == OH__LINK_SELF) ==
		(from == to && oh__known(link->from)));
	for (int aspect = 0; aspect < OH__PEER_ASPECTS; aspect++) {
		const struct oh__peer *peer = &machine->peer[aspect][from][to];

		require(oh__known(peer->from) ==
			(peer->status != OH__PEER_NOT_ASKED));
		require(from != to || !oh__known(peer->from));
	}
}

static void check_groups(const struct oh__machine *machine)
{
	struct oh__groups groups;
	bool seen[OH__GPUS] = {false};
	int members = 0;

	oh__machine_switch_groups(machine, &groups);
	oh__machine_islands(machine, &groups);
	for (int i = 0; i < groups.count; i++) {
		require(groups.size[i] > 0);
		for (int j = 0; j < groups.size[i]; j++, members++) {
			int gpu = groups.member[i][j];

			require(gpu >= 0 && gpu < machine->gpus && !seen[gpu]);
			require(!j || gpu > groups.member[i][j - 1]);
			seen[gpu] = true;
		}
	}
	require(!groups.count || members == machine->gpus);
	oh__machine_peers(machine);
}

static void check(const struct oh__machine *machine)
{
	require(machine->gpus >= 0 && machine->gpus <= OH__GPUS);
	require(machine->variable_count >= 0 &&
		machine->variable_count <= OH__VARIABLES);
	require(machine->remark_count >= 0 &&
		machine->remark_count <= OH__REMARKS);
	for (int i = 0; i < machine->gpus; i++) {
		check_text(machine, &machine->gpu[i].name);
		check_text(machine, &machine->gpu[i].uuid);
		check_text(machine, &machine->gpu[i].pci);
		check_text(machine, &machine->gpu[i].cpu_affinity);
		for (int j = 0; j < machine->gpus; j++)
			check_pair(machine, i, j);
	}
	check_text(machine, &machine->host.driver);
	check_text(machine, &machine->host.cpu);
	check_text(machine, &machine->host.command_line);
	check_groups(machine);
}

static void check_visible(const struct oh__machine *machine, const char *data,
			  size_t bytes)
{
	struct oh__visible visible;
	char devices[256];

	if (bytes >= sizeof(devices))
		bytes = sizeof(devices) - 1;
	memcpy(devices, data, bytes);
	devices[bytes] = '\0';
	oh__visible_devices(machine, devices, NULL, &visible);
	require(visible.count >= 0 && visible.count <= machine->gpus);
	for (int i = 0; i < visible.count; i++)
		require(visible.gpu[i] >= 0 && visible.gpu[i] < machine->gpus);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct oh__machine machine, twice;
	struct oh__report *report = oh__report_create("input");
	const char *text = (const char *)data, *end = text + bytes;
	size_t first = 0; /* bytes of the first line */
	enum oh_status status;
	bool found;

	while (first < bytes && text[first] != '\n')
		first++;
	require(report != NULL);
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	for (const char *line = text; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));

		stop = stop ? stop : end;
		oh__report_feed(report, line, (size_t)(stop - line));
		line = stop + 1;
	}
	status = oh__report_finish(report, &machine, &found);
	if (status) {
		require(status == OH_ERR_INVALID ||
			status == OH_ERR_UNSUPPORTED);
		require(*oh_last_error()->message != '\0');
		return 0;
	}
	require(found || !machine.gpus);
	check(&machine);
	check_visible(&machine, text, first);
	/* a machine agrees with itself */
	memset(&twice, 0, sizeof(twice));
	require(!oh__machine_merge(&twice, &machine));
	require(!oh__machine_merge(&twice, &machine));
	return 0;
}

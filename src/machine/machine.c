/* SPDX-License-Identifier: MIT */
/*
 * Data of a machine and where they come from. Texts are printable ASCII when
 * they have been set: they go to terminals and into JSON, and come from files
 * that anybody may have written. What does not fit is cut, never refused.
 */
#include "machine/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t oh__machine_source(struct oh__machine *machine, const char *name)
{
	char cut[OH__TEXT_BYTES] = "";

	snprintf(cut, sizeof(cut), "%s", name);
	for (int i = 0; i < machine->source_count; i++)
		if (!strcmp(machine->sources[i], cut))
			return (uint32_t)i + 1;
	if (machine->source_count == OH__SOURCES)
		return OH__SOURCES;
	memcpy(machine->sources[machine->source_count], cut, sizeof(cut));
	return (uint32_t)++machine->source_count;
}

const char *oh__machine_origin(const struct oh__machine *machine,
			       struct oh__from from, char *text, size_t bytes)
{
	if (!oh__known(from) || from.source > (uint32_t)machine->source_count)
		snprintf(text, bytes, "unknown");
	else if (from.line)
		snprintf(text, bytes, "%s:%u",
			 machine->sources[from.source - 1], from.line);
	else
		snprintf(text, bytes, "%s", machine->sources[from.source - 1]);
	return text;
}

void oh__number_set(struct oh__number *number, struct oh__from from,
		    uint64_t value)
{
	number->from = from;
	number->value = value;
}

/* Control characters become blanks, bytes beyond ASCII question marks. */
static char printable(char letter)
{
	unsigned char byte = (unsigned char)letter;

	if (byte < 0x20 || byte == 0x7f)
		return ' ';
	return byte > 0x7f ? '?' : letter;
}

void oh__text_set(struct oh__text *text, struct oh__from from,
		  const char *value, size_t bytes)
{
	size_t length =
		bytes < sizeof(text->text) ? bytes : sizeof(text->text) - 1;

	text->from = from;
	memset(text->text, 0, sizeof(text->text));
	for (size_t i = 0; i < length; i++)
		text->text[i] = printable(value[i]);
}

void oh__machine_remark(struct oh__machine *machine, struct oh__from from,
			const char *format, ...)
{
	struct oh__remark *remark;
	va_list args;

	if (machine->remark_count == OH__REMARKS)
		return;
	remark = &machine->remarks[machine->remark_count++];
	remark->from = from;
	va_start(args, format);
	vsnprintf(remark->text, sizeof(remark->text), format, args);
	va_end(args);
	for (char *letter = remark->text; *letter; letter++)
		*letter = printable(*letter);
}

const struct oh__variable *
oh__machine_variable(const struct oh__machine *machine, const char *name)
{
	for (int i = 0; i < machine->variable_count; i++)
		if (!strcmp(machine->variables[i].name, name))
			return &machine->variables[i];
	return NULL;
}

/* What does not depend on which GPUs there are. */
static void copy_common(const struct oh__machine *machine,
			struct oh__machine *copy)
{
	copy->source_count = machine->source_count;
	memcpy(copy->sources, machine->sources, sizeof(copy->sources));
	copy->host = machine->host;
	copy->variable_count = machine->variable_count;
	memcpy(copy->variables, machine->variables, sizeof(copy->variables));
	copy->remark_count = machine->remark_count;
	memcpy(copy->remarks, machine->remarks, sizeof(copy->remarks));
}

static void copy_pair(const struct oh__machine *machine, int from, int to,
		      struct oh__machine *copy, int copy_from, int copy_to)
{
	copy->link[copy_from][copy_to] = machine->link[from][to];
	for (int aspect = 0; aspect < OH__PEER_ASPECTS; aspect++)
		copy->peer[aspect][copy_from][copy_to] =
			machine->peer[aspect][from][to];
}

void oh__machine_pick(const struct oh__machine *machine, const int *gpus,
		      int count, struct oh__machine *picked)
{
	int kept[OH__GPUS], keep = 0;

	for (int i = 0; i < count && keep < OH__GPUS; i++)
		if (gpus[i] >= 0 && gpus[i] < machine->gpus)
			kept[keep++] = gpus[i];
	memset(picked, 0, sizeof(*picked));
	copy_common(machine, picked);
	picked->gpus = keep;
	for (int i = 0; i < keep; i++) {
		picked->gpu[i] = machine->gpu[kept[i]];
		for (int j = 0; j < keep; j++)
			copy_pair(machine, kept[i], kept[j], picked, i, j);
	}
}

const char *oh__link_text(const struct oh__link *link, char text[8])
{
	static const char *const words[] = {
		[OH__LINK_UNKNOWN] = "?", [OH__LINK_SELF] = "X",
		[OH__LINK_NV] = "NV",	  [OH__LINK_PIX] = "PIX",
		[OH__LINK_PXB] = "PXB",	  [OH__LINK_PHB] = "PHB",
		[OH__LINK_NODE] = "NODE", [OH__LINK_SYS] = "SYS",
	};

	if (!oh__known(link->from))
		snprintf(text, 8, "?");
	else if (link->kind == OH__LINK_NV)
		snprintf(text, 8, "NV%u", link->nvlinks % 100000);
	else
		snprintf(text, 8, "%s", words[link->kind]);
	return text;
}

const char *oh__peer_status_text(enum oh__peer_status status)
{
	static const char *const words[] = {
		[OH__PEER_NOT_ASKED] = "?", [OH__PEER_OK] = "OK",
		[OH__PEER_CNS] = "CNS",	    [OH__PEER_GNS] = "GNS",
		[OH__PEER_TNS] = "TNS",	    [OH__PEER_DR] = "DR",
		[OH__PEER_NS] = "NS",	    [OH__PEER_U] = "U",
	};

	return (size_t)status < sizeof(words) / sizeof(*words) ? words[status]
							       : "?";
}
